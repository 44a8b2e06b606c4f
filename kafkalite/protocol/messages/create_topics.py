"""CreateTopics (key 19), versions 2 to 7.

v4  partition count and replication factor -1: the broker's defaults (KIP-464).
v5  flexible; the response has the topic's size and configuration (KIP-525).
v6  THROTTLING_QUOTA_EXCEEDED is possible (KIP-599).
v7  topic ids (KIP-516).
"""

import uuid
from collections.abc import Sequence

from kafkalite.protocol.schema import ZERO_UUID, Int8, Int16, Int32, Message, Struct, field


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: Sequence[Int32]


class CreatableTopicConfig(Struct):
    name: str
    value: str | None


class CreatableTopic(Struct):
    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


class CreateTopicsRequest(Message, versions=(2, 7), flexible_from=5):
    topics: Sequence[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatableTopicConfigs(Struct):
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


class CreatableTopicResult(Struct):
    name: str
    topic_id: uuid.UUID = field(since=7, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: str | None = None
    topic_config_error_code: Int16 = field(since=5, tag=0, default=0)
    num_partitions: Int32 = field(since=5, default=-1)
    replication_factor: Int16 = field(since=5, default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = field(since=5, default=None)


class CreateTopicsResponse(Message, versions=(2, 7), flexible_from=5):
    throttle_time_ms: Int32 = 0
    topics: Sequence[CreatableTopicResult]
