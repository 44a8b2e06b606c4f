"""AddPartitionsToTxn (key 24), versions 0 to 3: partitions that a transaction is about to write to (KIP-98).

v3  flexible.

Kafka's tables call these fields `v3_and_below_…`, because v4, which brokers use among themselves, is of another shape.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct


class AddPartitionsToTxnTopic(Struct):
    name: str
    partitions: Sequence[Int32]


class AddPartitionsToTxnRequest(Message, versions=(0, 3), flexible_from=3):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    topics: Sequence[AddPartitionsToTxnTopic]


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: str
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResponse(Message, versions=(0, 3), flexible_from=3):
    throttle_time_ms: Int32 = 0
    results_by_topic: Sequence[AddPartitionsToTxnTopicResult]
