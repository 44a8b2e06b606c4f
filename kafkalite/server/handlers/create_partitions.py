"""CreatePartitions (key 37), versions 0 to 3: a topic gets more partitions; their number never falls.

Each topic is changed, or refused, by itself; the answer comes when the logs are there, so `timeout_ms` is not needed.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkalite.server.services import Call, Services


async def handle(services: Services, _call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        try:
            if named[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice in the request")
            _check(services, topic)
            if not request.validate_only:
                await services.topics.add_partitions(topic.name, topic.count)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return CreatePartitionsResponse(results=results)


def _check(services: Services, topic: CreatePartitionsTopic) -> None:
    state = services.topics.get(topic.name)
    if state.is_internal:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{topic.name!r} is internal: groups find their partition by its number"
        )
    services.topics.check_more_partitions(topic.name, topic.count)
    if topic.assignments is None:
        return
    added = topic.count - len(state.partitions)
    if len(topic.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"topic {topic.name!r} gets {added} partitions, but replicas are assigned to {len(topic.assignments)}",
        )
    for assigned in topic.assignments:
        services.topics.check_assignment(topic.name, assigned.broker_ids)
