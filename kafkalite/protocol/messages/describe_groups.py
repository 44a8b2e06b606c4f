"""DescribeGroups (key 15), versions 0 to 5: state, members and assignments of groups.

v3  authorized operations (KIP-430).
v4  static membership (KIP-345).
v5  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct, field


class DescribeGroupsRequest(Message, versions=(0, 5), flexible_from=5):
    groups: Sequence[str]
    include_authorized_operations: bool = field(since=3, default=False)


class DescribedGroupMember(Struct):
    member_id: str
    group_instance_id: str | None = field(since=4, default=None)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Struct):
    error_code: Int16 = 0
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Sequence[DescribedGroupMember]
    authorized_operations: Int32 = field(since=3, default=-(2**31))


class DescribeGroupsResponse(Message, versions=(0, 5), flexible_from=5):
    throttle_time_ms: Int32 = field(since=1, default=0)
    groups: Sequence[DescribedGroup]
