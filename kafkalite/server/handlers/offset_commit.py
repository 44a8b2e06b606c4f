"""OffsetCommit, versions 2 to 8: keeps a group's positions; answered when they are in the journal.

An error is per partition: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE, or the group's. The partitions that
are in order are kept even if others are not. A retention time in the request (versions 2 to 4) is not used: the
broker's `offsets.retention.minutes` holds for all.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kafkalite.errors import ErrorCode
from kafkalite.groups.records import CommittedOffset
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkalite.server.services import Call, Services


def handle(
    services: Services,
    _call: Call,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commits what can be committed."""
    offsets, errors = _sort(services, request)
    outcome = services.groups.commit(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, offsets
    )
    if isinstance(outcome, ErrorCode):
        return _response(request, outcome, errors)
    return _response_later(request, outcome, errors)


async def _response_later(
    request: OffsetCommitRequest, outcome: Awaitable[ErrorCode], errors: dict[TopicPartition, ErrorCode]
) -> OffsetCommitResponse:
    return _response(request, await outcome, errors)


def _sort(
    services: Services, request: OffsetCommitRequest
) -> tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, ErrorCode]]:
    """What may be committed, and why the rest may not."""
    now_ms = services.clock.now_ms()
    longest = services.config.offset_metadata_max_bytes
    known = services.store.snapshot.topics
    offsets: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        state = known.get(topic.name)
        count = 0 if state is None else len(state.partitions)
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            metadata = each.committed_metadata or ""
            if not 0 <= each.partition_index < count:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata.encode()) > longest:
                errors[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets[partition] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, metadata, now_ms
                )
    return offsets, errors


def _response(
    request: OffsetCommitRequest, outcome: ErrorCode, errors: dict[TopicPartition, ErrorCode]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=errors.get(TopicPartition(topic.name, each.partition_index), outcome),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
