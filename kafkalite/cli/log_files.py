"""Looking at a log's files as they lie there: no lock, no recovery, no write; a broker may be using them meanwhile.

Every batch is checked by `storage.scan`, with the rules by which a broker checks it: offsets follow each other except
where compaction has been (the index or the checkpoint knows), epochs below the recovery point are the checkpoint's.
What a running broker does at the same time is no damage: a segment that retention removes is left out, a batch that is
being appended is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.errors import KafkaliteError
from kafkalite.records.batch import HEADER_SIZE, RecordBatch
from kafkalite.storage import checkpoint, disk, index, layout, scan
from kafkalite.storage.checkpoint import Checkpoint
from kafkalite.storage.disk import OpenFile
from kafkalite.storage.epochs import LeaderEpochs
from kafkalite.storage.index import SparseIndex, Summary
from kafkalite.storage.scan import Damage, Placed

_TAIL_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.05
_MISSING: Final = "these offsets are missing from the disk"


class NoLog(KafkaliteError):
    """A path that holds no log."""


class SegmentFile(NamedTuple):
    """One file of batches; `end_offset` is where the next one begins, None for the last."""

    folder: Path
    path: Path
    base_offset: int
    end_offset: int | None

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


class DamagedRange(NamedTuple):
    """Bytes [start, end) that do not hold what was written, and the offsets [first, next) that they hide, if known."""

    start: int
    end: int
    first_offset: int
    next_offset: int | None
    reason: str

    def __str__(self) -> str:
        last = "" if self.next_offset is None else self.next_offset - 1
        offsets = f"offsets {self.first_offset}–{last}" if last != "" else f"offsets from {self.first_offset} on"
        place = f"bytes {self.start}–{self.end - 1}" if self.end > self.start else f"at its end, byte {self.start}"
        return f"{place}, {offsets}: {self.reason}"


def partition_folders(directory: Path) -> list[Path]:
    """The folder itself if it is a partition's, else those of the data directory."""
    if not directory.is_dir():
        raise NoLog(f"{directory} is not a directory")
    if any(directory.glob("*.log")):
        return [directory]
    found = [
        path
        for path in sorted(directory.iterdir())
        if layout.parse_partition_folder(path) and not layout.is_deleted_partition(path) and any(path.glob("*.log"))
    ]
    if not found:
        raise NoLog(f"{directory} is neither a partition's folder nor a data directory: there are no logs in it")
    return found


def segments(folder: Path) -> list[SegmentFile]:
    """The files that make up a partition; a compaction that only needs its last renames is taken as done."""
    listing = layout.list_partition(folder.iterdir())
    replaced = {
        base for base in listing.segments for swap in listing.swaps if swap.base_offset <= base < swap.end_offset
    }
    files = {base: layout.log_file(folder, base) for base in listing.segments if base not in replaced}
    files |= {swap.base_offset: swap.path for swap in listing.swaps}
    bases = sorted(files)
    return [SegmentFile(folder, files[base], base, end) for base, end in zip_longest(bases, bases[1:])]


def check(segment: SegmentFile, on_good: Callable[[int], None]) -> list[DamagedRange]:
    """The damaged ranges of a segment; `on_good` hears of the bytes of every batch that holds.

    What is found is looked at once more: a compaction by a running broker may have replaced the file and not yet its
    index.
    """
    damaged = _damaged(segment, on_good)
    if damaged:
        time.sleep(_PAUSE_SECONDS)
        damaged = _damaged(segment, lambda _size: None)
    return damaged


def _damaged(segment: SegmentFile, on_good: Callable[[int], None]) -> list[DamagedRange]:
    damaged = []
    for found in walk(segment):
        if isinstance(found, DamagedRange):
            damaged.append(found)
        else:
            on_good(found.batch.size)
    return damaged


def walk(segment: SegmentFile) -> Iterator[Placed | DamagedRange]:
    """Every whole batch of a segment, and every damaged range."""
    known = checkpoint.read(segment.folder) or Checkpoint(0, 0, 0, 0)
    # Compaction takes the index away before it replaces the file: an index read before the file fits it, or is longer.
    loaded = index.load(layout.offset_index_file(segment.folder, segment.base_offset))
    try:
        file = OpenFile(segment.path)
    except FileNotFoundError:
        return
    size = file.size
    if loaded is not None and (loaded[1].log_bytes > size or segment.path.suffix != ".log"):
        loaded = None
    rule = _rule(segment, file, known, loaded)
    anchors = loaded[0].first_after if loaded else lambda _position: None
    position, expected = 0, segment.base_offset
    damage: Damage | None = None
    tries = _TAIL_TRIES
    while True:
        for found in scan.scan(file, position, size, expected, rule=rule, next_anchor=anchors):
            if isinstance(found, Damage):
                damage = found
                continue
            if damage is not None:
                yield _closed(damage, found.position, found.batch.base_offset)
                damage = None
            yield found
            position, expected = found.position + found.batch.size, found.batch.next_offset
        if damage is None or segment.end_offset is not None or not tries:
            break
        # The end of the last segment: perhaps a batch that a broker is just writing.
        tries -= 1
        time.sleep(_PAUSE_SECONDS)
        size = file.size
        damage = None
    if damage is not None:
        yield _closed(damage, size, segment.end_offset)
    elif segment.end_offset is None:
        if expected < known.recovery_point:
            yield DamagedRange(size, size, expected, known.recovery_point, _MISSING)
    elif expected < segment.end_offset:
        is_known_gap = loaded[0].has(segment.end_offset, size) if loaded else expected < known.cleaned_to
        if not is_known_gap:
            yield DamagedRange(size, size, expected, segment.end_offset, _MISSING)


def _closed(damage: Damage, end: int, next_offset: int | None) -> DamagedRange:
    return DamagedRange(damage.position, end, damage.expected_offset, next_offset, damage.reason)


def _rule(
    segment: SegmentFile, file: OpenFile, known: Checkpoint, loaded: tuple[SparseIndex, Summary] | None
) -> scan.Rule:
    epochs = LeaderEpochs(known.epochs)

    def rule(placed: Placed, expected_offset: int) -> str | None:
        batch = placed.batch
        if segment.end_offset is not None and batch.next_offset > segment.end_offset:
            return f"base offset {batch.base_offset} is beyond the segment's end {segment.end_offset}"
        if batch.base_offset != expected_offset and not is_known_gap(placed, expected_offset):
            return f"base offset {batch.base_offset} is not the expected {expected_offset}"
        epoch = epochs.epoch_at(batch.base_offset) if batch.base_offset < known.recovery_point else None
        if epoch is not None and batch.leader_epoch != epoch:
            return f"leader epoch {batch.leader_epoch} is not {epoch}"
        return None

    def is_known_gap(placed: Placed, expected_offset: int) -> bool:
        """The index knows every gap. Without one, a gap where compaction has been is believed if it fits."""
        if loaded is not None and placed.position < loaded[1].log_bytes:
            return loaded[0].has(placed.batch.base_offset, placed.position)
        following = disk.read_at(file, placed.position + placed.batch.size, HEADER_SIZE)
        fits = len(following) < HEADER_SIZE or (
            RecordBatch(memoryview(following)).base_offset >= placed.batch.next_offset
        )
        return expected_offset < known.cleaned_to and fits

    return rule
