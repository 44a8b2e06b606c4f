"""Opening a partition's folder after any kind of end, clean or not.

First the file names are put right: leftovers go, a compaction that was complete is finished. Then everything from the
recovery point on is checked. Below the recovery point the disk had promised to hold every byte, so a batch that is bad
there is rot: it stays, is refused when read, and nothing around it is lost. A batch that is bad above it is the torn
end of a write: the log is cut there (R3). All of it can be repeated: a crash during recovery is only one more crash.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from kafkalite.config import TopicConfig
from kafkalite.storage import checkpoint, disk, layout, producers, scan, swap
from kafkalite.storage.checkpoint import Checkpoint
from kafkalite.storage.epochs import LeaderEpochs
from kafkalite.storage.producers import Producers
from kafkalite.storage.scan import Damage, Placed
from kafkalite.storage.segment import Segment

logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """A log as its folder tells it; the last segment is open for writing."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: Producers
    log_start_offset: int
    high_watermark: int
    cleaned_to: int


def recover(folder: Path, config: TopicConfig, *, now_ms: int) -> Recovered:
    """Blocking. Afterwards everything that is kept is durable, and the checkpoint says so."""
    folder.mkdir(parents=True, exist_ok=True)
    listing = _tidy(folder)
    known = checkpoint.read(folder)
    if known is None and listing.segments:
        logger.warning("%s: no usable checkpoint; checking the whole log", folder)
    epochs = LeaderEpochs(known.epochs if known else ())
    # Without a checkpoint nobody knows which segments compaction has been through: then any of them may have gaps.
    may_have_gaps = known is None and config.is_compacted
    known = known or Checkpoint(0, 0, 0, 0)
    # What is above the recovery point is about to be read: its batches tell their epochs themselves.
    epochs.truncate_to(known.recovery_point)
    segments = _recover_segments(folder, config, listing, epochs, known.recovery_point, may_have_gaps)
    must_reach = max(known.recovery_point, known.log_start_offset)
    if not segments or segments[-1].next_offset < must_reach or not _ends_where_it_should(segments[-1]):
        _begin_segment(folder, config, segments, epochs, must_reach)
    end_offset = segments[-1].next_offset
    epochs.truncate_to(end_offset)
    log_start_offset = max(known.log_start_offset, segments[0].base_offset)
    recovered = Recovered(
        segments,
        epochs,
        load_producers(folder, segments, end_offset, now_ms),
        log_start_offset,
        min(max(known.high_watermark, log_start_offset), end_offset),
        min(known.cleaned_to, segments[-1].base_offset),
    )
    disk.sync_data(segments[-1].file)
    disk.sync_folder(folder)
    checkpoint.write(
        folder,
        Checkpoint(end_offset, log_start_offset, recovered.high_watermark, recovered.cleaned_to, epochs.entries),
    )
    return recovered


def load_producers(folder: Path, segments: list[Segment], end_offset: int, now_ms: int) -> Producers:
    """The newest usable snapshot, and what the batches after it tell. Snapshots of no further use go."""
    state, start = Producers(), 0
    bases = {segment.base_offset for segment in segments}
    for offset in sorted(layout.list_partition(folder.iterdir()).snapshots, reverse=True):
        path = layout.snapshot_file(folder, offset)
        snapshot = producers.read_snapshot(path) if start < offset <= end_offset else None
        if snapshot is not None:
            state, start = snapshot, offset
        elif offset not in bases or offset > start:
            disk.remove(path)
    for segment in segments:
        if segment.next_offset > start:
            for found in segment.batches(segment.indexes.offsets.last_at_or_below(start)):
                if isinstance(found, Placed) and found.batch.base_offset >= start and found.batch.producer_id >= 0:
                    state.note(found.batch, now_ms)
    return state


def _tidy(folder: Path) -> layout.Listing:
    listing = layout.list_partition(folder.iterdir())
    without_log = listing.indexes.keys() - set(listing.segments)
    orphans = [path for base_offset in without_log for path in layout.index_files(folder, base_offset)]
    for path in [*listing.leftovers, *orphans]:
        disk.remove(path)
    for found in listing.swaps:
        logger.info("%s: finishing the compaction of offsets %d to %d", folder, found.base_offset, found.end_offset - 1)
        swap.finish(folder, found, [base for base in listing.segments if found.base_offset <= base < found.end_offset])
    return layout.list_partition(folder.iterdir()) if listing.swaps else listing


