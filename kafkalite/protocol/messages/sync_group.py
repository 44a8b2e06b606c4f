"""SyncGroup (key 14), versions 0 to 5: the group's leader hands in the assignment, each member receives its part.

v3  static membership (KIP-345).
v4  flexible.
v5  protocol type and name, to be checked on both sides (KIP-559).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str
    assignment: bytes


class SyncGroupRequest(Message, versions=(0, 5), flexible_from=4):
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = field(since=3, default=None)
    protocol_type: str | None = field(since=5, default=None)
    protocol_name: str | None = field(since=5, default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = ()


class SyncGroupResponse(Message, versions=(0, 5), flexible_from=4):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
    protocol_type: str | None = field(since=5, default=None)
    protocol_name: str | None = field(since=5, default=None)
    assignment: bytes
