"""Produce (key 0), versions 3 to 9: appends one record batch to each of a set of partitions.

v3  transactional id; record batches v2 only (KIP-98). Versions 0 to 2 carried older message formats and are not served.
v4  KAFKA_STORAGE_ERROR is possible (KIP-112).
v5  the response has the log start offset (KIP-107).
v7  zstd is allowed (KIP-110).
v8  per-record errors and an error message in the response (KIP-467).
v9  flexible.

With `acks` 0 there is no response at all.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Records, Struct, field


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    name: str
    partition_data: Sequence[PartitionProduceData]


class ProduceRequest(Message, versions=(3, 9), flexible_from=9):
    transactional_id: str | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Sequence[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: str | None = None


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = field(since=5, default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(since=8, default=())
    error_message: str | None = field(since=8, default=None)


class TopicProduceResponse(Struct):
    name: str
    partition_responses: Sequence[PartitionProduceResponse]


class ProduceResponse(Message, versions=(3, 9), flexible_from=9):
    responses: Sequence[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
