"""LeaveGroup, versions 0 to 5: members go, and the others rebalance.

From version 3 on several go at once, each with an error of its own, and a static member may be named by its instance id
alone. The reason (version 5) is not kept.
"""

from __future__ import annotations

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafkalite.server.services import Call, Services


def handle(services: Services, call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Removes the members."""
    groups = services.groups
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        return LeaveGroupResponse(error_code=error)
    if call.header.api_version < 3:
        return LeaveGroupResponse(error_code=groups.leave(request.group_id, request.member_id, None))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=groups.leave(request.group_id, member.member_id, member.group_instance_id),
            )
            for member in request.members
        ]
    )
