"""What a log remembers of idempotent producers: enough to notice a repeated, a lost and a fenced batch.

For each producer id: its epoch, its last five batches (a client has at most five in flight), the first offset of its
open transaction, and when it was last seen. A producer that is not known may begin with any sequence.

A snapshot is the state just before an offset; big-endian, one entry a producer:

    | magic 4 | crc32c 4 | entries: producer id 8, epoch 2, last seen 8, open transaction 8, n 1, n × (first, last
    | sequence 4+4, first, last offset 8+8) |
"""

from __future__ import annotations

import struct
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.records.batch import RecordBatch, next_sequence
from kafkalite.storage import disk

_REMEMBERED: Final = 5
_NO_TRANSACTION: Final = -1
_MAGIC: Final = b"KLP1"
_HEAD: Final = struct.Struct(">4sI")
_ENTRY: Final = struct.Struct(">qhqqB")
_BATCH: Final = struct.Struct(">iiqq")


class AppendedBatch(NamedTuple):
    """A batch that is in the log already."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class _Producer:
    __slots__ = ("batches", "epoch", "last_seen_ms", "transaction_start")

    def __init__(self, epoch: int, last_seen_ms: int, transaction_start: int = _NO_TRANSACTION) -> None:
        self.epoch = epoch
        self.last_seen_ms = last_seen_ms
        self.transaction_start = transaction_start
        self.batches: deque[AppendedBatch] = deque(maxlen=_REMEMBERED)


class Producers:
    """The producers of one log."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, batch: RecordBatch) -> AppendedBatch | None:
        """The batch as it was appended before, if it is a repetition; raises if it must not be appended."""
        known = self._producers.get(batch.producer_id)
        if known is None:
            return None
        who = f"producer {batch.producer_id} epoch {batch.producer_epoch}"
        if batch.producer_epoch < known.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"{who} is fenced: epoch {known.epoch} has been seen on this partition",
            )
        if batch.producer_epoch > known.epoch:
            if batch.base_sequence != 0:
                raise _out_of_order(who, batch.base_sequence, 0)
        else:
            last_sequence = batch.last_sequence
            for appended in known.batches:
                if appended.first_sequence == batch.base_sequence and appended.last_sequence == last_sequence:
                    return appended
            if known.batches:
                expected = next_sequence(known.batches[-1].last_sequence)
                if batch.base_sequence != expected:
                    raise _out_of_order(who, batch.base_sequence, expected)
        if known.transaction_start != _NO_TRANSACTION and not batch.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{who} sent a plain batch within its open transaction")
        return None

    def note(self, batch: RecordBatch, now_ms: int) -> None:
        """Remember a batch that has been appended, by this leader or by another whose log is replayed."""
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            transaction_start = known.transaction_start if known else _NO_TRANSACTION
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch, now_ms, transaction_start)
        known.last_seen_ms = now_ms
        if batch.is_control:
            known.transaction_start = _NO_TRANSACTION
            return
        if batch.is_transactional and known.transaction_start == _NO_TRANSACTION:
            known.transaction_start = batch.base_offset
        known.batches.append(
            AppendedBatch(batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset)
        )

    def forget_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Drop producers that have been silent too long; one with an open transaction stays."""
        self._producers = {
            producer_id: producer
            for producer_id, producer in self._producers.items()
            if producer.last_seen_ms + expiration_ms >= now_ms or producer.transaction_start != _NO_TRANSACTION
        }

    def snapshot(self) -> bytes:
        parts = []
        for producer_id, producer in self._producers.items():
            parts.append(
                _ENTRY.pack(
                    producer_id,
                    producer.epoch,
                    producer.last_seen_ms,
                    producer.transaction_start,
                    len(producer.batches),
                )
            )
            parts += [_BATCH.pack(*appended) for appended in producer.batches]
        body = b"".join(parts)
        return _HEAD.pack(_MAGIC, crc32c(body)) + body


def write_snapshot(path: Path, snapshot: bytes) -> None:
    disk.replace(path, snapshot)


def read_snapshot(path: Path) -> Producers | None:
    """The producers of a snapshot; None if the file is missing or not exactly what was written."""
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        return None
    if len(content) < _HEAD.size:
        return None
    magic, crc = _HEAD.unpack_from(content)
    if magic != _MAGIC or crc32c(content[_HEAD.size :]) != crc:
        return None
    producers = Producers()
    at = _HEAD.size
    while at < len(content):
        producer_id, epoch, last_seen_ms, transaction_start, count = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        producer = producers._producers[producer_id] = _Producer(epoch, last_seen_ms, transaction_start)
        producer.batches.extend(AppendedBatch(*_BATCH.unpack_from(content, at + i * _BATCH.size)) for i in range(count))
        at += count * _BATCH.size
    return producers


def _out_of_order(who: str, sequence: int, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{who} sent the sequence {sequence}, {expected} was expected"
    )
