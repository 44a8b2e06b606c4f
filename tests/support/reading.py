"""Reads a whole log as a consumer does: fetch by fetch, and past what is refused by trying the next offset."""

from __future__ import annotations

from typing import NamedTuple

from kafkalite.errors import CorruptBatch
from kafkalite.records.batch import split_batches
from kafkalite.records.rows import Row, iter_rows
from kafkalite.storage.log import PartitionLog

_LIMIT = 1 << 20


class Reading(NamedTuple):
    """All that a log served, in the order in which it did, and what it refused."""

    rows: list[Row]
    epochs: dict[int, int]
    """The leader epoch by offset."""
    refused: list[int]
    log_start_offset: int
    log_end_offset: int


class ShortRead(AssertionError):
    """A fetch that gave bytes which hold no whole, valid batch at the offset asked for."""


def read_everything(log: PartitionLog, max_bytes: int = 700) -> Reading:
    rows: list[Row] = []
    epochs: dict[int, int] = {}
    refused: list[int] = []
    start, end = log.log_start_offset, log.log_end_offset
    offset = start
    while offset < end:
        try:
            ranges = log.read(offset, max_bytes, up_to=end)
        except CorruptBatch:
            refused.append(offset)
            offset += 1
            continue
        if not ranges:
            break
        data = b"".join(found.read() for found in ranges)
        next_offset = offset
        taken = 0
        for batch in split_batches(data):
            if not batch.crc_is_valid():
                raise ShortRead(f"offset {offset}: {batch!r} was served with a bad CRC")
            served = [row for row in iter_rows(batch, limit=_LIMIT) if row.offset >= offset]
            rows += served
            epochs.update((row.offset, batch.leader_epoch) for row in served)
            next_offset = batch.next_offset
            taken += batch.size
        if next_offset <= offset or taken != sum(found.length for found in ranges):
            raise ShortRead(f"offset {offset}: {taken} bytes of whole batches in {len(data)} bytes")
        offset = next_offset
    return Reading(rows, epochs, refused, start, end)
