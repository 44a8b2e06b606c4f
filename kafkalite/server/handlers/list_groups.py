"""ListGroups, versions 0 to 4: the groups of this broker; version 4 has their states, and a filter by state.

States are compared without regard to case; a state that does not exist matches nothing.
"""

from __future__ import annotations

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Lists the groups."""
    error = services.groups.refusal("", may_be_empty=True)
    if error is not ErrorCode.NONE:
        return ListGroupsResponse(error_code=error, groups=[])
    states = {state.lower() for state in request.states_filter}
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "", group_state=group.state.value)
            for group in services.groups.all_groups()
            if not states or group.state.value.lower() in states
        ]
    )
