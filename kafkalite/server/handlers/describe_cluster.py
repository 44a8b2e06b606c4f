"""DescribeCluster (key 60), versions 0 and 1: the brokers and which of them is the controller.

Not implemented: controllers as an endpoint of their own (KIP-919), and authorized operations.
"""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafkalite.server.services import Call, Services

_BROKERS: Final = 1


def handle(services: Services, _call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    cluster = services.store.snapshot
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoint type {request.endpoint_type}: this listener is for clients, ask for 1 (brokers)",
            endpoint_type=request.endpoint_type,
            cluster_id=cluster.cluster_id,
            brokers=(),
        )
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker.node_id, host=broker.host, port=broker.port)
            for broker in cluster.brokers
        ],
    )
