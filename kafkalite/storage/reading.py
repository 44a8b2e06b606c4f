"""Reading a segment: by offset as a file range, by time as a record; always whole batches, and only good ones.

What the index and trusted headers can tell costs a few reads of 61 bytes. Bytes that nobody has looked at since the log
was opened are checked first. Where damage hides what was asked for, `CorruptBatch` says which offsets, and where the
next good one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from kafkalite.errors import CorruptBatch
from kafkalite.records.batch import RecordBatch
from kafkalite.records.rows import iter_rows
from kafkalite.storage import scan
from kafkalite.storage.disk import FileRange
from kafkalite.storage.scan import Damage, Placed
from kafkalite.storage.segment import Segment

DECOMPRESSED_LIMIT: Final = 256 * 1024 * 1024
"""The most that one stored batch may expand to when the broker itself looks into it."""

_MOST_SEARCHED: Final = 250_000
"""Records of one batch that are looked through for a time: a second's work."""


class TimestampOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimedBatch(NamedTuple):
    """A batch that may hold the first record since `timestamp`, not below the offset `at_least`."""

    found: FileRange
    timestamp: int
    at_least: int

    def first_record(self) -> TimestampOffset | None:
        """Blocking, and as slow as the batch is large; any thread may call it.

        The first record of a batch of very many stands for them all: a reader begins too early rather than too late.
        """
        batch = RecordBatch(memoryview(self.found.read()))
        if batch.count > _MOST_SEARCHED:
            return TimestampOffset(batch.base_timestamp, max(batch.base_offset, self.at_least), batch.leader_epoch)
        for row in iter_rows(batch, limit=DECOMPRESSED_LIMIT):
            if row.timestamp >= self.timestamp and row.offset >= self.at_least:
                return TimestampOffset(row.timestamp, row.offset, batch.leader_epoch)
        return None


def read(segment: Segment, offset: int, max_bytes: int, up_to: int) -> FileRange | None:
    """Whole batches from the one that holds `offset` on, at least one, none at or past `up_to`; None if none is.

    Raises `CorruptBatch` if the bytes that should hold `offset` do not hold what was written.
    """
    start = locate(segment, offset)
    if start is None or start.batch.base_offset >= up_to:
        return None
    limit = segment.size
    if up_to < segment.next_offset:
        # Damage that hides where `up_to` begins also ends this read before it: `_verify` does not step over it.
        with suppress(CorruptBatch):
            last = locate(segment, up_to)
            limit = last.position if last is not None else segment.size
    begin = start.position
    if segment.good_until(begin) >= min(limit, begin + max(max_bytes, start.batch.size)):
        end = _whole_batches(segment, start, max_bytes, limit)
    else:
        end = _verify(segment, start, max_bytes, limit)
    return FileRange(segment.file, begin, end - begin)


def is_read_to_its_end(segment: Segment, found: FileRange) -> bool:
    """Whether the next segment may follow this range: a reader must not step over bytes or offsets left out."""
    end = found.position + found.length
    offsets = segment.indexes.offsets
    if end != segment.size or offsets.has(segment.next_offset, end):
        return end == segment.size
    entry = offsets.last_at_or_before(end - 1)
    last_part = max(found.position, entry[1] if entry else 0)
    *_, last = scan.headers(segment.file, last_part, end)
    return last.batch.next_offset == segment.next_offset


def locate(segment: Segment, offset: int) -> Placed | None:
    """The first batch that ends after `offset`, None if there is none; raises if damage hides it."""
    damage: Damage | None = None
    for found in segment.batches(segment.indexes.offsets.last_at_or_below(offset)):
        if isinstance(found, Damage):
            damage = found
        elif found.batch.next_offset <= offset:
            damage = None
        elif damage is not None and found.batch.base_offset > offset:
            raise _corrupt(segment, damage, found.batch.base_offset)
        else:
            return found
    if damage is not None:
        raise _corrupt(segment, damage, segment.next_offset)
    return None


def batches_since(segment: Segment, timestamp: int, at_least: int) -> Iterator[TimedBatch]:
    """Where the first record with a timestamp of at least `timestamp` and an offset of at least `at_least` may be.

    Raises `CorruptBatch` where damage may hide it.
    """
    offsets, times = segment.indexes
    entry = times.last_below(timestamp) if segment.is_whole else None
    for found in segment.batches(offsets.last_at_or_before(entry[1]) if entry else None):
        if isinstance(found, Damage):
            raise _corrupt(segment, found, segment.next_offset)
        position, batch = found
        if batch.max_timestamp >= timestamp and batch.next_offset > at_least:
            yield TimedBatch(FileRange(segment.file, position, batch.size), timestamp, at_least)


def _whole_batches(segment: Segment, start: Placed, max_bytes: int, limit: int) -> int:
    """Where the last whole batch within `max_bytes` ends, by the index and trusted headers."""
    target = start.position + max_bytes
    if target >= limit:
        return limit
    end = start.position + start.batch.size
    entry = segment.indexes.offsets.last_at_or_before(target)
    if entry and entry[1] > end:
        end = entry[1]
    for placed in scan.headers(segment.file, end, target):
        if placed.position + placed.batch.size > target:
            break
        end = placed.position + placed.batch.size
    return end


def _verify(segment: Segment, start: Placed, max_bytes: int, limit: int) -> int:
    """The same, checking every byte; ends before the first damage."""
    end = start.position
    for found in segment.batches((start.batch.base_offset, start.position)):
        if isinstance(found, Damage) or found.position >= limit:
            break
        batch_end = found.position + found.batch.size
        if batch_end > start.position + max_bytes and found.position > start.position:
            break
        end = batch_end
    segment.verified.add(start.position, end)
    return end


def _corrupt(segment: Segment, damage: Damage, next_good_offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"{segment.path} is damaged from byte {damage.position}, offset {damage.expected_offset}: {damage.reason}. "
        f"Offsets {damage.expected_offset} to {next_good_offset - 1} cannot be read; "
        f"seek to {next_good_offset}, or restore the file from a replica or backup"
    )
