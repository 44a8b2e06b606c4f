"""Log compaction: keep at least the last value of every key, in order, at its offset (K7).

A pass reads the batches since the last pass and notes the last offset of every key; then it writes all segments up to
there anew, without the records that a later one replaces. Offsets never change, so gaps remain. A tombstone stays
until `delete.retention.ms` after the pass that first met it: that pass writes the time into its batch (KIP-534).

Only closed, flushed segments below the high watermark are touched. Readers keep the old files open until they are done.
The result is written beside the log (.cleaned), made durable, renamed (.swap: from here on it counts), and
only then put in the place of what it replaces; `recovery` finishes what a crash has left at any point of this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kafkalite.clock import Clock
from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.errors import CorruptBatch, KafkaliteError, StorageError
from kafkalite.records.batch import RecordBatch, TimestampType, build_batch
from kafkalite.records.compression import Codec, compress
from kafkalite.records.rows import Span, decompressed_records, iter_spans, retimestamp
from kafkalite.storage import disk, layout, swap
from kafkalite.storage.disk import OpenFile
from kafkalite.storage.reading import DECOMPRESSED_LIMIT
from kafkalite.storage.scan import Damage
from kafkalite.storage.segment import Segment

logger = logging.getLogger(__name__)

_BYTES_PER_KEY: Final = 150
"""What Python needs for one more key in the map, besides the key's own bytes."""


class CleaningCancelled(KafkaliteError):
    """The owner wants its log back; what was swapped in so far stays."""


