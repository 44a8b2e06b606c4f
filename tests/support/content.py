"""The records of the fault campaigns: everything about one follows from a seed, its producer and its sequence.

So a record that is read back can be judged by itself: the header `id` says which one it claims to be, and
its key, value and time must be exactly those of that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows

FIRST_TIMESTAMP = 1_000_000
HOT_KEYS = 3
COLD_KEYS = 60


class Sent(NamedTuple):
    """Which record of which producer."""

    producer: int
    sequence: int


def row_of(seed: int, sent: Sent, offset: int) -> Row:
    """The record as it must be read at an offset. Times rise with the sequence, but not from record to record."""
    digest = _digest(seed, *sent)
    value = None if digest[0] < 16 else digest.hex().encode()[: 8 + digest[1] % 40]
    timestamp = FIRST_TIMESTAMP + sent.sequence * 7 + digest[3] % 64
    # Compaction must have something to drop and something to keep in every segment.
    key = digest[2] % HOT_KEYS if digest[6] < 160 else HOT_KEYS + digest[2] % COLD_KEYS
    return Row(offset, timestamp, b"key-%d" % key, value, (("id", b"%d:%d" % (sent.producer, sent.sequence)),))


def claimed_identity(row: Row) -> Sent | None:
    """Which record a row says it is."""
    for name, value in row.headers:
        if name == "id" and value is not None and value.count(b":") == 1:
            producer, sequence = value.split(b":")
            if producer.isdigit() and sequence.isdigit():
                return Sent(int(producer), int(sequence))
    return None


def batch_length(seed: int, producer: int, first_sequence: int) -> int:
    """How many records the batch that begins with this sequence has."""
    return 1 + _digest(seed, producer, first_sequence)[4] % 4


def batch_of(seed: int, producer: int, first_sequence: int) -> bytearray:
    """A batch as an idempotent producer sends it; the same one however often it is sent."""
    codec = Codec.GZIP if _digest(seed, producer, first_sequence)[5] < 32 else Codec.NONE
    return encode_rows(
        [row_of(seed, sent, at) for at, sent in enumerate(batch_records(seed, producer, first_sequence))],
        codec=codec,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=first_sequence,
    )


def batch_records(seed: int, producer: int, first_sequence: int) -> Iterator[Sent]:
    for step in range(batch_length(seed, producer, first_sequence)):
        yield Sent(producer, first_sequence + step)


def _digest(*numbers: int) -> bytes:
    return blake2b(repr(numbers).encode(), digest_size=24).digest()
