"""DeleteGroups (key 42), versions 0 to 2: removes empty groups and their committed positions (KIP-229).

v2  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct


class DeleteGroupsRequest(Message, versions=(0, 2), flexible_from=2):
    groups_names: Sequence[str]


class DeletableGroupResult(Struct):
    group_id: str
    error_code: Int16 = 0


class DeleteGroupsResponse(Message, versions=(0, 2), flexible_from=2):
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult]
