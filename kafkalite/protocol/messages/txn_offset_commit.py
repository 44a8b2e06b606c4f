"""TxnOffsetCommit (key 28), versions 0 to 3: stores a group's positions as part of a transaction (KIP-98).

v2  leader epoch of the committed offset (KIP-320).
v3  flexible; the consumer's generation and member id fence zombies (KIP-447).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=2, default=-1)
    committed_metadata: str | None = None


class TxnOffsetCommitRequestTopic(Struct):
    name: str
    partitions: Sequence[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, versions=(0, 3), flexible_from=3):
    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field(since=3, default=-1)
    member_id: str = field(since=3, default="")
    group_instance_id: str | None = field(since=3, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: str
    partitions: Sequence[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, versions=(0, 3), flexible_from=3):
    throttle_time_ms: Int32 = 0
    topics: Sequence[TxnOffsetCommitResponseTopic]
