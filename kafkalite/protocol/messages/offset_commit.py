"""OffsetCommit (key 8), versions 2 to 8: stores a group's positions.

v2  the broker keeps the time; retention time (until v4, KIP-211).
v6  leader epoch of the committed offset (KIP-320).
v7  static membership (KIP-345).
v8  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=6, default=-1)
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Struct):
    name: str
    partitions: Sequence[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, versions=(2, 8), flexible_from=8):
    group_id: str
    generation_id: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = field(since=7, default=None)
    retention_time_ms: Int64 = field(until=4, default=-1)
    topics: Sequence[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: str
    partitions: Sequence[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, versions=(2, 8), flexible_from=8):
    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: Sequence[OffsetCommitResponseTopic]
