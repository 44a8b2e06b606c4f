"""SyncGroup, versions 0 to 5: the leader hands in the assignment; members get their parts once it is stored.

Protocol type and name, where a member gives them (version 5), must be the group's.
"""

from __future__ import annotations

from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalite.server.services import Call, Services


async def handle(services: Services, _call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Waits for the leader's assignment."""
    result = await services.groups.sync(
        request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
