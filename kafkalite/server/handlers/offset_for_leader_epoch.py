"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where the records of a leader epoch end.

The answer names the largest epoch that is not above the one asked for, and the offset after its last record: the log's
end for the epoch that is written now. -1 and -1: nothing is left of such epochs.
"""

from __future__ import annotations

from kafkalite.errors import KafkaError
from kafkalite.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(services, topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(services: Services, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = services.partitions.get(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    log = partition.log
    epoch, end_offset = log.epochs.end_offset_of(wanted.leader_epoch, log.log_end_offset)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