class Throttle:
    """Keeps a pass below a number of bytes per second."""

    def __init__(self, bytes_per_second: int, clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._begun = clock.monotonic()
        self._spent = 0

    def spend(self, count: int) -> None:
        self._spent += count
        ahead = self._spent / self._rate - (self._clock.monotonic() - self._begun)
        if ahead > 0:
            self._clock.sleep(ahead)


def choose_segments(
    segments: Sequence[Segment], config: TopicConfig, *, cleaned_to: int, end_offset: int, now_ms: int
) -> list[Segment]:
    """The segments of a pass, from the log's first on, never its last; empty if too little is new."""
    closed: list[Segment] = []
    for segment in segments[:-1]:
        is_recent = segment.max_timestamp > now_ms - config.min_compaction_lag_ms
        if segment.next_offset > end_offset or (is_recent and config.min_compaction_lag_ms):
            break
        closed.append(segment)
    dirty = [segment for segment in closed if segment.next_offset > cleaned_to]
    dirty_bytes = sum(segment.size for segment in dirty)
    total_bytes = sum(segment.size for segment in closed)
    is_overdue = any(segment.max_timestamp < now_ms - config.max_compaction_lag_ms for segment in dirty)
    if not dirty_bytes or (dirty_bytes / total_bytes < config.min_cleanable_dirty_ratio and not is_overdue):
        return []
    return closed


class Cleaning:
    """One compaction pass over `segments`; made by the log's owner, run by any thread, handed back to the owner."""

    def __init__(
        self,
        folder: Path,
        segments: Sequence[Segment],
        *,
        cleaned_to: int,
        config: TopicConfig,
        storage: StorageConfig,
        now_ms: int,
        clock: Clock,
    ) -> None:
        self.segments = segments
        self.cleaned_to = cleaned_to
        self.replacements: list[tuple[Sequence[Segment], Segment]] = []
        """What has been replaced on disk so far, and by what."""
        self.error: OSError | None = None
        """Why a replacement was left half done; a log that is handed this goes offline, the next open finishes it."""
        self._folder = folder
        self._config = config
        self._key_memory = storage.log_cleaner_dedupe_buffer_size
        self._now_ms = now_ms
        self._throttle = Throttle(storage.log_cleaner_io_max_bytes_per_second, clock)
        self._cancelled = False
        self._last_offsets: dict[bytes, int] = {}

    def cancel(self) -> None:
        """Ask a running pass to end soon, by `CleaningCancelled`."""
        self._cancelled = True

    def run(self) -> None:
        """Blocking. Raises `CorruptBatch` rather than lose sight of a damaged batch; `replacements` always holds."""
        try:
            mapped_to = self._map_keys()
            for group in _groups((s for s in self.segments if s.base_offset < mapped_to), self._config.segment_bytes):
                self._rewrite(group)
        except OSError as error:
            raise StorageError(f"{self._folder}: compaction failed: {error}") from error
        self.cleaned_to = mapped_to

    def _map_keys(self) -> int:
        """Note the last offset of every key since the last pass; gives the offset where the memory for it ended."""
        memory = 0
        for segment in self.segments:
            if segment.next_offset <= self.cleaned_to:
                continue
            for batch in self._batches(segment):
                if batch.is_control or batch.next_offset <= self.cleaned_to:
                    continue
                if memory > self._key_memory:
                    return batch.base_offset
                for span in iter_spans(decompressed_records(batch, DECOMPRESSED_LIMIT), batch.count):
                    if span.key is not None:
                        key = bytes(span.key)
                        if key not in self._last_offsets:
                            memory += len(key) + _BYTES_PER_KEY
                        self._last_offsets[key] = batch.base_offset + span.offset_delta
        return self.segments[-1].next_offset

    def _rewrite(self, group: Sequence[Segment]) -> None:
        base_offset, end_offset = group[0].base_offset, group[-1].next_offset
        path = layout.cleaned_file(self._folder, base_offset, end_offset)
        compacted = group[0].empty_twin()
        try:
            is_changed = self._write(path, compacted, group)
        except BaseException:
            disk.remove(path)
            raise
        if not is_changed and len(group) == 1:
            disk.remove(path)
            return
        compacted.close_at(end_offset)
        try:
            swap.commit(self._folder, path, [segment.base_offset for segment in group], end_offset)
        except OSError as error:
            self.error = error
            raise
        self.replacements.append((group, compacted))
        try:
            compacted.save_indexes()
        except OSError as error:
            logger.warning("%s: indexes not saved, they will be made again at the next open: %s", compacted.path, error)

    def _write(self, path: Path, compacted: Segment, group: Sequence[Segment]) -> bool:
        """Write what is kept of a group; gives whether that differs from what was there."""
        is_changed = False
        file = OpenFile(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for segment in group:
            for batch in self._batches(segment):
                kept = self._compact(batch)
                is_changed = is_changed or kept is not batch
                if kept is not None:
                    disk.write_at(file, kept.view, compacted.size)
                    self._throttle.spend(kept.size)
                    compacted.note(compacted.size, kept)
        disk.sync_data(file)
        compacted.verified.add(0, compacted.size)
        return is_changed

    def _batches(self, segment: Segment) -> Iterator[RecordBatch]:
        for found in segment.batches():
            if self._cancelled:
                raise CleaningCancelled(f"{segment.path}: compaction was cancelled")
            if isinstance(found, Damage):
                raise CorruptBatch(
                    f"{segment.path} is damaged at byte {found.position} ({found.reason}); it is not compacted"
                )
            position, batch = found
            self._throttle.spend(batch.size)
            if len(batch.view) < batch.size:
                batch.view = memoryview(disk.read_at(segment.file, position, batch.size))
            yield batch

    def _compact(self, batch: RecordBatch) -> RecordBatch | None:
        """The batch without what is superseded: itself if that is nothing, None if it is everything."""
        if batch.is_control:
            return batch
        records = decompressed_records(batch, DECOMPRESSED_LIMIT)
        spans = list(iter_spans(records, batch.count))
        kept = [span for span in spans if self._is_kept(span, batch)]
        meets_tombstones = batch.delete_horizon_ms is None and any(not span.has_value for span in kept)
        if len(kept) == len(spans) and not meets_tombstones:
            return batch
        if not kept:
            return None
        base_timestamp = batch.base_timestamp
        if meets_tombstones:
            base_timestamp = self._now_ms + self._config.delete_retention_ms
            content = retimestamp(records, kept, batch.base_timestamp - base_timestamp)
        else:
            content = b"".join(records[span.start : span.end] for span in kept)
        is_stamped = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        codec = Codec(batch.codec_id)
        compacted = build_batch(
            compress(codec, content),
            count=len(kept),
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=batch.max_timestamp if is_stamped else _max_timestamp(batch, kept),
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            codec=codec,
            timestamp_type=batch.timestamp_type,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            has_delete_horizon=meets_tombstones or batch.delete_horizon_ms is not None,
        )
        return RecordBatch(memoryview(compacted))

    def _is_kept(self, span: Span, batch: RecordBatch) -> bool:
        if span.key is None:
            return False
        if self._last_offsets.get(bytes(span.key), -1) > batch.base_offset + span.offset_delta:
            return False
        horizon_ms = batch.delete_horizon_ms
        return span.has_value or horizon_ms is None or self._now_ms < horizon_ms


def _max_timestamp(batch: RecordBatch, spans: Iterable[Span]) -> int:
    return batch.base_timestamp + max(span.timestamp_delta for span in spans)


def _groups(segments: Iterable[Segment], max_bytes: int) -> list[list[Segment]]:
    """Neighbours that fit into one segment together, so that compaction does not leave many small files."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and sum(s.size for s in groups[-1]) + segment.size <= max_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups
