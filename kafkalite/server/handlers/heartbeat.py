"""Heartbeat, versions 0 to 4: keeps a member's session; REBALANCE_IN_PROGRESS tells it to join again."""

from __future__ import annotations

from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keeps the session."""
    error = services.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)
