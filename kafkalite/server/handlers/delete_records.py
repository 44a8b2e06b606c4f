"""DeleteRecords (key 21), versions 0 to 2: moves the start of partitions forward; -1 is up to the high watermark.

The answer comes when the new start is on disk. The segments below it go with the next run of retention. The new start
may lie inside a batch: that is sent whole as before, and clients skip what is below the offset that they asked for.
"""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import INTERNAL_TOPICS
from kafkalite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkalite.server.services import Call, Services

HIGH_WATERMARK: Final = -1
_NONE: Final = -1


async def handle(services: Services, _call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[await _delete(services, topic.name, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _delete(services: Services, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic!r} is internal: the broker needs its records")
        partition = services.partitions.get(topic, wanted.partition_index)
        log = partition.log
        if not log.config.deletes_old_segments:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"records of {partition.id} are kept: its cleanup.policy is compact only"
            )
        log.move_start(partition.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset)
        await services.partitions.save_checkpoint(log, log.checkpoint())
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=_NONE, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=log.log_start_offset)
