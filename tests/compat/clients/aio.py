"""aiokafka, one event loop per call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from tests.compat.clients.client import POLL_SECONDS, TIMEOUT_SECONDS, Client, Received, Record, Refused, nothing

T = TypeVar("T")


class AioClient(Client):
    name = "aiokafka"

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
        async def produce() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == -1 else acks,
                enable_idempotence=idempotent,
                max_request_size=max_request_bytes,
                linger_ms=50,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=0,
                        timestamp_ms=record.timestamp,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                sent = await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_SECONDS)
                return [-1 if one is None else one.offset for one in sent]

        return _run(produce())

    def consume(
        self,
        topic: str,
        count: int,
        *,
        start: int | None = None,
        reset: str = "earliest",
        while_waiting: Callable[[], object] = nothing,
    ) -> list[Received]:
        async def consume() -> list[Received]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                auto_offset_reset="none" if reset == "error" else reset,
                max_partition_fetch_bytes=8 * 1024 * 1024,
            )
            place = TopicPartition(topic, 0)
            received: list[Received] = []
            deadline = time.monotonic() + TIMEOUT_SECONDS
            consumer.assign([place])
            async with consumer:
                consumer.seek(place, start or 0)
                while len(received) < count and time.monotonic() < deadline:
                    try:
                        polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
                    except OffsetOutOfRangeError as error:
                        raise Refused(error.errno, str(error)) from error
                    if not polled:
                        await asyncio.to_thread(while_waiting)
                    received += (_received(message) for message in polled.get(place, ()))
            return received[:count]

        return _run(consume())

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        answer = self._ask(lambda admin: admin.create_topics([wanted]))
        _check(*answer.topic_errors[0][1:])

    def topic_names(self) -> set[str]:
        return set(self._ask(lambda admin: admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        (described,) = self._ask(lambda admin: admin.describe_topics([topic]))
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        answer = self._ask(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))
        _check(*answer.topic_errors[0][1:])

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._ask(lambda admin: admin.describe_configs([resource]))
        code, message, _, _, entries = answer.resources[0]
        _check(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        # Not incremental: what is not named goes back to its default.
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        (answer,) = self._ask(lambda admin: admin.alter_configs([resource]))
        _check(*answer.resources[0][:2])

    def delete_topic(self, topic: str) -> None:
        answer = self._ask(lambda admin: admin.delete_topics([topic]))
        _check(answer.topic_error_codes[0][1], "")

    def delete_records(self, topic: str, before: int) -> None:
        place = TopicPartition(topic, 0)
        answer = self._ask(lambda admin: admin.delete_records({place: RecordsToDelete(before)}))
        assert answer[place] == before

    def offset_range(self, topic: str) -> tuple[int, int]:
        place = TopicPartition(topic, 0)

        async def ask() -> tuple[int, int]:
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                first, end = await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
                return first[place], end[place]

        return _run(ask())

    def offset_at(self, topic: str, timestamp: int) -> int | None:
        place = TopicPartition(topic, 0)

        async def ask() -> int | None:
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
                return None if found is None else found.offset

        return _run(ask())

    # Groups

    def group_names(self) -> set[str]:
        return {group for group, _ in self._ask(lambda admin: admin.list_consumer_groups())}

    def group_state(self, group: str) -> tuple[str, int]:
        (answer,) = self._ask(lambda admin: admin.describe_consumer_groups([group]))
        _, _, state, _, _, members, *_ = answer.groups[0]
        return state, len(members)

    def committed(self, group: str, topic: str) -> int | None:
        found = self._ask(lambda admin: admin.list_consumer_group_offsets(group)).get(TopicPartition(topic, 0))
        return None if found is None else found.offset

    def _ask(self, question: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        async def ask() -> Any:
            async with self._admin() as admin:
                return await question(admin)

        return _run(ask())

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()


def _run(call: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(call)
    except KafkaError as error:
        raise Refused(error.errno, str(error)) from error


def _check(code: int, message: str) -> None:
    if code:
        raise Refused(code, message)


def _received(message: Any) -> Received:
    return Received(message.offset, Record(message.key, message.value, tuple(message.headers), message.timestamp))
