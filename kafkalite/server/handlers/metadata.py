"""Metadata, versions 0 to 12: the brokers, and who leads the partitions of the topics asked for.

A topic that is not there is created if both the broker (`auto.create.topics.enable`) and the client (v4+) allow it, and
answered with its leader at once. By topic id (v12) nothing is created: an unknown id is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import INTERNAL_TOPICS, TopicState, check_topic_name
from kafkalite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.server.services import Call, Services


def handle(services: Services, call: Call, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    topics = services.store.snapshot.topics
    wanted = request.topics
    if wanted is None or (call.header.api_version == 0 and not wanted):
        return _response(services, map(_described, topics.values()))
    may_create = request.allow_auto_topic_creation and services.config.auto_create_topics_enable
    missing = [topic.name for topic in wanted if topic.name is not None and topic.name not in topics]
    if missing and may_create:
        return _create_and_answer(services, wanted, missing)
    return _response(services, (_find(services, topic) for topic in wanted))


async def _create_and_answer(
    services: Services, wanted: Iterable[MetadataRequestTopic], missing: Iterable[str]
) -> MetadataResponse:
    errors: dict[str, ErrorCode] = {}
    for name in missing:
        try:
            if name in INTERNAL_TOPICS:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} is created by the broker")
            await services.topics.create(name)
        except KafkaError as error:
            # Another client may have asked for it at the same moment.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                errors[name] = error.code
    return _response(services, (_find(services, topic, errors) for topic in wanted))


def _find(
    services: Services, wanted: MetadataRequestTopic, errors: dict[str, ErrorCode] | None = None
) -> MetadataResponseTopic:
    snapshot = services.store.snapshot
    if wanted.name is None:
        by_id = next((topic for topic in snapshot.topics.values() if topic.topic_id == wanted.topic_id), None)
        return _described(by_id) if by_id else _unknown(None, ErrorCode.UNKNOWN_TOPIC_ID, wanted)
    topic = snapshot.topics.get(wanted.name)
    if topic is not None:
        return _described(topic)
    if errors and wanted.name in errors:
        return _unknown(wanted.name, errors[wanted.name], wanted)
    try:
        check_topic_name(wanted.name)
    except KafkaError as error:
        return _unknown(wanted.name, error.code, wanted)
    return _unknown(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted)


def _unknown(name: str | None, code: ErrorCode, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    topic_id = wanted.topic_id if name is None else ZERO_UUID
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def _described(topic: TopicState) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
            )
            for index, state in enumerate(topic.partitions)
        ],
    )


def _response(services: Services, topics: Iterable[MetadataResponseTopic]) -> MetadataResponse:
    snapshot = services.store.snapshot
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port)
            for broker in snapshot.brokers
        ],
        cluster_id=snapshot.cluster_id,
        controller_id=snapshot.controller_id,
        topics=list(topics),
    )
