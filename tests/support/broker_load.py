"""Clients that work on while their broker dies and comes back, each in a thread of its own, and write a history.

    PipeliningProducer   idempotent, on a plain socket: up to five batches under way, sent again until they are answered
    LibrdkafkaProducer   idempotent, confluent-kafka
    RefusedProducer      sends what must be refused: the history has it as failed, and nobody may ever read it
    Follower             reads partitions as they grow
    Committer            commits ever higher offsets of a group, and knows which were acknowledged

A client stops when it is told to, after all that it has begun has an outcome. What goes wrong in its thread is raised
by `stop`.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import count

from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import Message as LibrdkafkaMessage
from confluent_kafka import Producer

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkalite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kafkalite.protocol.messages.produce import ProduceResponse
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows
from tests.support.broker_history import BrokerHistory, Read, Seen, Send
from tests.support.broker_wire import Closed, Wire, batch_of_values, produce_request

IN_FLIGHT = 5
GIVE_UP_SECONDS = 60.0
_NOW_MS = 1_700_000_000_000
_RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Client(ABC):
    """A thread that has a task until it is stopped."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.is_stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.is_stopping.set()
        self._thread.join(GIVE_UP_SECONDS)
        assert not self._thread.is_alive(), f"{self.name} does not come to its end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as failure:
            self._failure = failure

    @abstractmethod
    def work(self) -> None: ...

    def connect(self) -> Wire:
        """Try until the broker is there again."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return Wire(self.port)
            except Closed:
                assert time.monotonic() < deadline, f"{self.name}: the broker does not come back"
                time.sleep(0.01)


class _Batch:
    """Records for one partition, which are the same bytes however often they are sent."""

    def __init__(self, partition: int, sends: Sequence[Send], records: bytearray) -> None:
        self.partition = partition
        self.sends = sends
        self.records = records


class PipeliningProducer(Client):
    """Idempotent by the rules: sequences per partition, the unanswered sent again in order after each reconnect."""

    def __init__(self, name: str, port: int, history: BrokerHistory, topic: str, partitions: int, seed: int) -> None:
        super().__init__(name, port)
        self._history = history
        self._topic = topic
        self._partitions = partitions
        self._rng = random.Random(f"{name} {seed}")
        self._identity = (-1, -1)
        self._sequences = dict.fromkeys(range(partitions), 0)
        self._numbers = count()
        self.sent_again = 0

    def work(self) -> None:
        unanswered: deque[_Batch] = deque()
        while not self.is_stopping.is_set() or unanswered:
            try:
                with self.connect() as wire:
                    self._produce(wire, unanswered)
            except Closed:
                continue

    def _produce(self, wire: Wire, unanswered: deque[_Batch]) -> None:
        if self._identity[0] < 0:
            answer = wire.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), InitProducerIdResponse
            )
            assert answer.error_code == 0
            self._identity = answer.producer_id, answer.producer_epoch
        self.sent_again += len(unanswered)
        for batch in unanswered:
            wire.send(produce_request(self._topic, {batch.partition: batch.records}))
        while not self.is_stopping.is_set() or unanswered:
            while len(unanswered) < IN_FLIGHT and not self.is_stopping.is_set():
                unanswered.append(self._next_batch())
                wire.send(produce_request(self._topic, {unanswered[-1].partition: unanswered[-1].records}))
            answered = wire.receive(ProduceResponse).responses[0].partition_responses[0]
            batch = unanswered.popleft()
            assert answered.error_code == 0, f"{self.name}: {ErrorCode(answered.error_code).name} for a batch in order"
            for step, send in enumerate(batch.sends):
                send.acknowledged(answered.base_offset + step)

    def _next_batch(self) -> _Batch:
        partition = self._rng.randrange(self._partitions)
        size = self._rng.choice([1, 1, 2, 5, 50])
        sends = [
            self._history.begin(
                partition, f"{self.name} {next(self._numbers)} ".encode() + self._rng.randbytes(40).hex().encode()
            )
            for _ in range(size)
        ]
        records = encode_rows(
            [Row(at, _NOW_MS, b"key", send.value) for at, send in enumerate(sends)],
            codec=self._rng.choice([Codec.NONE, Codec.LZ4]),
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=self._sequences[partition],
        )
        self._sequences[partition] += size
        return _Batch(partition, sends, records)


class RefusedProducer(Client):
    """Sends batches with a wrong CRC. One whose refusal does not arrive is unknown."""

    def __init__(self, name: str, port: int, history: BrokerHistory, topic: str) -> None:
        super().__init__(name, port)
        self._history = history
        self._topic = topic

    def work(self) -> None:
        numbers = count()
        while not self.is_stopping.is_set():
            try:
                with self.connect() as wire:
                    while not self.is_stopping.is_set():
                        send = self._history.begin(0, f"{self.name} {next(numbers)}".encode())
                        batch = batch_of_values([send.value])
                        batch[17] ^= 1
                        answer = wire.produce(self._topic, batch)
                        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
                        send.refused()
                        self.is_stopping.wait(0.02)
            except Closed:
                continue


class LibrdkafkaProducer(Client):
    """confluent-kafka, as idempotent as it can be."""

    def __init__(self, name: str, port: int, history: BrokerHistory, topic: str, partitions: int) -> None:
        super().__init__(name, port)
        self._history = history
        self._topic = topic
        self._partitions = partitions

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{self.port}",
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": int(GIVE_UP_SECONDS * 1000),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        for number in count():
            if self.is_stopping.is_set():
                break
            partition = number % self._partitions
            send = self._history.begin(partition, f"{self.name} {number}".encode())
            try:
                producer.produce(
                    self._topic,
                    send.value,
                    key=str(number % 100).encode(),
                    partition=partition,
                    on_delivery=partial(self._delivered, send),
                )
            except BufferError:
                send.refused()
                producer.poll(0.05)
            if number % 50 == 0 or len(producer) > 500:
                producer.poll(0.01)
        assert producer.flush(GIVE_UP_SECONDS) == 0, f"{self.name} could not deliver everything"

    def _delivered(self, send: Send, error: LibrdkafkaError | None, message: LibrdkafkaMessage) -> None:
        if error is None:
            offset = message.offset()
            assert offset is not None
            send.acknowledged(offset)


class Follower(Client):
    """Reads each partition from its start, as it grows; stops at once when told to."""

    def __init__(self, name: str, port: int, history: BrokerHistory, topic: str, partitions: int) -> None:
        super().__init__(name, port)
        self._history = history
        self._topic = topic
        self._positions = dict.fromkeys(range(partitions), 0)

    def work(self) -> None:
        while not self.is_stopping.is_set():
            try:
                with self.connect() as wire:
                    while not self.is_stopping.is_set():
                        for partition in self._positions:
                            self.read(wire, partition, max_wait_ms=20)
            except Closed:
                continue

    def read(self, wire: Wire, partition: int, max_wait_ms: int = 0) -> tuple[int, int]:
        """One fetch; gives the new position and the high watermark."""
        position = self._positions[partition]
        found = wire.fetch(self._topic, position, partition=partition, max_wait_ms=max_wait_ms)
        assert found.error_code == 0, f"{self.name} at {position}: {ErrorCode(found.error_code).name}"
        records = [Seen(row.offset, row.value or b"") for row in found.rows]
        self._history.read(Read(self.name, partition, position, records, found.high_watermark))
        self._positions[partition] = records[-1].offset + 1 if records else position
        return self._positions[partition], found.high_watermark

    def read_all(self) -> None:
        """To the end of every partition, when nothing is sent any more."""
        with self.connect() as wire:
            for partition in self._positions:
                position, end = self.read(wire, partition)
                while position < end:
                    before = position
                    position, end = self.read(wire, partition)
                    assert position > before, f"{self.name} gets nothing at {position}, before the end {end}"
                self._history.has_read_all(self.name, partition, end)


class Committer(Client):
    """Commits 1, 2, 3, … for partition 0 of a topic, as a consumer that assigns its partitions itself."""

    def __init__(self, name: str, port: int, topic: str) -> None:
        super().__init__(name, port)
        self._topic = topic
        self.begun = 0
        self.acknowledged = 0

    def work(self) -> None:
        while not self.is_stopping.is_set():
            try:
                with self.connect() as wire:
                    while not self.is_stopping.is_set():
                        self._commit(wire)
            except Closed:
                continue

    def _commit(self, wire: Wire) -> None:
        self.begun += 1
        answer = wire.ask(
            OffsetCommitRequest(
                group_id=self.name,
                topics=[
                    OffsetCommitRequestTopic(
                        name=self._topic,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=0, committed_offset=self.begun, committed_metadata=str(self.begun)
                            )
                        ],
                    )
                ],
            ),
            OffsetCommitResponse,
        )
        error = answer.topics[0].partitions[0].error_code
        if error == 0:
            self.acknowledged = self.begun
        else:
            assert error in _RETRIABLE, f"{self.name}: {ErrorCode(error).name}"
            self.is_stopping.wait(0.01)

    def committed(self) -> int:
        """What the broker says now."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        topics = [OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.name, topics=topics)])
        with self.connect() as wire:
            while True:
                (group,) = wire.ask(request, OffsetFetchResponse).groups
                if group.error_code == 0:
                    (found,) = group.topics[0].partitions
                    assert found.error_code == 0
                    assert found.metadata == ("" if found.committed_offset < 0 else str(found.committed_offset))
                    return found.committed_offset
                assert group.error_code in _RETRIABLE, ErrorCode(group.error_code).name
                assert time.monotonic() < deadline
                time.sleep(0.01)
