"""ListOffsets (key 2), versions 1 to 7: finds an offset by time, or the earliest (-2) or latest (-1) one.

v1  one offset per partition, not a list of them (KIP-79).
v2  isolation level (KIP-98).
v4  leader epochs (KIP-320).
v6  flexible.
v7  timestamp -3: the record with the largest timestamp (KIP-734).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = field(since=4, default=-1)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    name: str
    partitions: Sequence[ListOffsetsPartition]


class ListOffsetsRequest(Message, versions=(1, 7), flexible_from=6):
    replica_id: Int32 = -1
    isolation_level: Int8 = field(since=2, default=0)
    topics: Sequence[ListOffsetsTopic]


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field(since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str
    partitions: Sequence[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, versions=(1, 7), flexible_from=6):
    throttle_time_ms: Int32 = field(since=2, default=0)
    topics: Sequence[ListOffsetsTopicResponse]
