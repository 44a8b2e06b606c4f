"""A member of a consumer group, as a process that a test can kill. The first line of its input is its task, in JSON.

It says, one JSON line each: {"assigned": [0, 1]} whenever its partitions are others than before, {"revoked": true} when
its client takes partitions away, {"record": [partition, offset, value]}, {"committed": {partition: offset}}. It is
told, one line each: "commit", or "close", which leaves the group; the end of its input kills it.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import aiokafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer, KafkaException, TopicPartition

HEARTBEAT_MS = 300
POLL_SECONDS = 0.1
LONG_POLL_SECONDS = 1.0
"""kafka-python 3.0 loses an assignment that arrives in the moment when its poll times out: let that moment be rare."""


@dataclass(frozen=True)
class Task:
    """What the member is to do."""

    client: str
    bootstrap: str
    topic: str
    group: str
    session_timeout_ms: int = 30_000
    instance_id: str | None = None
    strategy: str = "range"
    operation: str = "member"
    """What kafkajs's driver looks at."""


class Membership:
    """What every client's loop does with what it sees, and what it is told."""

    def __init__(self) -> None:
        self.commands: queue.Queue[str] = queue.Queue()
        self.positions: dict[int, int] = {}
        self._assigned: list[int] | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.commands.put(line.strip())
        os._exit(1)

    def command(self) -> str | None:
        try:
            return self.commands.get_nowait()
        except queue.Empty:
            return None

    def see(self, assigned: Iterable[int], records: Iterable[tuple[int, int, bytes]]) -> None:
        now = sorted(assigned)
        if now != self._assigned:
            self._assigned = now
            say(assigned=now)
        for partition, offset, value in records:
            self.positions[partition] = offset + 1
            say(record=[partition, offset, value.decode()])

    def revoked(self, partitions: object) -> None:
        if partitions:
            say(revoked=True)


def say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def run_confluent(task: Task, member: Membership) -> None:
    options: dict[str, Any] = {
        "bootstrap.servers": task.bootstrap,
        "group.id": task.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": task.session_timeout_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": task.strategy,
    }
    if task.instance_id is not None:
        options["group.instance.id"] = task.instance_id
    consumer = Consumer(options)
    with closing(consumer):
        consumer.subscribe([task.topic], on_revoke=lambda _, partitions: member.revoked(partitions))
        while (command := member.command()) != "close":
            message: Any = consumer.poll(POLL_SECONDS)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
            records = [] if message is None else [(message.partition(), message.offset(), message.value())]
            member.see((place.partition for place in consumer.assignment()), records)
            if command == "commit":
                places = [TopicPartition(task.topic, *position) for position in member.positions.items()]
                consumer.commit(offsets=places, asynchronous=False)
                say(committed=member.positions)


class _RevocationListener(Protocol):
    """Both Python clients' listeners have these two."""

    def on_partitions_revoked(self, revoked: Any) -> Any: ...
    def on_partitions_assigned(self, assigned: Any) -> Any: ...


def _listener(base: type, member: Membership) -> _RevocationListener:
    """aiokafka and kafka-python each want a listener of a class of their own."""
    return type(  # type: ignore[no-any-return]
        "Listener",
        (base,),
        {
            "on_partitions_revoked": lambda _, revoked: member.revoked(revoked),
            "on_partitions_assigned": lambda _, assigned: None,
        },
    )()


def run_kafka_python(task: Task, member: Membership) -> None:
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.instance_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=task.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    with closing(consumer):
        consumer.subscribe([task.topic], listener=_listener(kafka.ConsumerRebalanceListener, member))
        while (command := member.command()) != "close":
            polled = consumer.poll(LONG_POLL_SECONDS * 1000)
            records = [(one.partition, one.offset, one.value) for found in polled.values() for one in found]
            member.see((place.partition for place in consumer.assignment()), records)
            if command == "commit":
                consumer.commit(
                    {
                        kafka.TopicPartition(task.topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
                        for partition, offset in member.positions.items()
                    }
                )
                say(committed=member.positions)


def run_aiokafka(task: Task, member: Membership) -> None:
    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=task.bootstrap,
            group_id=task.group,
            group_instance_id=task.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=task.session_timeout_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[AioRange],
        )
        consumer.subscribe([task.topic], listener=_listener(aiokafka.ConsumerRebalanceListener, member))
        async with consumer:
            while (command := member.command()) != "close":
                polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
                records = [(one.partition, one.offset, one.value) for found in polled.values() for one in found]
                member.see((place.partition for place in consumer.assignment()), records)
                if command == "commit":
                    await consumer.commit(
                        {
                            aiokafka.TopicPartition(task.topic, partition): offset
                            for partition, offset in member.positions.items()
                        }
                    )
                    say(committed=member.positions)

    asyncio.run(run())


LOOPS: dict[str, Callable[[Task, Membership], None]] = {
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}

if __name__ == "__main__":
    asked = Task(**json.loads(sys.stdin.readline()))
    LOOPS[asked.client](asked, Membership())
