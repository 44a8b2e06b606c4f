"""kafka-python."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import kafka.errors
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.codec import has_lz4, has_snappy, has_zstd
from kafka.errors import KafkaError, OffsetOutOfRangeError

from tests.compat.clients.client import POLL_SECONDS, TIMEOUT_SECONDS, Client, Received, Record, Refused, nothing


class KafkaPythonClient(Client):
    name = "kafka-python"
    # The others need packages that are optional: python-snappy, lz4, zstandard.
    codecs = (
        "none",
        "gzip",
        *(name for name, is_there in (("snappy", has_snappy()), ("lz4", has_lz4()), ("zstd", has_zstd())) if is_there),
    )

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
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            enable_idempotence=idempotent,
            max_request_size=max_request_bytes,
            linger_ms=50,
        )
        with closing(producer), _refusals():
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            return [future.get(TIMEOUT_SECONDS).offset for future in futures]

    def consume(
        self,
        topic: str,
        count: int,
        *,
        start: int | None = None,
        reset: str = "earliest",
        while_waiting: Callable[[], object] = nothing,
    ) -> list[Received]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="none" if reset == "error" else reset,
            max_partition_fetch_bytes=8 * 1024 * 1024,
        )
        received: list[Received] = []
        deadline = time.monotonic() + TIMEOUT_SECONDS
        place = TopicPartition(topic, 0)
        with closing(consumer):
            consumer.assign([place])
            consumer.seek(place, start or 0)
            while len(received) < count and time.monotonic() < deadline:
                try:
                    polled = consumer.poll(POLL_SECONDS * 1000)
                except OffsetOutOfRangeError as error:
                    raise Refused(error.errno, str(error)) from error
                if not polled:
                    while_waiting()
                received += (_received(message) for message in polled.get(place, ()))
        return received[:count]

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        with self._admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))])

    def topic_names(self) -> set[str]:
        with self._admin() as admin:
            return set(admin.list_topics())

    def partition_count(self, topic: str) -> int:
        with self._admin() as admin:
            (described,) = admin.describe_topics([topic])
            return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: NewPartitions(total)})

    def topic_config(self, topic: str) -> dict[str, str]:
        with self._admin() as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            described = admin.describe_configs([resource], config_filter="all")
            (configs,) = (found for by_name in described.values() for found in by_name.values())
            return {name: entry["value"] for name, entry in configs.items()}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        with self._admin() as admin:
            answers = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})])
        # kafka-python gives errors as text here, as in "[Error 40] InvalidConfigurationError: …".
        (result,) = (found for by_name in answers.values() for found in by_name.values())
        if refused := re.match(r"\[Error (\d+)\]", result):
            raise Refused(int(refused[1]), result)
        assert result == "OK", result

    def delete_topic(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def delete_records(self, topic: str, before: int) -> None:
        place = TopicPartition(topic, 0)
        with self._admin() as admin:
            assert admin.delete_records({place: before})[place]["low_watermark"] == before

    def offset_range(self, topic: str) -> tuple[int, int]:
        place = TopicPartition(topic, 0)
        with closing(KafkaConsumer(bootstrap_servers=self.bootstrap)) as consumer:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def offset_at(self, topic: str, timestamp: int) -> int | None:
        place = TopicPartition(topic, 0)
        with closing(KafkaConsumer(bootstrap_servers=self.bootstrap)) as consumer:
            found = consumer.offsets_for_times({place: timestamp})[place]
            return None if found is None else found.offset

    # Groups

    def group_names(self) -> set[str]:
        with self._admin() as admin:
            return {group["group_id"] for group in admin.list_groups()}

    def group_state(self, group: str) -> tuple[str, int]:
        with self._admin() as admin:
            described = admin.describe_groups([group])[group]
            return described["group_state"], len(described["members"])

    def committed(self, group: str, topic: str) -> int | None:
        place = TopicPartition(topic, 0)
        with self._admin() as admin:
            found = admin.list_group_offsets([group])[group].get(place)
            return None if found is None else found.offset

    def delete_group(self, group: str) -> None:
        with self._admin() as admin:
            result = admin.delete_groups([group])[group]
        if result != "OK":  # the name of an exception
            raise Refused(getattr(kafka.errors, result).errno, result)

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin, _refusals():
            yield admin


def _received(message: Any) -> Received:
    return Received(message.offset, Record(message.key, message.value, tuple(message.headers), message.timestamp))


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), str(error)) from error