def _recover_segments(
    folder: Path,
    config: TopicConfig,
    listing: layout.Listing,
    epochs: LeaderEpochs,
    recovery_point: int,
    may_have_gaps: bool,
) -> list[Segment]:
    segments: list[Segment] = []
    bases = listing.segments
    for at, base_offset in enumerate(bases):
        next_base = bases[at + 1] if at + 1 < len(bases) else None
        size = layout.log_file(folder, base_offset).stat().st_size
        segment = Segment(
            folder,
            base_offset,
            epochs,
            size=size,
            next_offset=base_offset if next_base is None else next_base,
            index_interval=config.index_interval_bytes,
        )
        segments.append(segment)
        if next_base is not None and next_base <= recovery_point:
            if listing.indexes[base_offset] < 2:
                segment.rebuild_indexes()
        elif not _recover_tail(segment, config, size, recovery_point, next_base, may_have_gaps):
            _remove_segments(folder, bases[at + 1 :])
            break
    return segments


def _recover_tail(
    segment: Segment,
    config: TopicConfig,
    size: int,
    recovery_point: int,
    next_base: int | None,
    may_have_gaps: bool,
) -> bool:
    """Check a segment that was written after the recovery point; False if it was cut, and nothing may follow it."""
    epochs = segment.epochs

    def rule(placed: Placed, expected_offset: int) -> str | None:
        batch = placed.batch
        if next_base is not None and batch.next_offset > next_base:
            return f"base offset {batch.base_offset} is beyond the segment's end {next_base}"
        if batch.base_offset != expected_offset:
            reaches_over = expected_offset < recovery_point < batch.next_offset
            if not config.is_compacted or reaches_over or not segment.next_header_agrees(placed):
                return f"base offset {batch.base_offset} is not the expected {expected_offset}"
        if batch.base_offset >= recovery_point:
            if batch.leader_epoch < epochs.latest:
                return f"leader epoch {batch.leader_epoch} is below {epochs.latest}"
            return None
        known = epochs.epoch_at(batch.base_offset)
        if known is not None and batch.leader_epoch != known:
            return f"leader epoch {batch.leader_epoch} is not {known}"
        return None

    if next_base is not None or not segment.adopt_saved_indexes() or segment.next_offset > recovery_point:
        segment.size, segment.next_offset = 0, segment.base_offset
        segment.begin_indexes()
    segment.open_for_writing()
    for found in scan.scan(segment.file, segment.size, size, segment.next_offset, rule=rule):
        if isinstance(found, Damage):
            where = f"{segment.path}, byte {found.position}, offset {found.expected_offset}: {found.reason}"
            if found.expected_offset < recovery_point:
                logger.error("damaged below the recovery point, refusing to serve it: %s", where)
                segment.is_whole = False
                continue
            logger.warning("torn end of the log, cutting %d bytes off: %s", size - found.position, where)
            segment.remove_saved_indexes()
            disk.truncate(segment.file, found.position)
            disk.sync_data(segment.file)
            return False
        epochs.assign(found.batch.leader_epoch, found.batch.base_offset)
        segment.note(*found)
        segment.verified.add(found.position, segment.size)
    if next_base is None:
        return True
    if segment.next_offset != next_base and not may_have_gaps:
        logger.warning("%s ends at offset %d, not %d: cutting there", segment.path, segment.next_offset, next_base)
        segment.remove_saved_indexes()
        return False
    segment.close_at(next_base)
    disk.sync_data(segment.file)
    segment.save_indexes()
    return True


def _ends_where_it_should(segment: Segment) -> bool:
    """False for a last segment whose file is shorter than its indexes say: it stays as it is and is closed."""
    return segment.file.size >= segment.size


def _begin_segment(
    folder: Path, config: TopicConfig, segments: list[Segment], epochs: LeaderEpochs, must_reach: int
) -> None:
    """A new last segment, where what is there ends before it should: those offsets must not be given out again."""
    if segments:
        last = segments[-1]
        must_reach = max(must_reach, last.next_offset)
        logger.error("%s: offsets %d to %d are missing from the disk", last.path, last.next_offset, must_reach - 1)
        last.is_whole = last.is_whole and last.next_offset == must_reach
        last.close_at(must_reach)
        last.save_indexes()
    segments.append(Segment.create(folder, must_reach, epochs, config.index_interval_bytes))


def _remove_segments(folder: Path, base_offsets: list[int]) -> None:
    for base_offset in reversed(base_offsets):
        logger.warning("%s: removing the segment %d after the torn end", folder, base_offset)
        for path in layout.segment_files(folder, base_offset):
            disk.remove(path)
