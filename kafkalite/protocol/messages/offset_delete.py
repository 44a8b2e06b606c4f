"""OffsetDelete (key 47), version 0: removes committed positions of a group (KIP-496). There is no flexible version."""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: str
    partitions: Sequence[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, versions=(0, 0), flexible_from=None):
    group_id: str
    topics: Sequence[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: str
    partitions: Sequence[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, versions=(0, 0), flexible_from=None):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetDeleteResponseTopic]
