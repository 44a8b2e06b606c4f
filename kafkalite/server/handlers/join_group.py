"""JoinGroup, versions 0 to 7: a member enters a group; answered when the group's next generation is complete.

From version 4 on a member without id gets one and MEMBER_ID_REQUIRED (KIP-394), unless it is static (KIP-345). Version
0 has no rebalance timeout of its own: the session timeout stands for it. Not here: KIP-814, which needs version 9.
"""

from __future__ import annotations

import uuid
from typing import Final

from kafkalite.groups.member import Join
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafkalite.server.services import Call, Services

_MAX_ID_PREFIX: Final = 255
"""Characters of a client's own name in a member id: the id travels in every request and is stored with the group."""


async def handle(services: Services, call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Joins, and waits for the others."""
    version = call.header.api_version
    client_id = call.header.client_id or ""
    session_timeout_ms, rebalance_timeout_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    result = await services.groups.join(
        request.group_id,
        Join(
            member_id=request.member_id,
            new_member_id=f"{(request.group_instance_id or client_id)[:_MAX_ID_PREFIX]}-{uuid.uuid4()}",
            instance_id=request.group_instance_id,
            must_know_id=version >= 4,
            client_id=client_id,
            client_host=call.client_host,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        ),
    )
    protocol_name = result.protocol_name
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name="" if protocol_name is None and version < 7 else protocol_name,
        leader=result.leader_id,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
