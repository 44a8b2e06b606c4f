"""Fetch (key 1), versions 4 to 12: reads record batches from a set of partitions, as a consumer or as a follower.

v4  isolation level, last stable offset and aborted transactions (KIP-98).
v5  log start offset, of the leader and of the follower (KIP-107).
v7  incremental fetch sessions (KIP-227).
v9  the reader's leader epoch fences stale leaders (KIP-320).
v10 zstd is allowed (KIP-110).
v11 rack of the consumer, preferred read replica (KIP-392).
v12 flexible; last fetched epoch and the diverging epoch (KIP-595).

In a response, `records` may be a `FileRange`; see `api.encode_response_pieces`.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Int64, Message, RecordsOrFileRange, Struct, field


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field(since=9, default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(since=12, default=-1)
    log_start_offset: Int64 = field(since=5, default=-1)
    partition_max_bytes: Int32


class FetchTopic(Struct):
    topic: str
    partitions: Sequence[FetchPartition]


class ForgottenTopic(Struct):
    topic: str
    partitions: Sequence[Int32]


class FetchRequest(Message, versions=(4, 12), flexible_from=12):
    cluster_id: str | None = field(since=12, tag=0, default=None)
    replica_id: Int32 = -1
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFF_FFFF
    isolation_level: Int8 = 0
    session_id: Int32 = field(since=7, default=0)
    session_epoch: Int32 = field(since=7, default=-1)
    topics: Sequence[FetchTopic]
    forgotten_topics_data: Sequence[ForgottenTopic] = field(since=7, default=())
    rack_id: str = field(since=11, default="")


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field(since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = field(since=12, tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = field(since=12, tag=1, default=None)
    snapshot_id: SnapshotId | None = field(since=12, tag=2, default=None)
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: Int32 = field(since=11, default=-1)
    records: RecordsOrFileRange | None


class FetchableTopicResponse(Struct):
    topic: str
    partitions: Sequence[PartitionData]


class FetchResponse(Message, versions=(4, 12), flexible_from=12):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=7, default=0)
    session_id: Int32 = field(since=7, default=0)
    responses: Sequence[FetchableTopicResponse]
