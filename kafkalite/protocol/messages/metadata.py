"""Metadata (key 3), versions 0 to 12: which brokers there are, and who leads the partitions of topics.

v0  an empty list of topics means all topics.
v1  null means all topics, empty means none; controller, racks, internal topics.
v2  cluster id (KIP-78).
v4  the client says whether asking may create a topic.
v5  offline replicas (KIP-112).
v7  leader epochs (KIP-320).
v8  authorized operations (KIP-430); those of the cluster until v10 (KIP-700).
v9  flexible.
v10 topic ids (KIP-516); v12 can ask by them, so names may be null.
"""

import uuid
from collections.abc import Sequence

from kafkalite.protocol.schema import ZERO_UUID, Int16, Int32, Message, Struct, field

OPERATIONS_NOT_ASKED = -(2**31)
"""The value of `…_authorized_operations` when the client did not ask for them."""


class MetadataRequestTopic(Struct):
    topic_id: uuid.UUID = field(since=10, default=ZERO_UUID)
    name: str | None = field(nullable_since=10)


class MetadataRequest(Message, versions=(0, 12), flexible_from=9):
    topics: Sequence[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: bool = field(since=4, default=True)
    include_cluster_authorized_operations: bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: bool = field(since=8, default=False)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = field(since=1, default=None)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(since=7, default=-1)
    replica_nodes: Sequence[Int32]
    isr_nodes: Sequence[Int32]
    offline_replicas: Sequence[Int32] = field(since=5, default=())


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: str | None = field(nullable_since=12)
    topic_id: uuid.UUID = field(since=10, default=ZERO_UUID)
    is_internal: bool = field(since=1, default=False)
    partitions: Sequence[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field(since=8, default=OPERATIONS_NOT_ASKED)


class MetadataResponse(Message, versions=(0, 12), flexible_from=9):
    throttle_time_ms: Int32 = field(since=3, default=0)
    brokers: Sequence[MetadataResponseBroker]
    cluster_id: str | None = field(since=2, default=None)
    controller_id: Int32 = field(since=1, default=-1)
    topics: Sequence[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=OPERATIONS_NOT_ASKED)
