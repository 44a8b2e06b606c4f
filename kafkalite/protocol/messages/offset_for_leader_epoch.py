"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ended, to find where logs diverge.

v2  the reader's own leader epoch (KIP-320).
v3  replica id: -1 a consumer, -2 one that does not say (KIP-320).
v4  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: str
    partitions: Sequence[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, versions=(2, 4), flexible_from=4):
    replica_id: Int32 = field(since=3, default=-2)
    topics: Sequence[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str
    partitions: Sequence[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, versions=(2, 4), flexible_from=4):
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetForLeaderTopicResult]
