"""The traps of Metadata, FindCoordinator and CreateTopics, one by one, over a raw socket."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator

import pytest

from kafkalite.protocol.api import ApiKey
from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kafkalite.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.testing import EmbeddedBroker
from tests.compat.raw_connection import RawConnection


def names(answer: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in answer.topics]


def test_version_0_means_all_topics_by_an_empty_list(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    assert topic in names(raw.metadata(version=0))


@pytest.mark.parametrize("version", [1, 4, 9, 12])
def test_later_versions_mean_all_by_null_and_none_by_an_empty_list(
    raw: RawConnection, topic: str, version: int
) -> None:
    raw.create_topic(topic)
    assert topic in names(raw.call(MetadataRequest(topics=None), MetadataResponse, version))
    assert names(raw.metadata(version=version)) == []


def test_librdkafkas_way_to_ask_for_all_topics_is_understood(raw: RawConnection, topic: str) -> None:
    """It leaves a four-byte length where one byte belongs (its issue 5049), so bytes follow; Kafka ignores them."""
    raw.create_topic(topic)
    header = struct.pack(">hhih", ApiKey.METADATA, 12, 77, 7) + b"rdkafka" + bytes(1)
    raw.send_frame(header + bytes(4) + b"\x01" + bytes(2))
    assert topic in names(raw.receive(MetadataResponse, 12, 77))


def test_the_broker_that_is_told_of_can_be_reached(raw: RawConnection, broker: EmbeddedBroker) -> None:
    answer = raw.metadata()
    (found,) = answer.brokers
    assert (found.host, found.port) == ("127.0.0.1", broker.port)
    assert found.node_id == answer.controller_id >= 0
    assert answer.cluster_id
    described = raw.call(DescribeClusterRequest(), DescribeClusterResponse, 0)
    assert described.cluster_id == answer.cluster_id
    assert [(one.broker_id, one.port) for one in described.brokers] == [(found.node_id, found.port)]


def test_partitions_have_a_leader_replicas_and_an_epoch(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic, partitions=3)
    (found,) = raw.metadata(topic).topics
    assert sorted(partition.partition_index for partition in found.partitions) == [0, 1, 2]
    for partition in found.partitions:
        assert partition.error_code == 0
        assert partition.leader_id == 0
        assert (list(partition.replica_nodes), list(partition.isr_nodes)) == ([0], [0])
        assert partition.leader_epoch >= 0


def test_an_unknown_topic_is_error_3_and_is_not_created_where_that_is_off(raw: RawConnection, topic: str) -> None:
    for _ in range(2):
        (found,) = raw.metadata(topic, create=True).topics
        assert (found.error_code, found.name, list(found.partitions)) == (3, topic, [])


@pytest.fixture(scope="module")
def creating() -> Iterator[EmbeddedBroker]:
    """A broker that creates topics when they are asked for, as it is by default."""
    with EmbeddedBroker({"num.partitions": "2"}) as broker:
        yield broker


def test_asking_creates_a_topic_where_broker_and_client_allow_it(creating: EmbeddedBroker, topic: str) -> None:
    with RawConnection(creating.port) as raw:
        (refused,) = raw.metadata(topic, create=False).topics
        assert refused.error_code == 3
        (created,) = raw.metadata(topic, create=True).topics
        # Kafka may say LEADER_NOT_AVAILABLE first; clients ask again.
        assert created.error_code in (0, 5)
        (found,) = raw.metadata(topic).topics
        assert (found.error_code, len(found.partitions)) == (0, 2)


def test_before_version_4_asking_always_creates(creating: EmbeddedBroker, topic: str) -> None:
    with RawConnection(creating.port) as raw:
        raw.metadata(topic, version=3)
        assert raw.metadata(topic).topics[0].error_code == 0


def test_a_name_that_no_topic_may_have_is_error_17(creating: EmbeddedBroker) -> None:
    with RawConnection(creating.port) as raw:
        assert raw.metadata("a/b", create=True).topics[0].error_code == 17


def ask_by_id(raw: RawConnection, topic_id: uuid.UUID) -> MetadataResponse:
    asked = MetadataRequestTopic(topic_id=topic_id, name=None)
    return raw.call(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), MetadataResponse, 12)


def test_topics_are_found_by_id_and_an_unknown_id_is_error_100(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    topic_id = raw.metadata(topic).topics[0].topic_id
    assert topic_id != ZERO_UUID
    (found,) = ask_by_id(raw, topic_id).topics
    assert (found.error_code, found.name) == (0, topic)
    (unknown,) = ask_by_id(raw, uuid.uuid4()).topics
    assert unknown.error_code == 100


def test_a_topic_made_again_has_another_id(raw: RawConnection, topic: str) -> None:
    ids = set()
    for _ in range(2):
        raw.create_topic(topic)
        ids.add(raw.metadata(topic).topics[0].topic_id)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        assert raw.call(delete, DeleteTopicsResponse, 6).responses[0].error_code == 0
    assert len(ids) == 2
    assert ask_by_id(raw, ids.pop()).topics[0].error_code == 100


def test_validate_only_creates_nothing_and_finds_the_same_errors(raw: RawConnection, topic: str) -> None:
    def create(name: str, partitions: int, **configs: str) -> int:
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        answer = raw.call(CreateTopicsRequest(topics=[wanted], validate_only=True), CreateTopicsResponse, 7)
        return answer.topics[0].error_code

    assert create(topic, 1, retention_ms="1000") == 0
    assert create(topic, 1, retention_ms="never") == 40
    assert create(topic, -5) == 37
    assert create("..", 1) == 17
    assert raw.metadata(topic).topics[0].error_code == 3


def test_a_replication_factor_above_the_number_of_brokers_is_error_38(raw: RawConnection, topic: str) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=3)
    answer = raw.call(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == 38


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_coordinator_is_found(raw: RawConnection, broker: EmbeddedBroker, version: int) -> None:
    answer = raw.call(FindCoordinatorRequest(key="group"), FindCoordinatorResponse, version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 0, "127.0.0.1", broker.port)


def test_from_version_4_many_coordinators_are_found_at_once(raw: RawConnection, broker: EmbeddedBroker) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["one", "two"])
    answer = raw.call(request, FindCoordinatorResponse, 4)
    assert [(found.key, found.error_code, found.port) for found in answer.coordinators] == [
        ("one", 0, broker.port),
        ("two", 0, broker.port),
    ]
