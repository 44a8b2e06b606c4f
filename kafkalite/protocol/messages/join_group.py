"""JoinGroup (key 11), versions 0 to 7: enters a group; the answer comes when the group's next generation is complete.

v1  separate rebalance timeout (KIP-62).
v4  a member without id gets MEMBER_ID_REQUIRED and an id to come back with (KIP-394).
v5  static membership (KIP-345).
v6  flexible.
v7  protocol type in the response, null protocol name on errors (KIP-559).

Only the leader's response lists the members.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: str
    metadata: bytes


class JoinGroupRequest(Message, versions=(0, 7), flexible_from=6):
    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(since=1, default=-1)
    member_id: str
    group_instance_id: str | None = field(since=5, default=None)
    protocol_type: str
    protocols: Sequence[JoinGroupRequestProtocol]


class JoinGroupResponseMember(Struct):
    member_id: str
    group_instance_id: str | None = field(since=5, default=None)
    metadata: bytes


class JoinGroupResponse(Message, versions=(0, 7), flexible_from=6):
    throttle_time_ms: Int32 = field(since=2, default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: str | None = field(since=7, default=None)
    protocol_name: str | None = field(nullable_since=7)
    leader: str
    member_id: str
    members: Sequence[JoinGroupResponseMember] = ()
