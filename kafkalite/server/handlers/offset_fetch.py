"""OffsetFetch, versions 1 to 8: a group's committed positions; where there is none, offset -1 and no error.

Null topics (version 2 on) are all that the group has committed. Version 8 asks for several groups. `require_stable` has
nothing to wait for as long as there are no transactions. Version 1 has room for errors in the partitions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.groups.records import CommittedOffset
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafkalite.server.services import Call, Services

_NOT_COMMITTED: Final = CommittedOffset(-1, -1, "", -1)


def handle(services: Services, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Looks the positions up."""
    groups = services.groups
    if call.header.api_version >= 8:
        answers = []
        for each in request.groups:
            error = groups.refusal(each.group_id, may_be_empty=True)
            topics = [] if error else _topics(groups.offsets_of(each.group_id), each.topics, ErrorCode.NONE)
            answers.append(OffsetFetchResponseGroup(group_id=each.group_id, topics=topics, error_code=error))
        return OffsetFetchResponse(groups=answers)
    error = groups.refusal(request.group_id, may_be_empty=True)
    if error is ErrorCode.NONE:
        return OffsetFetchResponse(topics=_topics(groups.offsets_of(request.group_id), request.topics, error))
    return OffsetFetchResponse(topics=_topics({}, request.topics, error), error_code=error)


def _topics(
    committed: Mapping[TopicPartition, CommittedOffset],
    wanted: Sequence[OffsetFetchRequestTopic] | None,
    error: ErrorCode,
) -> list[OffsetFetchResponseTopic]:
    if wanted is None:
        by_topic = groupby(sorted(committed), key=lambda partition: partition.topic)
        asked = [(topic, [partition.partition for partition in partitions]) for topic, partitions in by_topic]
    else:
        asked = [(topic.name, list(topic.partition_indexes)) for topic in wanted]
    return [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                _partition(index, committed.get(TopicPartition(name, index), _NOT_COMMITTED), error)
                for index in indexes
            ],
        )
        for name, indexes in asked
    ]


def _partition(index: int, committed: CommittedOffset, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
