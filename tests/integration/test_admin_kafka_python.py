"""Administration by kafka-python against a real broker: it speaks newer versions than confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from kafkalite.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"num.partitions": "2"}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def test_topics_are_created_grown_listed_and_deleted(admin: Any) -> None:
    admin.create_topics([NewTopic("life", 3, 1), NewTopic("other", -1, -1)])
    sizes = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics(["life", "other"])}
    assert sizes == {"life": 3, "other": 2}
    admin.create_partitions({"life": NewPartitions(4)})
    [life] = admin.describe_topics(["life"])
    assert len(life["partitions"]) == 4
    admin.delete_topics(["life", "other"])
    assert not {"life", "other"} & set(admin.list_topics())


def test_refusals_have_kafkas_errors(admin: Any) -> None:
    admin.create_topics([NewTopic("here", 2, 1)])
    with pytest.raises(TopicAlreadyExistsError, match="exists already"):
        admin.create_topics([NewTopic("here", 1, 1)])
    with pytest.raises(InvalidConfigurationError, match=r"retention\.ms"):
        admin.create_topics([NewTopic("new", 1, 1, topic_configs={"retention.ms": "soon"})])
    with pytest.raises(InvalidPartitionsError, match="not more"):
        admin.create_partitions({"here": NewPartitions(2)})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["nowhere"])


def test_options_are_altered_and_described(admin: Any) -> None:
    admin.create_topics([NewTopic("options", 1, 1, topic_configs={"retention.ms": "5"})])
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "options", {"segment.bytes": "4096"})])
    described = str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "options")]))
    assert "4096" in described


def test_the_cluster_names_its_broker(admin: Any, broker: EmbeddedBroker) -> None:
    cluster = admin.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == [broker.port]


def test_records_are_deleted_up_to_an_offset_or_the_end(admin: Any, broker: EmbeddedBroker) -> None:
    admin.create_topics([NewTopic("cut", 1, 1)])
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(10):
        producer.send("cut", b"%d" % number).get(20)
    producer.close()
    partition = TopicPartition("cut", 0)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 11})


def test_a_transactional_producer_is_refused_at_once(broker: EmbeddedBroker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="y")
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=1)
