"""ListGroups (key 16), versions 0 to 4: the groups that this broker coordinates.

v3  flexible.
v4  filter by state, and the state in the response (KIP-518).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct, field


class ListGroupsRequest(Message, versions=(0, 4), flexible_from=3):
    states_filter: Sequence[str] = field(since=4, default=())


class ListedGroup(Struct):
    group_id: str
    protocol_type: str
    group_state: str = field(since=4, default="")


class ListGroupsResponse(Message, versions=(0, 4), flexible_from=3):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
    groups: Sequence[ListedGroup]
