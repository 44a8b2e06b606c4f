"""LeaveGroup (key 13), versions 0 to 5: members go.

v3  several members at once, in `members`; the field for one member is gone (KIP-345).
v4  flexible.
v5  the reason (KIP-800).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct, field


class MemberIdentity(Struct):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = field(since=5, default=None)


class LeaveGroupRequest(Message, versions=(0, 5), flexible_from=4):
    group_id: str
    member_id: str = field(until=2, default="")
    members: Sequence[MemberIdentity] = field(since=3, default=())


class MemberResponse(Struct):
    member_id: str
    group_instance_id: str | None = None
    error_code: Int16 = 0


class LeaveGroupResponse(Message, versions=(0, 5), flexible_from=4):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
    members: Sequence[MemberResponse] = field(since=3, default=())
