"""DescribeGroups, versions 0 to 5: state, members and assignments of groups.

A group that does not exist is Dead, without an error. What members said and were given is shown in Stable only, as
Kafka does: in other states it is about to change. There are no ACLs, so authorized operations are not told.
"""

from __future__ import annotations

from kafkalite.errors import ErrorCode
from kafkalite.groups.group import GroupState
from kafkalite.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describes each group."""
    return DescribeGroupsResponse(groups=[_describe(services, group_id) for group_id in request.groups])


def _describe(services: Services, group_id: str) -> DescribedGroup:
    error = services.groups.refusal(group_id, may_be_empty=True)
    group = services.groups.find(group_id)
    if error is not ErrorCode.NONE or group is None:
        state = "" if error else GroupState.DEAD.value
        return DescribedGroup(
            error_code=error, group_id=group_id, group_state=state, protocol_type="", protocol_data="", members=[]
        )
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
