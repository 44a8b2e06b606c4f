"""Every client's administration of topics."""

from __future__ import annotations

import uuid

import pytest

from tests.compat.clients.client import Client, Record, Refused


def test_topics_are_created_listed_and_deleted(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=3)
    assert topic in client.topic_names()
    assert client.partition_count(topic) == 3
    client.delete_topic(topic)
    assert topic not in client.topic_names()


def test_what_another_client_created_is_listed(client: Client, admin: Client, topic: str) -> None:
    admin.create_topic(topic, partitions=3)
    assert topic in client.topic_names()
    assert client.partition_count(topic) == 3


def test_a_topic_is_created_once(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with pytest.raises(Refused) as refused:
        client.create_topic(topic)
    assert refused.value.code == 36


def test_a_topic_made_again_is_empty(client: Client, topic: str) -> None:
    for value in (b"first", b"second"):
        client.create_topic(topic)
        client.produce(topic, [Record(b"k", value)])
        assert [record.value for _, record in client.consume(topic, 1)] == [value]
        client.delete_topic(topic)


def test_bad_topics_are_refused_with_kafkas_code(client: Client, topic: str) -> None:
    wrong: list[tuple[str, int, dict[str, str], int]] = [
        ("a/b", 1, {}, 17),
        (topic, 0, {}, 37),
        (topic, 1, {"retention.ms": "soon"}, 40),
        (topic, 1, {"no.such.option": "1"}, 40),
    ]
    for name, partitions, configs, code in wrong:
        with pytest.raises(Refused) as refused:
            client.create_topic(name, partitions, configs)
        assert refused.value.code == code, (name, partitions, configs)
    assert topic not in client.topic_names()


def test_partitions_are_added_and_never_taken(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    client.add_partitions(topic, 5)
    assert client.partition_count(topic) == 5
    with pytest.raises(Refused) as refused:
        client.add_partitions(topic, 4)
    assert refused.value.code == 37


def test_configs_are_described_and_altered(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "60000"})
    before = client.topic_config(topic)
    assert before["retention.ms"] == "60000"
    assert before["cleanup.policy"] == "delete"
    client.set_topic_config(topic, "max.message.bytes", "2000")
    assert client.topic_config(topic)["max.message.bytes"] == "2000"
    with pytest.raises(Refused) as refused:
        client.set_topic_config(topic, "max.message.bytes", "many")
    assert refused.value.code == 40
    assert client.topic_config(topic)["max.message.bytes"] == "2000"


def test_an_altered_config_takes_effect(client: Client, topic: str) -> None:
    client.create_topic(topic)
    client.set_topic_config(topic, "max.message.bytes", "1000")
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Record(b"k", bytes([97]) * 2_000)])
    assert refused.value.code == 10


def test_what_does_not_exist_cannot_be_deleted(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        client.delete_topic(f"no-such-topic-{uuid.uuid4()}")
    assert refused.value.code == 3
