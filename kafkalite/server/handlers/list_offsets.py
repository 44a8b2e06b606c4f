"""ListOffsets, versions 1 to 7: earliest (-2), latest (-1), largest timestamp (-3), or the first record since a time.

Only what consumers may see counts: a record past the high watermark (or last stable offset, for read_committed) is as
good as none, and none is offset -1 without an error.
"""

from __future__ import annotations

import asyncio
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
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.reading import TimestampOffset

_LATEST: Final = -1
_EARLIEST: Final = -2
_LARGEST_TIMESTAMP: Final = -3
_LARGEST_TIMESTAMP_SINCE: Final = 7
_READ_COMMITTED: Final = 1
_SMALL_BATCH: Final = 4 * 1024


async def handle(services: Services, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[await _find(services, call, topic.name, wanted, committed) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _find(
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
        timestamp = wanted.timestamp
        if timestamp == _LARGEST_TIMESTAMP and call.header.api_version >= _LARGEST_TIMESTAMP_SINCE:
            timestamp = log.max_timestamp
        elif timestamp < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {timestamp} has no meaning")
        found = await _first_record(log, timestamp) if timestamp >= 0 else None
        if found is not None and found.offset < end:
            answer.timestamp, answer.offset, answer.leader_epoch = found
    except KafkaError as error:
        answer.error_code = error.code
    return answer


async def _first_record(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """Large batches are looked into by a thread: they may be compressed, and expand a thousandfold."""
    for batch in log.batches_since(timestamp):
        is_small = batch.found.length <= _SMALL_BATCH
        found = batch.first_record() if is_small else await asyncio.to_thread(batch.first_record)
        if found is not None:
            return found
    return None
