"""ListOffsets, versions 1 to 7: earliest (-2), latest (-1), largest timestamp (-3), or the first record since a time.

Only what consumers may see counts: a record past the high watermark (or last stable offset, for read_committed) is as
good as none, and none is offset -1 without an error.
"""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalite.server.services import Call, Services

_LATEST: Final = -1
_EARLIEST: Final = -2
_LARGEST_TIMESTAMP: Final = -3
_LARGEST_TIMESTAMP_SINCE: Final = 7
_READ_COMMITTED: Final = 1


def handle(services: Services, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_find(services, call, topic.name, wanted, committed) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _find(
    services: Services, call: Call, topic: str, wanted: ListOffsetsPartition, committed: bool
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        partition = services.partitions.get(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        log = partition.log
        end = partition.last_stable_offset if committed else partition.high_watermark
        if wanted.timestamp in (_EARLIEST, _LATEST):
            answer.offset = log.log_start_offset if wanted.timestamp == _EARLIEST else end
            answer.leader_epoch = partition.leader_epoch
            return answer
        if wanted.timestamp >= 0:
            found = log.offset_for_time(wanted.timestamp)
        elif wanted.timestamp == _LARGEST_TIMESTAMP and call.header.api_version >= _LARGEST_TIMESTAMP_SINCE:
            found = log.offset_of_max_timestamp()
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {wanted.timestamp} has no meaning")
        if found is not None and found.offset < end:
            answer.timestamp, answer.offset, answer.leader_epoch = found
    except KafkaError as error:
        answer.error_code = error.code
    return answer
