"""Small logs with several segments for the crash table: made once, copied for every trial, damaged, reopened.

Where the recovery point is tells what a log may do about damage (R3), so each log comes in four ends: closed cleanly,
and dropped with the recovery point at 0 (where the last compaction was, if any), in the middle of the last segment, or
at the log's end.
"""

from __future__ import annotations

import shutil
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kafkalite.clock import SystemClock
from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.model import TopicPartition
from kafkalite.storage import checkpoint, cleaner
from kafkalite.storage.cleaner import Cleaning
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.open_segments import OpenSegments
from kafkalite.storage.scan import headers
from kafkalite.storage.segment import Segment
from tests.support.content import FIRST_TIMESTAMP, batch_length, batch_of
from tests.support.history import History
from tests.support.reading import Reading, read_everything

NOW_MS = FIRST_TIMESTAMP + 10_000
PARTITION = TopicPartition("chaos", 0)
PRODUCERS = (1, 2, 3)


class End(Enum):
    """How the process that wrote a log left it."""

    CLOSED = "closed"
    RECOVERY_POINT_AT_0 = "recovery point at 0"
    RECOVERY_POINT_MIDWAY = "recovery point midway"
    RECOVERY_POINT_AT_END = "recovery point at the end"


class Place(NamedTuple):
    """Where a batch lies on disk."""

    file: str
    start: int
    end: int
    offsets: range


class StoredLog(NamedTuple):
    """A log that nobody has open."""

    folder: Path
    config: TopicConfig
    history: History
    recovery_point: int
    intact: Reading
    """What it serves as long as nothing is damaged."""
    places: list[Place]

    def copy_to(self, folder: Path) -> Path:
        shutil.copytree(self.folder, folder)
        return folder

    def place_of(self, file: str, position: int) -> Place:
        """The batch that a byte belongs to."""
        return next(place for place in self.places if place.file == file and place.start <= position < place.end)

    def refusable(self, hit: Place) -> range:
        """The offsets that damage to a batch may hide: its own, and the gaps that compaction made around it."""
        at = self.places.index(hit)
        start = self.places[at - 1].offsets.stop if at else self.intact.log_start_offset
        stop = self.places[at + 1].offsets.start if at + 1 < len(self.places) else self.intact.log_end_offset
        return range(start, stop)

    @property
    def last_segment(self) -> str:
        return max(path.name for path in self.folder.glob("*.log"))


def open_log(folder: Path, config: TopicConfig) -> PartitionLog:
    return PartitionLog(PARTITION, folder, config, now_ms=NOW_MS, open_segments=OpenSegments(3))


def append_next(log: PartitionLog, history: History, producer: int, *, epoch: int = 0, is_flushed: bool = False) -> int:
    """Append a producer's next batch, and flush it if the producer waits for that; gives its base offset."""
    first_sequence = history.next_sequence(producer)
    history.attempt(producer, first_sequence)
    appended = log.append_as_leader(batch_of(history.seed, producer, first_sequence), leader_epoch=epoch, now_ms=NOW_MS)
    assert not appended.is_duplicate
    assert appended.last_offset - appended.base_offset + 1 == batch_length(history.seed, producer, first_sequence)
    if is_flushed:
        log.flush(NOW_MS)
    history.acknowledge(appended.base_offset, producer, first_sequence, is_flushed=is_flushed)
    return appended.base_offset


def compact(log: PartitionLog) -> None:
    """One whole compaction pass, if there is anything to compact."""
    log.flush(NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    log.save_checkpoint()
    segments = cleaner.choose_segments(
        log.segments, log.config, cleaned_to=log.cleaned_to, end_offset=log.high_watermark, now_ms=NOW_MS
    )
    if not segments:
        return
    cleaning = Cleaning(
        log.folder,
        segments,
        cleaned_to=log.cleaned_to,
        config=log.config,
        storage=StorageConfig(),
        now_ms=NOW_MS,
        clock=SystemClock(),
    )
    log.start_cleaning(cleaning)
    cleaning.run()
    log.finish_cleaning(cleaning)


def make_stored_log(
    folder: Path, end: End, *, is_compacted: bool = False, batches: int = 24, seed: int = 1
) -> StoredLog:
    config = TopicConfig(
        segment_bytes=900,
        index_interval_bytes=150,
        cleanup_policy=("compact",) if is_compacted else ("delete",),
        min_cleanable_dirty_ratio=0,
    )
    history = History(seed)
    log = open_log(folder, config)
    for number in range(batches):
        append_next(log, history, PRODUCERS[number % 3], epoch=number // 7)
        if number == batches // 2 and is_compacted:
            compact(log)
        if number == batches - 2 and end is End.RECOVERY_POINT_MIDWAY:
            log.flush(NOW_MS)
            log.save_checkpoint()
    if end is End.RECOVERY_POINT_AT_END:
        log.flush(NOW_MS)
        log.save_checkpoint()
    if end is End.CLOSED:
        log.close(NOW_MS)
    saved = checkpoint.read(folder)
    assert saved is not None
    places = [place for segment in log.segments for place in _places(segment)]
    return StoredLog(folder, config, history, saved.recovery_point, read_everything(log), places)


def _places(segment: Segment) -> list[Place]:
    return [
        Place(
            segment.path.name,
            position,
            position + batch.size,
            range(batch.base_offset, batch.next_offset),
        )
        for position, batch in headers(segment.file, 0, segment.size)
    ]
