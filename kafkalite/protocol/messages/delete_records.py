"""DeleteRecords (key 21), versions 0 to 2: moves the log start offset of partitions forward (KIP-107).

Offset -1 stands for the high watermark.

v2  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    name: str
    partitions: Sequence[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, versions=(0, 2), flexible_from=2):
    topics: Sequence[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: str
    partitions: Sequence[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, versions=(0, 2), flexible_from=2):
    throttle_time_ms: Int32 = 0
    topics: Sequence[DeleteRecordsTopicResult]
