"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

import confluent_kafka.admin
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.compat.clients.client import POLL_SECONDS, TIMEOUT_SECONDS, Client, Received, Record, Refused, nothing

API: Any = confluent_kafka.admin  # its classes are not exported for type checkers


class ConfluentClient(Client):
    name = "confluent-kafka"

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
        max_request_bytes: int = 1_000_000,
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": max_request_bytes,
                "linger.ms": 50,  # so that a few records make one batch
            }
        )
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offset = message.offset()
                offsets.append(-1 if offset is None or acks == 0 else offset)

        for record in records:
            timestamp: Any = {} if record.timestamp is None else {"timestamp": record.timestamp}
            headers: Any = list(record.headers) or None
            producer.produce(
                topic, record.value, record.key, partition=0, headers=headers, on_delivery=delivered, **timestamp
            )
        with _refusals():
            assert producer.flush(TIMEOUT_SECONDS) == 0
            if errors:
                raise KafkaException(errors[0])
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        start: int | None = None,
        reset: str = "earliest",
        while_waiting: Callable[[], object] = nothing,
    ) -> list[Received]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "not used",
                "enable.auto.commit": False,
                "auto.offset.reset": reset,
            }
        )
        received: list[Received] = []
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with closing(consumer), _refusals():
            consumer.assign([TopicPartition(topic, 0, 0 if start is None else start)])
            while len(received) < count and time.monotonic() < deadline:
                message = consumer.poll(POLL_SECONDS)
                if message is None:
                    while_waiting()
                    continue
                if (error := message.error()) is not None:
                    # librdkafka reports policy "error" with a code of its own; what it says is the broker's answer.
                    if error.code() == KafkaError._AUTO_OFFSET_RESET and "out of range" in error.str():
                        raise Refused(KafkaError.OFFSET_OUT_OF_RANGE, error.str())
                    raise KafkaException(error)
                received.append(_received(message))
        return received

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        wanted = API.NewTopic(topic, partitions, 1, config=dict(configs or {}))
        _result_of(self._admin.create_topics([wanted])[topic])

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics)

    def partition_count(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        _result_of(self._admin.create_partitions([API.NewPartitions(topic, total)])[topic])

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = API.ConfigResource(API.ResourceType.TOPIC, topic)
        entries = _result_of(self._admin.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        entry = API.ConfigEntry(name, value, incremental_operation=API.AlterConfigOpType.SET)
        resource = API.ConfigResource(API.ResourceType.TOPIC, topic, incremental_configs=[entry])
        _result_of(self._admin.incremental_alter_configs([resource])[resource])

    def delete_topic(self, topic: str) -> None:
        _result_of(self._admin.delete_topics([topic])[topic])

    def delete_records(self, topic: str, before: int) -> None:
        place = TopicPartition(topic, 0, before)
        assert _result_of(self._admin.delete_records([place])[place]).low_watermark == before

    def offset_range(self, topic: str) -> tuple[int, int]:
        first, end = (self._list_offset(topic, spec) for spec in (API.OffsetSpec.earliest(), API.OffsetSpec.latest()))
        return first, end

    def offset_at(self, topic: str, timestamp: int) -> int | None:
        offset = self._list_offset(topic, API.OffsetSpec.for_timestamp(timestamp))
        return None if offset < 0 else offset

    def _list_offset(self, topic: str, spec: object) -> int:
        place = TopicPartition(topic, 0)
        offset: int = _result_of(self._admin.list_offsets({place: spec})[place]).offset
        return offset

    # Groups

    def group_names(self) -> set[str]:
        return {group.group_id for group in _result_of(self._admin.list_consumer_groups()).valid}

    def group_state(self, group: str) -> tuple[str, int]:
        described = _result_of(self._admin.describe_consumer_groups([group])[group])
        return described.state.name.title().replace("_", ""), len(described.members)

    def committed(self, group: str, topic: str) -> int | None:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        answer = _result_of(self._admin.list_consumer_group_offsets([asked])[group])
        offset: int = answer.topic_partitions[0].offset
        return None if offset < 0 else offset

    def delete_group(self, group: str) -> None:
        _result_of(self._admin.delete_consumer_groups([group])[group])

    @cached_property  # its futures fail once it is collected
    def _admin(self) -> Any:
        return API.AdminClient({"bootstrap.servers": self.bootstrap})


def _received(message: Message) -> Received:
    offset, (_, timestamp) = message.offset(), message.timestamp()
    assert offset is not None
    headers: Any = message.headers() or ()
    key: Any = message.key()
    value: Any = message.value()
    return Received(offset, Record(key, value, tuple(headers), timestamp))


def _result_of(future: Any) -> Any:
    with _refusals():
        return future.result(TIMEOUT_SECONDS)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise Refused(error.args[0].code(), error.args[0].str()) from error
