"""How lines of input are gathered, and that none gets lost."""

from __future__ import annotations

import os
from typing import cast

import pytest

from kafkalite.cli.produce import Sender, read_lines
from kafkalite.client.partitioner import partition_for_key
from kafkalite.client.simple import SimpleProducer
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import TopicPartition
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row

PLACES = [TopicPartition("t", number) for number in range(3)]


class FakeProducer:
    def __init__(self) -> None:
        self.batches: list[tuple[int, list[bytes | None]]] = []
        self.fails = False

    def send(self, place: TopicPartition, rows: list[Row], codec: Codec) -> int:
        if self.fails:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "no")
        assert [row.offset for row in rows] == list(range(len(rows)))
        first = sum(len(values) for number, values in self.batches if number == place.partition)
        self.batches.append((place.partition, [row.value for row in rows]))
        return first


def sender_of(producer: FakeProducer, batch_lines: int = 100) -> Sender:
    return Sender(cast(SimpleProducer, producer), PLACES, Codec.NONE, (), batch_lines)


def test_lines_without_keys_take_turns_by_batch() -> None:
    producer = FakeProducer()
    sender = sender_of(producer, batch_lines=2)
    for at in range(7):
        sender.add(None, b"%d" % at)
    sender.flush()
    assert producer.batches == [(0, [b"0", b"1"]), (1, [b"2", b"3"]), (2, [b"4", b"5"]), (0, [b"6"])]
    assert sender.sent == 7
    assert (
        sender.summary()
        == "sent 7 records (partition 0: offsets 0–2; partition 1: offsets 0–1; partition 2: offsets 0–1)"
    )


def test_keys_decide_the_partition_and_keep_their_order() -> None:
    producer = FakeProducer()
    sender = sender_of(producer, batch_lines=10)
    for at in range(40):
        sender.add(b"key%d" % (at % 5), b"%d" % at)
    sender.flush()
    for key in range(5):
        place = partition_for_key(b"key%d" % key, 3)
        sent = [value for number, values in producer.batches if number == place for value in values]
        own = [value for value in sent if value is not None and int(value) % 5 == key]
        assert own == [b"%d" % at for at in range(key, 40, 5)]


def test_a_line_that_is_too_large_is_alone_in_its_batch() -> None:
    producer = FakeProducer()
    sender = sender_of(producer)
    for value in (b"a", b"x" * 2_000_000, b"b"):
        sender.add(None, value)
    sender.flush()
    assert [len(values) for _, values in producer.batches] == [1, 1, 1]


def test_what_was_not_acknowledged_does_not_count_as_sent() -> None:
    producer = FakeProducer()
    sender = sender_of(producer)
    sender.add(None, b"a")
    sender.flush()
    sender.add(None, b"b")
    producer.fails = True
    with pytest.raises(KafkaError):
        sender.flush()
    assert sender.sent == 1


def test_lines_keep_their_bytes_and_a_last_one_needs_no_end() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(b"a\r\n\n\xff\x00\nlast")
    lines = [line for line in read_lines(reading) if line is not None]
    os.close(reading)
    assert lines == [b"a\r", b"", b"\xff\x00", b"last"]


def test_a_pause_of_the_input_is_told() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"typed\nhal")
    lines = read_lines(reading)
    assert [next(lines), next(lines)] == [b"typed", None]
    os.write(writing, b"f\n")
    os.close(writing)
    assert [line for line in lines if line is not None] == [b"half"]
    os.close(reading)
