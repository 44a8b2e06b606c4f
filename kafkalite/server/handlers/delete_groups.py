"""DeleteGroups, versions 0 to 2: removes empty groups with their committed positions (KIP-229).

NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND for what is not there.
"""

from __future__ import annotations

from kafkalite.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Deletes each group that can be."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=services.groups.delete(group_id))
            for group_id in request.groups_names
        ]
    )
