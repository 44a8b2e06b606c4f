"""OffsetFetch (key 9), versions 1 to 8: a group's committed positions; -1 where there is none.

v2  null topics means all of the group; an error code for the whole.
v5  leader epoch of the committed offset (KIP-320).
v6  flexible.
v7  `require_stable`: refuse while a transaction has offsets pending (KIP-447).
v8  several groups at once, in `groups`; the fields for one group are gone (KIP-709).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct, field


class OffsetFetchRequestTopic(Struct):
    name: str
    partition_indexes: Sequence[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: str
    topics: Sequence[OffsetFetchRequestTopic] | None


class OffsetFetchRequest(Message, versions=(1, 8), flexible_from=6):
    group_id: str = field(until=7, default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = field(until=7, nullable_since=2, default=())
    groups: Sequence[OffsetFetchRequestGroup] = field(since=8, default=())
    require_stable: bool = field(since=7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=5, default=-1)
    metadata: str | None
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: str
    partitions: Sequence[OffsetFetchResponsePartition]


class OffsetFetchResponseGroup(Struct):
    group_id: str
    topics: Sequence[OffsetFetchResponseTopic]
    error_code: Int16 = 0


class OffsetFetchResponse(Message, versions=(1, 8), flexible_from=6):
    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: Sequence[OffsetFetchResponseTopic] = field(until=7, default=())
    error_code: Int16 = field(since=2, until=7, default=0)
    groups: Sequence[OffsetFetchResponseGroup] = field(since=8, default=())
