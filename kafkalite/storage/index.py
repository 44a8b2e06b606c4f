"""A sparse index of a segment file: rising keys and the byte positions where they begin.

The offset index maps a batch's first offset to its position, about every `index.interval.bytes`. It also has an
entry after every gap in the offsets: so a reader can tell a gap that compaction made from a damaged header.
The time index maps T to a position such that every batch before that position has a timestamp of at most T.

An index lives in memory while its segment is written, and goes to disk whole, once, with a checksum: a flipped bit
is noticed and the index is made again from the log. Little-endian:

    | magic 4 | crc32c 4 | log bytes 8 | next offset 8 | max timestamp 8 | is whole 1 | count 4 |
    | keys 8 × n | positions 4 × n |

The CRC covers all that follows it. The summary (log bytes, next offset, max timestamp, is whole) says how much of the
log the index describes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from kafkalite.storage import disk

_MAGIC: Final = b"KLX1"
_HEAD: Final = struct.Struct("<4sI")
_SUMMARY: Final = struct.Struct("<qqq?I")
_SUMMARY_END: Final = _HEAD.size + _SUMMARY.size
ENTRY_SIZE: Final = 12


class Summary(NamedTuple):
    """The part of a segment that an index describes."""

    log_bytes: int
    next_offset: int
    max_timestamp: int
    is_whole: bool
    """False: batches that were damaged when the indexes were made are not in them."""


class SparseIndex:
    """Keys and positions, both rising; the owner adds at the end only."""

    __slots__ = ("keys", "positions")

    def __init__(self) -> None:
        self.keys = array("q")
        self.positions = array("I")

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: int, position: int) -> None:
        self.keys.append(key)
        self.positions.append(position)

    def last_at_or_below(self, key: int) -> tuple[int, int] | None:
        """The last (key, position) whose key is not above `key`."""
        return self._entry(bisect_right(self.keys, key) - 1)

    def last_below(self, key: int) -> tuple[int, int] | None:
        return self._entry(bisect_left(self.keys, key) - 1)

    def last_at_or_before(self, position: int) -> tuple[int, int] | None:
        """The last (key, position) that begins at or before `position`."""
        return self._entry(bisect_right(self.positions, position) - 1)

    def first_after(self, position: int) -> tuple[int, int] | None:
        at = bisect_right(self.positions, position)
        return self._entry(at) if at < len(self.positions) else None

    def has(self, key: int, position: int) -> bool:
        at = bisect_left(self.keys, key)
        return at < len(self.keys) and self.keys[at] == key and self.positions[at] == position

    def truncate(self, position: int) -> None:
        """Forget everything at or after a position."""
        keep = bisect_left(self.positions, position)
        del self.keys[keep:], self.positions[keep:]

    def _entry(self, at: int) -> tuple[int, int] | None:
        return (self.keys[at], self.positions[at]) if at >= 0 else None


def save(path: Path, index: SparseIndex, summary: Summary) -> None:
    body = _SUMMARY.pack(*summary, len(index)) + _little_endian(index.keys) + _little_endian(index.positions)
    disk.replace(path, _HEAD.pack(_MAGIC, crc32c(body)) + body)


def load(path: Path) -> tuple[SparseIndex, Summary] | None:
    """The index and what it describes; None if the file is missing or not exactly what was saved."""
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        return None
    if len(content) < _SUMMARY_END:
        return None
    magic, crc = _HEAD.unpack_from(content)
    if magic != _MAGIC or crc32c(content[_HEAD.size :]) != crc:
        return None
    *summary, count = _SUMMARY.unpack_from(content, _HEAD.size)
    if len(content) != _SUMMARY_END + ENTRY_SIZE * count:
        return None
    index = SparseIndex()
    index.keys.frombytes(content[_SUMMARY_END : _SUMMARY_END + 8 * count])
    index.positions.frombytes(content[_SUMMARY_END + 8 * count :])
    if sys.byteorder == "big":
        index.keys.byteswap()
        index.positions.byteswap()
    return index, Summary(*summary)


def _little_endian(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()
