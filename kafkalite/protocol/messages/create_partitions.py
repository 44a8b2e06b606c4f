"""CreatePartitions (key 37), versions 0 to 3: raises the partition count of topics (KIP-195).

v2  flexible.
v3  THROTTLING_QUOTA_EXCEEDED is possible (KIP-599).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Message, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: Sequence[Int32]


class CreatePartitionsTopic(Struct):
    name: str
    count: Int32
    assignments: Sequence[CreatePartitionsAssignment] | None = None


class CreatePartitionsRequest(Message, versions=(0, 3), flexible_from=2):
    topics: Sequence[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    name: str
    error_code: Int16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message, versions=(0, 3), flexible_from=2):
    throttle_time_ms: Int32 = 0
    results: Sequence[CreatePartitionsTopicResult]
