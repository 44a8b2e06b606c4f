"""Administration by confluent-kafka against a real broker: what operators do, and what they are told if refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kafkalite.testing import EmbeddedBroker

SECONDS = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"num.partitions": "2", "log.retention.ms": "123456"}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def result_of(futures: dict[Any, Future[Any]]) -> Any:
    [future] = futures.values()
    return future.result(SECONDS)


def error_of(futures: dict[Any, Future[Any]]) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        result_of(futures)
    error: KafkaError = caught.value.args[0]
    return error


def create(admin: AdminClient, name: str, partitions: int = 1, **config: str) -> None:
    options = {key.replace("_", "."): value for key, value in config.items()}
    result_of(admin.create_topics([NewTopic(name, partitions, 1, config=options)]))


def options_of(admin: AdminClient, kind: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = result_of(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def change(admin: AdminClient, topic: str, *entries: tuple[str, str | None, Any], dry: bool = False) -> Any:
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry(name, value, incremental_operation=op) for name, value, op in entries],
    )
    return admin.incremental_alter_configs([resource], validate_only=dry)


def test_a_topic_lives_from_creation_to_deletion(admin: AdminClient) -> None:
    create(admin, "life", 3)
    topic = admin.list_topics(timeout=SECONDS).topics["life"]
    assert sorted(topic.partitions) == [0, 1, 2]
    result_of(admin.create_partitions([NewPartitions("life", 5)]))
    assert len(admin.list_topics("life", timeout=SECONDS).topics["life"].partitions) == 5
    result_of(admin.delete_topics(["life"]))
    assert "life" not in admin.list_topics(timeout=SECONDS).topics


def test_the_brokers_defaults_hold_for_a_topic_that_does_not_say_otherwise(admin: AdminClient) -> None:
    result_of(admin.create_topics([NewTopic("defaults")]))
    assert len(admin.list_topics("defaults", timeout=SECONDS).topics["defaults"].partitions) == 2
    retention = options_of(admin, ResourceType.TOPIC, "defaults")["retention.ms"]
    assert (retention.value, ConfigSource(retention.source)) == ("123456", ConfigSource.STATIC_BROKER_CONFIG)
    assert retention.synonyms["log.retention.ms"].value


@pytest.mark.parametrize(
    ("topic", "code", "says"),
    [
        (NewTopic("taken", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS, "exists already"),
        (NewTopic("a b", 1, 1), KafkaError.TOPIC_EXCEPTION, "is not a topic name"),
        (NewTopic("x", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR, "from 1 to 1"),
        (NewTopic("x", 1, 1, config={"retention.m": "1"}), KafkaError.INVALID_CONFIG, "did you mean 'retention.ms'"),
        (NewTopic("x", 1, 1, config={"segment.bytes": "1"}), KafkaError.INVALID_CONFIG, "at least 14"),
        (NewTopic("x", 1, replica_assignment=[[9]]), KafkaError.INVALID_REPLICA_ASSIGNMENT, "there is only [0]"),
        (NewTopic("__consumer_offsets", 1, 1), KafkaError.INVALID_REQUEST, "internal"),
    ],
)
def test_a_topic_that_cannot_be_created_is_refused_with_the_reason(
    admin: AdminClient, topic: Any, code: int, says: str
) -> None:
    if "taken" not in admin.list_topics(timeout=SECONDS).topics:
        create(admin, "taken")
    for dry in (True, False):
        error = error_of(admin.create_topics([topic], validate_only=dry))
        assert error.code() == code
        assert says in error.str()


def test_options_are_set_unset_and_extended(admin: AdminClient) -> None:
    create(admin, "options", retention_ms="5")
    op = AlterConfigOpType
    result_of(change(admin, "options", ("cleanup.policy", "compact", op.APPEND), ("segment.bytes", "4096", op.SET)))
    found = options_of(admin, ResourceType.TOPIC, "options")
    assert set(found["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    result_of(change(admin, "options", ("cleanup.policy", "compact", op.SUBTRACT), ("retention.ms", None, op.DELETE)))
    result_of(change(admin, "options", ("segment.bytes", "9999", op.SET), dry=True))
    found = options_of(admin, ResourceType.TOPIC, "options")
    assert [found[name].value for name in ("cleanup.policy", "retention.ms", "segment.bytes")] == [
        "delete",
        "123456",
        "4096",
    ]


def test_a_brokers_options_are_shown_and_not_changed(admin: AdminClient) -> None:
    shown = options_of(admin, ResourceType.BROKER, "0")["num.partitions"]
    assert (shown.value, shown.is_read_only) == ("2", True)
    resource = ConfigResource(
        ResourceType.BROKER,
        "0",
        incremental_configs=[ConfigEntry("num.partitions", "3", incremental_operation=AlterConfigOpType.SET)],
    )
    error = error_of(admin.incremental_alter_configs([resource]))
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "restart" in error.str()


def test_deleted_records_are_gone_also_after_a_kill(broker: EmbeddedBroker, admin: AdminClient) -> None:
    create(admin, "cut")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce("cut", b"%d" % number, partition=0)
    assert producer.flush(SECONDS) == 0
    deleted = result_of(admin.delete_records([TopicPartition("cut", 0, 4)]))
    assert deleted.low_watermark == 4
    error = error_of(admin.delete_records([TopicPartition("cut", 0, 11)]))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE
    broker.kill()
    broker.start()
    again = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert result_of(again.delete_records([TopicPartition("cut", 0, 0)])).low_watermark == 4


def test_the_positions_of_a_deleted_topic_are_forgotten(admin: AdminClient) -> None:
    create(admin, "gone")
    position = ConsumerGroupTopicPartitions("mourners", [TopicPartition("gone", 0, 7)])
    result_of(admin.alter_consumer_group_offsets([position]))
    asked = ConsumerGroupTopicPartitions("mourners", [TopicPartition("gone", 0)])
    assert result_of(admin.list_consumer_group_offsets([asked])).topic_partitions[0].offset == 7
    result_of(admin.delete_topics(["gone"]))
    create(admin, "gone")
    assert result_of(admin.list_consumer_group_offsets([asked])).topic_partitions[0].offset == -1001


def test_a_transactional_producer_is_refused_at_once_and_for_good(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", "log_level": 0})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(SECONDS)
    error: KafkaError = caught.value.args[0]
    assert (error.code(), error.retriable()) == (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False)
    assert "transactions are not built yet" in error.str()
