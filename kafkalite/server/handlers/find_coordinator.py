"""FindCoordinator, versions 0 to 4: which broker coordinates a group.

This broker does, for every group. Key type 1 (transactions) is refused with a message, because transactions are not
built yet; other key types with INVALID_REQUEST. Version 4 asks for several keys at once.
"""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.model import BrokerInfo
from kafkalite.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkalite.server.handlers.transactions import NOT_BUILT
from kafkalite.server.services import Call, Services

_GROUP: Final = 0
_TRANSACTION: Final = 1
_NOBODY: Final = BrokerInfo(-1, "", -1)


def handle(services: Services, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Names the coordinator of each key."""
    broker, error, message = _coordinator(services, request.key_type)
    if call.header.api_version >= 4:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=broker.node_id,
                    host=broker.host,
                    port=broker.port,
                    error_code=error,
                    error_message=message,
                )
                for key in request.coordinator_keys
            ]
        )
    return FindCoordinatorResponse(
        error_code=error, error_message=message, node_id=broker.node_id, host=broker.host, port=broker.port
    )


def _coordinator(services: Services, key_type: int) -> tuple[BrokerInfo, ErrorCode, str | None]:
    if key_type == _TRANSACTION:
        return _NOBODY, NOT_BUILT, "transactions are not built yet"
    if key_type != _GROUP:
        return _NOBODY, ErrorCode.INVALID_REQUEST, f"there is no coordinator of key type {key_type}; 0 is a group's"
    for broker in services.store.snapshot.brokers:
        if broker.node_id == services.config.node_id:
            return broker, ErrorCode.NONE, None
    return _NOBODY, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is not ready yet"
