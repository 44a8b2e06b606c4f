"""Walking the batches of a segment file, trusted or checked.

`headers` believes what it reads and touches 61 bytes a batch: for bytes that this process wrote or has checked.
`scan` believes nothing. The CRC covers most of a batch; the fields that it leaves out are checked by what surrounds
them: length and magic by the CRC itself, the base offset by the batch before (or a known gap), the leader epoch
by the log's epochs. What fails is reported as `Damage`, and the walk goes on at the next batch that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafkalite.records.batch import HEADER_SIZE, LENGTH_PREFIX, RecordBatch
from kafkalite.storage import disk
from kafkalite.storage.disk import OpenFile

_HEADER_CHUNK: Final = 8 * 1024
_SCAN_CHUNK: Final = 256 * 1024
_MAGIC_AT: Final = 16


class Placed(NamedTuple):
    """A batch and where it begins in its file."""

    position: int
    batch: RecordBatch


class Damage(NamedTuple):
    """From this position on, up to the next batch that is reported, the file does not hold what was written."""

    position: int
    expected_offset: int
    reason: str


Rule = Callable[[Placed, int], str | None]
"""(batch, expected offset) → what is wrong with it, beyond what its own bytes tell; None if nothing is."""


class _Window:
    """Reads a file forward in chunks."""

    def __init__(self, file: OpenFile, chunk: int) -> None:
        self._file = file
        self._chunk = chunk
        self._start = 0
        self._data = memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """`length` bytes at a position, or fewer where the file ends."""
        at = position - self._start
        if at < 0 or at + length > len(self._data):
            self._data = memoryview(disk.read_at(self._file, position, max(length, self._chunk)))
            self._start, at = position, 0
        return self._data[at : at + length]


def headers(file: OpenFile, position: int, end: int) -> Iterator[Placed]:
    """The headers of the batches in [position, end), unchecked; `view` holds nothing but the header."""
    window = _Window(file, _HEADER_CHUNK)
    while position < end:
        batch = RecordBatch(window.view(position, HEADER_SIZE))
        yield Placed(position, batch)
        position += batch.size


def scan(
    file: OpenFile,
    position: int,
    end: int,
    expected_offset: int,
    *,
    rule: Rule,
    next_anchor: Callable[[int], tuple[int, int] | None] = lambda _position: None,
) -> Iterator[Placed | Damage]:
    """Every whole batch in [position, end), checked; and every damaged stretch between them.

    `next_anchor` gives the first (offset, position) after a position that is known to begin a batch, if any is.
    """
    window = _Window(file, _SCAN_CHUNK)
    while position < end:
        found = _check(window, position, end, expected_offset, rule)
        if isinstance(found, str):
            yield Damage(position, expected_offset, found)
            resumed = _after_claimed_length(window, position, end, expected_offset, rule, next_anchor)
            resumed = resumed or _next_good(window, position + 1, end, expected_offset, rule, next_anchor)
            if resumed is None:
                return
            found = resumed
        yield found
        position = found.position + found.batch.size
        expected_offset = found.batch.next_offset


def _check(window: _Window, position: int, end: int, expected_offset: int, rule: Rule) -> Placed | str:
    """The batch at a position, or what is wrong there."""
    view = window.view(position, HEADER_SIZE)
    if len(view) < HEADER_SIZE or position + HEADER_SIZE > end:
        return f"{min(len(view), end - position)} bytes are left, less than a batch header"
    batch = RecordBatch(view)
    if batch.magic != 2:
        return f"magic is {batch.magic}, not 2"
    if batch.length < HEADER_SIZE - LENGTH_PREFIX:
        return f"length {batch.length} is less than a header's"
    if position + batch.size > end:
        return f"the header says {batch.size} bytes, {end - position} are left"
    if batch.base_offset < expected_offset:
        return f"base offset {batch.base_offset} is below the expected {expected_offset}"
    batch.view = window.view(position, batch.size)
    if len(batch.view) < batch.size:
        return f"the file ends within the batch of {batch.size} bytes"
    if not batch.crc_is_valid():
        return "the CRC does not match"
    if batch.last_offset_delta < 0 or not 0 <= batch.count <= batch.last_offset_delta + 1:
        return f"{batch.count} records do not fit a last offset delta of {batch.last_offset_delta}"
    placed = Placed(position, batch)
    return rule(placed, expected_offset) or placed


def _after_claimed_length(
    window: _Window,
    position: int,
    end: int,
    expected_offset: int,
    rule: Rule,
    next_anchor: Callable[[int], tuple[int, int] | None],
) -> Placed | None:
    """The batch after a damaged one whose length still holds; so what lies within its records is not looked at."""
    view = window.view(position, HEADER_SIZE)
    if len(view) < HEADER_SIZE:
        return None
    damaged = RecordBatch(view)
    claimed_end = position + damaged.size
    if damaged.length < HEADER_SIZE - LENGTH_PREFIX or claimed_end >= end:
        return None
    next_offset = expected_offset + damaged.last_offset_delta + 1
    anchor = next_anchor(claimed_end - 1)
    if anchor is not None and anchor[1] == claimed_end:
        next_offset = anchor[0]
    found = _check(window, claimed_end, end, expected_offset, lambda placed, _expected: rule(placed, next_offset))
    return found if isinstance(found, Placed) and found.batch.base_offset == next_offset else None


def _next_good(
    window: _Window,
    position: int,
    end: int,
    expected_offset: int,
    rule: Rule,
    next_anchor: Callable[[int], tuple[int, int] | None],
) -> Placed | None:
    """The first good batch at or after a position: a damaged length says nothing, so the magic byte is searched for."""

    def gap_is_fine(placed: Placed, _expected: int) -> str | None:
        return rule(placed, placed.batch.base_offset)

    while position < end:
        anchor = next_anchor(position - 1)
        stop = anchor[1] if anchor and anchor[1] < end else end
        while position < stop:
            chunk = bytes(window.view(position, min(_SCAN_CHUNK, stop - position + _MAGIC_AT + 1)))
            if len(chunk) <= _MAGIC_AT:
                break
            at = chunk.find(2, _MAGIC_AT)
            while at >= 0 and position + at - _MAGIC_AT < stop:
                found = _check(window, position + at - _MAGIC_AT, end, expected_offset, gap_is_fine)
                if isinstance(found, Placed):
                    return found
                at = chunk.find(2, at + 1)
            position += len(chunk) - _MAGIC_AT
        position = stop
        if anchor and stop < end:
            found = _check(window, stop, end, anchor[0], rule)
            if isinstance(found, Placed):
                return found
            position = stop + 1
    return None
