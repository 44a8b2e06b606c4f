"""One segment of a log: a file of record batches from a base offset on, and its two sparse indexes.

The last segment of a log is written; all others are closed and never change, except that compaction replaces whole
ones. A closed segment opens its file and loads its indexes when a reader comes, and lets go of them when asked to.

Bytes are served only if this process wrote them or has checked them (`scan.scan`) since it opened the log:
`verified` remembers which. What does not hold is refused with `CorruptBatch`; what lies around it stays readable.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.records.batch import HEADER_SIZE, RecordBatch
from kafkalite.storage import disk, index, layout, scan
from kafkalite.storage.disk import OpenFile
from kafkalite.storage.epochs import LeaderEpochs
from kafkalite.storage.index import SparseIndex, Summary
from kafkalite.storage.scan import Damage, Placed

logger = logging.getLogger(__name__)

_NOTHING: Final = 2**63
"""A position that no file reaches."""


class Indexes(NamedTuple):
    """Both indexes of a segment; `index` says what they map."""

    offsets: SparseIndex
    times: SparseIndex


class CutPoint(NamedTuple):
    """Where a segment is cut: the byte, where the batch before it ends, and where the log's offsets then go on.

    The two offsets differ where compaction has left a gap.
    """

    position: int
    last_batch_end: int
    end_offset: int


class VerifiedSpans:
    """The stretches of a file that are known to hold what was written."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        spans = self._spans
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
            return
        for span in [span for span in spans if span[0] <= end and span[1] >= start]:
            spans.remove(span)
            start, end = min(start, span[0]), max(end, span[1])
        spans.append((start, end))

    def reach(self, position: int) -> int:
        """Where the verified stretch that holds `position` ends; the position itself if none does."""
        for start, end in reversed(self._spans):
            if start <= position < end:
                return end
        return position

    def truncate(self, size: int) -> None:
        self._spans = [(start, min(end, size)) for start, end in self._spans if start < size]


