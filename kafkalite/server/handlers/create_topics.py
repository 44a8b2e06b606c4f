"""CreateTopics (key 19), versions 2 to 7.

Each topic is created, or refused, by itself; the answer comes when its logs are there, so `timeout_ms` is not needed.
Replicas assigned by hand can only name this broker. From v5 on the answer has the topic's size and options.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import INTERNAL_TOPICS
from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.server.configs import topic_entries
from kafkalite.server.services import Call, Services
from kafkalite.server.topics import DEFAULT


async def handle(services: Services, _call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        try:
            if named[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice in the request")
            results.append(await _create(services, topic, request.validate_only))
        except KafkaError as error:
            results.append(CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message))
    return CreateTopicsResponse(topics=results)


async def _create(services: Services, topic: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    if topic.name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name!r} is internal: the broker creates it itself")
    partitions, config = _partitions(services, topic), _config(topic)
    if validate_only:
        topic_id = ZERO_UUID
        count = services.topics.check_new(topic.name, partitions, topic.replication_factor, config)
    else:
        created = await services.topics.create(topic.name, partitions, topic.replication_factor, config)
        topic_id, count = created.topic_id, len(created.partitions)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        num_partitions=count,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in topic_entries(services.config, config)
        ],
    )


def _partitions(services: Services, topic: CreatableTopic) -> int:
    if not topic.assignments:
        return topic.num_partitions
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"topic {topic.name!r} has replicas assigned by hand: its partitions and replication factor must be -1, "
            f"not {topic.num_partitions} and {topic.replication_factor}",
        )
    count = len(topic.assignments)
    if sorted(assigned.partition_index for assigned in topic.assignments) != list(range(count)):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"topic {topic.name!r} has replicas assigned by hand: "
            f"its {count} partitions must be numbered from 0 to {count - 1}, each once",
        )
    for assigned in topic.assignments:
        services.topics.check_assignment(topic.name, assigned.broker_ids)
    return count


def _config(topic: CreatableTopic) -> dict[str, str]:
    config: dict[str, str] = {}
    for option in topic.configs:
        if option.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{option.name} has no value; leave it out, or set it")
        if option.name in config:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{option.name} is set twice for topic {topic.name!r}")
        config[option.name] = option.value
    return config
