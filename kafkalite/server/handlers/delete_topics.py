"""DeleteTopics (key 20), versions 1 to 6: topics by name, from v6 on also by id.

Each topic is deleted, or refused, by itself. Groups forget what they have committed for it. The answer comes when the
logs are gone, so `timeout_ms` is not needed.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import TopicState
from kafkalite.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.server.services import Call, Services


async def handle(services: Services, _call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = list(request.topics) or [DeleteTopicState(name=name) for name in request.topic_names]
    named = Counter((topic.name, topic.topic_id) for topic in asked)
    results = []
    for wanted in asked:
        result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
        results.append(result)
        try:
            if named[wanted.name, wanted.topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic is named twice in the request")
            topic = _find(services, wanted)
            result.name, result.topic_id = topic.name, topic.topic_id
            await _delete(services, topic)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return DeleteTopicsResponse(responses=results)


def _find(services: Services, wanted: DeleteTopicState) -> TopicState:
    if wanted.name is None:
        return services.topics.get_by_id(wanted.topic_id)
    if wanted.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"give the name {wanted.name!r} or the topic's id, not both")
    return services.topics.get(wanted.name)


async def _delete(services: Services, topic: TopicState) -> None:
    if not services.config.delete_topic_enable:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED, "set delete.topic.enable=true in the broker's configuration and restart"
        )
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name!r} is internal: the broker needs it")
    await services.topics.delete(topic.name)