class Segment:
    """A segment file. `next_offset` and `size` are where it ends; for the last segment they move."""

    __slots__ = (
        "_file",
        "_index_interval",
        "_indexes",
        "_last_indexed",
        "_max_timestamp",
        "_written_from",
        "base_offset",
        "epochs",
        "first_timestamp",
        "folder",
        "index_bytes",
        "indexes_saved",
        "is_pinned",
        "is_whole",
        "next_offset",
        "size",
        "verified",
    )

    def __init__(
        self, folder: Path, base_offset: int, epochs: LeaderEpochs, *, size: int, next_offset: int, index_interval: int
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.epochs = epochs
        self.size = size
        self.next_offset = next_offset
        self.first_timestamp = 0
        """The timestamp of the first batch, once the segment is open for writing: its age counts from it."""
        self.verified = VerifiedSpans()
        self.is_pinned = False
        """While a compaction replaces the files, readers keep to what is open."""
        self.indexes_saved = True
        self.is_whole = True
        """False: the indexes do not know everything, as damage hid it when they were made."""
        self._file: OpenFile | None = None
        self._indexes: Indexes | None = None
        self._index_interval = index_interval
        self._last_indexed = 0
        self.index_bytes = 0
        """The size of the offset index."""
        self._max_timestamp = -1
        self._written_from = _NOTHING

    @classmethod
    def create(cls, folder: Path, base_offset: int, epochs: LeaderEpochs, index_interval: int) -> Segment:
        """A new, empty last segment."""
        segment = cls(folder, base_offset, epochs, size=0, next_offset=base_offset, index_interval=index_interval)
        segment.open_for_writing()
        segment.begin_indexes()
        return segment

    def empty_twin(self) -> Segment:
        """A segment of the same place for a compaction to fill; its file is whatever has that name in the end."""
        twin = Segment(
            self.folder,
            self.base_offset,
            self.epochs,
            size=0,
            next_offset=self.base_offset,
            index_interval=self._index_interval,
        )
        twin.begin_indexes()
        return twin

    @property
    def path(self) -> Path:
        return layout.log_file(self.folder, self.base_offset)

    @property
    def file(self) -> OpenFile:
        if self._file is None:
            self._file = OpenFile(self.path)
        return self._file

    @property
    def indexes(self) -> Indexes:
        if self._indexes is None:
            self._load_indexes()
            assert self._indexes is not None
        return self._indexes

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 if there is none."""
        if self._indexes is None:
            self._load_indexes()
        return self._max_timestamp

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def release(self) -> None:
        """Let go of file and indexes; the next reader brings them back."""
        if not self.is_pinned and self.indexes_saved:
            self._file = None
            self._indexes = None

    # Writing: the last segment only.

    def open_for_writing(self) -> None:
        # What was saved may be good for a part; that all of it must be flushed is known by this.
        self.indexes_saved = False
        self._file = OpenFile(self.path, os.O_RDWR | os.O_CREAT)
        if self._file.size >= HEADER_SIZE:
            self.first_timestamp = next(scan.headers(self._file, 0, HEADER_SIZE)).batch.max_timestamp

    def append(self, batch: RecordBatch) -> None:
        """Write a batch whose offsets are set. If this raises, `cut_to_size` must follow: the file may be longer."""
        position, file = self.size, self._file
        assert file is not None, "open_for_writing comes first"
        disk.write_at(file, batch.view, position)
        if position < self._written_from:
            self._written_from = position
        self.note(position, batch)

    def cut_to_size(self) -> None:
        """Remove what a failed write has left behind the end."""
        disk.truncate(self.file, self.size)

    def note(self, position: int, batch: RecordBatch) -> None:
        """Take a batch at the end of the file into size, offsets and indexes."""
        base_offset, timestamp = batch.base_offset, batch.max_timestamp
        is_after_gap = base_offset != self.next_offset
        if position - self._last_indexed >= self._index_interval or is_after_gap or position == 0:
            assert self._indexes is not None, "begin_indexes or adopt_saved_indexes comes first"
            offsets, times = self._indexes
            offsets.add(base_offset, position)
            self.index_bytes += index.ENTRY_SIZE
            if self._max_timestamp > (times.keys[-1] if times.keys else -1):
                times.add(self._max_timestamp, position)
            self._last_indexed = position
        if position == 0:
            self.first_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.size = position + batch.size
        self.next_offset = base_offset + batch.last_offset_delta + 1

    def cut_point(self, end_offset: int) -> CutPoint:
        """Where to cut so that no batch ends past `end_offset`."""
        key, end = end_offset, end_offset
        while (anchor := self.indexes.offsets.last_below(key)) is not None:
            kept: Placed | None = None
            for found in self.batches(anchor):
                if isinstance(found, Placed):
                    if found.batch.next_offset > end_offset:
                        end = min(end, found.batch.base_offset)
                        break
                    kept = found
            if kept is not None:
                return CutPoint(kept.position + kept.batch.size, kept.batch.next_offset, end)
            key = anchor[0]
        return CutPoint(0, self.base_offset, end)

    def cut(self, point: CutPoint) -> None:
        """Remove everything from a point on. The saved indexes go first: they describe what will not be there."""
        offsets, times = self.indexes
        self.remove_saved_indexes()
        self.open_for_writing()
        disk.truncate(self.file, point.position)
        disk.sync_data(self.file)
        self.size, self.next_offset = point.position, point.last_batch_end
        self.verified.truncate(self.size)
        self._written_from = _NOTHING
        offsets.truncate(self.size)
        times.truncate(self.size)
        self.index_bytes = len(offsets) * index.ENTRY_SIZE
        self._last_indexed = offsets.positions[-1] if len(offsets) else 0
        before, position = times.last_at_or_before(self.size) or (-1, 0)
        tail = self.batches(offsets.last_at_or_before(position))
        self._max_timestamp = max([before, *(found.batch.max_timestamp for found in tail if isinstance(found, Placed))])

    # Indexes on disk.

    @property
    def summary(self) -> Summary:
        return Summary(self.size, self.next_offset, self._max_timestamp, self.is_whole)

    def begin_indexes(self) -> None:
        """Start to index from the first byte; the caller notes every batch."""
        self._indexes = Indexes(SparseIndex(), SparseIndex())
        self.index_bytes = 0
        self._max_timestamp = -1
        self._last_indexed = 0
        self.indexes_saved = False
        self.is_whole = True

    def save_indexes(self) -> None:
        """Blocking. The caller has made the log file durable up to `size`."""
        offsets, times = self.indexes
        index.save(layout.time_index_file(self.folder, self.base_offset), times, self.summary)
        index.save(layout.offset_index_file(self.folder, self.base_offset), offsets, self.summary)
        self.indexes_saved = True

    def remove_saved_indexes(self) -> None:
        self.indexes_saved = False
        for path in layout.index_files(self.folder, self.base_offset):
            disk.remove(path)
        disk.sync_folder(self.folder)

    def adopt_saved_indexes(self, next_offset: int | None = None) -> bool:
        """Take the indexes from disk, and with them what they say of the segment; False if they are not usable.

        With `next_offset`, they must go up to there: a segment that grew after a restart may have older ones.
        """
        offsets = index.load(layout.offset_index_file(self.folder, self.base_offset))
        times = index.load(layout.time_index_file(self.folder, self.base_offset))
        if offsets is None or times is None or offsets[1] != times[1]:
            return False
        if next_offset is not None and offsets[1].next_offset != next_offset:
            return False
        self._indexes = Indexes(offsets[0], times[0])
        self.index_bytes = len(offsets[0]) * index.ENTRY_SIZE
        self.size, self.next_offset, self._max_timestamp, self.is_whole = offsets[1]
        self._last_indexed = offsets[0].positions[-1] if len(offsets[0]) else 0
        self.indexes_saved = True
        return True

    def _load_indexes(self) -> None:
        if not self.adopt_saved_indexes(self.next_offset):
            logger.warning("%s: its indexes are missing or damaged; making them again from the log", self.path)
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Make the indexes of a closed segment again. The gaps that compaction made are believed if they fit."""
        end_offset, size = self.next_offset, self.file.size

        def rule(placed: Placed, expected_offset: int) -> str | None:
            batch = placed.batch
            is_after_gap = batch.base_offset != expected_offset
            if batch.next_offset > end_offset or (is_after_gap and not self.next_header_agrees(placed)):
                return f"base offset {batch.base_offset} is not the expected {expected_offset}"
            return self._epoch_rule(placed, expected_offset)

        self.size, self.next_offset = 0, self.base_offset
        self.begin_indexes()
        for found in scan.scan(self.file, 0, size, self.base_offset, rule=rule):
            if isinstance(found, Placed):
                self.note(*found)
                self.verified.add(found.position, self.size)
            else:
                logger.error("%s: damaged at byte %d: %s", self.path, found.position, found.reason)
                self.is_whole = False
        self.close_at(end_offset)
        self.size = size
        self.save_indexes()

    def next_header_agrees(self, placed: Placed) -> bool:
        """Whether a batch's base offset fits what follows it: the CRC leaves it out, so a gap may as well be damage."""
        position = placed.position + placed.batch.size
        header = disk.read_at(self.file, position, HEADER_SIZE)
        return len(header) < HEADER_SIZE or RecordBatch(memoryview(header)).base_offset >= placed.batch.next_offset

    def close_at(self, end_offset: int) -> None:
        """Set where the segment's offsets end. If it is whole, offsets that are missing before it are a known gap."""
        if self.is_whole and self.next_offset != end_offset:
            self.indexes.offsets.add(end_offset, self.size)
        self.next_offset = end_offset

    # Reading.

    def batches(self, anchor: tuple[int, int] | None = None) -> Iterator[Placed | Damage]:
        """The batches from an (offset, position) on that begins one; checked unless they are known to be good."""
        offset, position = anchor or (self.base_offset, 0)
        size, reach = self.size, self.good_until(position)
        found: Placed | Damage | None = None
        for found in scan.headers(self.file, position, reach):
            yield found
            offset, position = found.batch.next_offset, reach
        anchors = self.indexes.offsets.first_after
        for found in scan.scan(self.file, position, size, offset, rule=self._stored_rule, next_anchor=anchors):
            yield found
            offset = found.batch.next_offset if isinstance(found, Placed) else offset
        ends_as_known = offset == self.next_offset or self.indexes.offsets.has(self.next_offset, size)
        if not isinstance(found, Damage) and not ends_as_known:
            yield Damage(size, offset, f"the segment should go on to offset {self.next_offset}")

    def good_until(self, position: int) -> int:
        """How far the bytes from a position on are known to hold what was written."""
        reach = self.size if position >= self._written_from else self.verified.reach(position)
        return self.size if reach >= self._written_from else reach

    def _epoch_rule(self, placed: Placed, _expected_offset: int) -> str | None:
        known = self.epochs.epoch_at(placed.batch.base_offset)
        if known is not None and placed.batch.leader_epoch != known:
            return f"leader epoch {placed.batch.leader_epoch} is not {known}"
        return None

    def _stored_rule(self, placed: Placed, expected_offset: int) -> str | None:
        """Offsets follow each other, except where the index knows a gap."""
        base_offset = placed.batch.base_offset
        if base_offset != expected_offset and not self.indexes.offsets.has(base_offset, placed.position):
            return f"base offset {base_offset} is not the expected {expected_offset}"
        return self._epoch_rule(placed, expected_offset)
