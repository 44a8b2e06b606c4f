"""Damaged batches whose CRC is right again, so that the decoders are really reached.

Only `CorruptBatch` and `InvalidBatch` may leave them, and where the two decoders succeed, they agree.
"""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pytest
from crc32c import crc32c

from kafkalite.errors import CorruptBatch, InvalidBatch
from kafkalite.records.batch import HEADER_SIZE
from kafkalite.records.columns import decode_columns
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, check_records, encode_rows
from tests.conftest import Trials
from tests.unit.records.samples import LIMIT, batch_of, rows_by_oracle, to_rows

INTERESTING = bytes([0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF])


def random_batch(random_: random.Random) -> bytearray:
    """A batch of a random shape: sizes even or not, few or many records, with or without headers."""
    even = random_.random() < 0.5
    size = random_.choice([0, 1, 60, 130, 500])
    headers = random_.random() < 0.3

    def blob() -> bytes | None:
        return None if random_.random() < 0.1 else random_.randbytes(size if even else random_.randint(0, size))

    rows = [
        Row(
            index,
            1_000 + random_.randrange(300),
            blob() if random_.random() < 0.3 else None,
            blob(),
            tuple(("key", blob()) for _ in range(random_.randrange(4))) if headers else (),
        )
        for index in range(random_.choice([1, 2, 10, 70, 300]))
    ]
    return encode_rows(rows, codec=random_.choice([Codec.NONE] * 4 + list(Codec)))


def mutate(buffer: bytearray, random_: random.Random) -> None:
    """Change some bytes of the records, or of the header's fields that the decoders use, and repair the CRC."""
    for _ in range(random_.choice([1, 1, 1, 2, 5])):
        kind = random_.random()
        at = random_.randrange(HEADER_SIZE, len(buffer)) if kind < 0.85 else random_.choice([22, 26, 34, 42, 59, 60])
        if random_.random() < 0.5:
            buffer[at] = random_.choice(INTERESTING)
        else:
            buffer[at] ^= 1 << random_.randrange(8)
    if random_.random() < 0.1:
        del buffer[random_.randrange(HEADER_SIZE, len(buffer)) :]
        struct.pack_into(">i", buffer, 8, len(buffer) - 12)
    struct.pack_into(">I", buffer, 17, crc32c(bytes(buffer[21:])))


@pytest.mark.parametrize("shard", range(4))
def test_only_our_errors_leave_the_decoders_and_they_agree(trials: Trials, shard: int) -> None:
    outcomes = {"both": 0, "neither": 0}

    def trial(seed: int) -> None:
        random_ = random.Random(seed)
        buffer = random_batch(random_)
        mutate(buffer, random_)
        by_columns = by_oracle = None
        with suppress(CorruptBatch, InvalidBatch):
            by_columns = to_rows(decode_columns(buffer, limit=LIMIT, skip_control=False))
        with suppress(CorruptBatch, InvalidBatch):
            by_oracle = rows_by_oracle(buffer)
        with suppress(CorruptBatch, InvalidBatch):
            check_records(batch_of(buffer), limit=LIMIT, keys_required=bool(seed % 2))
        assert by_columns == by_oracle
        outcomes["neither" if by_columns is None else "both"] += 1

    trials(trial, small=3_000, large=1_000_000, shard=shard, shards=4)
    if sum(outcomes.values()) > 100:
        assert min(outcomes.values()) > sum(outcomes.values()) // 20, f"the mutations are one-sided: {outcomes}"


def test_garbage_as_records(trials: Trials) -> None:
    def trial(seed: int) -> None:
        random_ = random.Random(seed)
        buffer = encode_rows([Row(0, 0, None, bytes(random_.randrange(200)))])
        buffer[HEADER_SIZE:] = bytes(random_.choices(INTERESTING + random_.randbytes(20), k=len(buffer) - HEADER_SIZE))
        struct.pack_into(">i", buffer, 57, random_.choice([0, 1, 2, 5, len(buffer) // 7]))
        struct.pack_into(">I", buffer, 17, crc32c(bytes(buffer[21:])))
        for read in (lambda: decode_columns(buffer, limit=LIMIT), lambda: rows_by_oracle(buffer)):
            with suppress(CorruptBatch, InvalidBatch):
                read()

    trials(trial, small=1_000, large=200_000)
