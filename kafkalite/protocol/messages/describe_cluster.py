"""DescribeCluster (key 60), versions 0 and 1: the brokers and the controller (KIP-700). Flexible from the beginning.

v1  endpoint type: 1 brokers, 2 controllers (KIP-919).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Message, Struct, field


class DescribeClusterRequest(Message, versions=(0, 1), flexible_from=0):
    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = field(since=1, default=1)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None


class DescribeClusterResponse(Message, versions=(0, 1), flexible_from=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: str
    controller_id: Int32 = -1
    brokers: Sequence[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -(2**31)
