"""The log of one partition: append, read, truncate, retain; offsets and the segments they live in.

One thread owns a log, so nothing here is locked. The slow parts leave it as values that any thread may run and that
come back to the owner: `start_flush` → `Flush.run` → `finish_flush`, and the same with `start_cleaning`.

    log_start_offset ≤ high_watermark ≤ log_end_offset          recovery_point ≤ log_end_offset
    Readers get nothing below the log start offset; callers bound them above by the high watermark.
    A disk that fails to fsync takes the log offline for as long as the process lives (R2).
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.config import TopicConfig
from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch, KafkaError, StorageError
from kafkalite.model import TopicPartition
from kafkalite.records.batch import (
    Buffer,
    RecordBatch,
    check_produced,
    check_timestamps,
    split_batches,
)
from kafkalite.records.rows import check_records
from kafkalite.storage import checkpoint, disk, layout, producers, reading, recovery, retention
from kafkalite.storage.checkpoint import Checkpoint
from kafkalite.storage.cleaner import Cleaning
from kafkalite.storage.disk import FileRange
from kafkalite.storage.flush import Flush
from kafkalite.storage.open_segments import OpenSegments
from kafkalite.storage.producers import Producers
from kafkalite.storage.reading import TimedBatch, TimestampOffset
from kafkalite.storage.segment import Segment

logger = logging.getLogger(__name__)

_CHECKED_LIMIT: Final = 64 * 1024 * 1024
"""The most that a produced batch may expand to where its records are checked, which is while other clients wait."""


class Appended(NamedTuple):
    """Where a batch is in the log; a duplicate was there before."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


class PartitionLog:
    """The log of one partition."""

    def __init__(
        self, partition: TopicPartition, folder: Path, config: TopicConfig, *, now_ms: int, open_segments: OpenSegments
    ) -> None:
        """Open the log in `folder`, recovering what needs it; an empty folder is an empty log. Blocking."""
        found = recovery.recover(folder, config, now_ms=now_ms)
        self.partition = partition
        self.folder = folder
        self.config = config
        self.segments = found.segments
        self.epochs = found.epochs
        self.producers = found.producers
        self.log_start_offset = found.log_start_offset
        self.high_watermark = found.high_watermark
        self.cleaned_to = found.cleaned_to
        self.recovery_point = self.log_end_offset
        self.checkpointed_to = self.recovery_point
        """The recovery point that is on disk: compaction keeps below it, so that no gap is met above it at an open."""
        self.offline_reason: str | None = None
        self.obsolete_files: list[Path] = []
        """Renamed out of the log's way; the manager removes them where blocking does no harm."""
        self._bases = [segment.base_offset for segment in self.segments]
        self._open_segments = open_segments
        self._unflushed_since_ms = 0
        self._snapshots: list[tuple[int, bytes]] = []
        self._flush: Flush | None = None
        self._cleaning: Cleaning | None = None

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # Appending.

    def append_as_leader(
        self, records: Buffer, *, leader_epoch: int, now_ms: int, zstd_allowed: bool = True
    ) -> Appended:
        """Check what a producer sent, give it its offsets in place, and write it.

        `records` must be writable. A repeated batch of an idempotent producer is not written again.
        """
        if self.offline_reason is not None:
            raise self._offline()
        config = self.config
        batch = check_produced(records, config.max_message_bytes, zstd_allowed)
        if config.is_compacted:
            check_records(batch, limit=_CHECKED_LIMIT, keys_required=True)
        if batch.producer_id >= 0 and (duplicate := self.producers.check(batch)) is not None:
            return Appended(duplicate.first_offset, duplicate.last_offset, is_duplicate=True)
        log_append_time_ms = -1
        if config.message_timestamp_type == "LogAppendTime":
            batch.set_log_append_time(now_ms)
            log_append_time_ms = now_ms
        else:
            check_timestamps(
                batch,
                now_ms - config.message_timestamp_before_max_ms,
                now_ms + config.message_timestamp_after_max_ms,
            )
        batch.assign(self.segments[-1].next_offset, leader_epoch)
        self._append(batch, now_ms)
        return Appended(batch.base_offset, batch.base_offset + batch.last_offset_delta, log_append_time_ms)

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> None:
        """Write the whole batches of a leader's answer with the offsets and epochs that they have."""
        self._check_online()
        for batch in split_batches(records):
            if not batch.crc_is_valid():
                raise CorruptBatch(f"{self.partition}: the CRC of {batch!r} from the leader does not match its bytes")
            if batch.base_offset < self.log_end_offset:
                raise InvalidBatch(
                    ErrorCode.INVALID_RECORD,
                    f"{self.partition}: the leader's {batch!r} begins below the log's end {self.log_end_offset}",
                )
            self._append(batch, now_ms)

    def _append(self, batch: RecordBatch, now_ms: int) -> None:
        segment, config = self.segments[-1], self.config
        if batch.leader_epoch < self.epochs.latest:
            # Recovery would take it for the torn end of the log.
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.partition}: leader epoch {batch.leader_epoch} has ended, {self.epochs.latest} has begun",
            )
        if segment.size and (
            segment.size + batch.size > config.segment_bytes
            or segment.index_bytes >= config.segment_index_bytes
            or batch.max_timestamp - segment.first_timestamp > config.segment_ms
        ):
            segment = self.roll()
        if self.recovery_point == segment.next_offset:
            self._unflushed_since_ms = now_ms
        try:
            segment.append(batch)
        except OSError as error:
            self._undo_write(segment, error)
        if batch.leader_epoch != self.epochs.latest:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.producer_id >= 0:
            self.producers.note(batch, now_ms)

    def _undo_write(self, segment: Segment, error: OSError) -> None:
        try:
            segment.cut_to_size()
        except OSError as second_error:
            self.take_offline(f"cannot undo a failed write: {second_error}")
        raise StorageError(f"{self.partition}: cannot write to {segment.path}: {error}") from error

    def roll(self) -> Segment:
        """Close the last segment and begin a new one; the next flush makes the closed one durable with its indexes.

        A segment that holds no offsets yet is as good as a new one.
        """
        end_offset = self.log_end_offset
        if end_offset == self._bases[-1]:
            return self.segments[-1]
        try:
            segment = Segment.create(self.folder, end_offset, self.epochs, self.config.index_interval_bytes)
        except OSError as error:
            raise StorageError(f"{self.partition}: cannot begin a segment at offset {end_offset}: {error}") from error
        self.segments.append(segment)
        self._bases.append(end_offset)
        self._snapshots.append((end_offset, self.producers.snapshot()))
        return segment

    # Reading.

    def read(self, offset: int, max_bytes: int, *, up_to: int) -> list[FileRange]:
        """File ranges of whole batches: the first holds `offset` (and may begin before it), none reaches `up_to`.

        At most `max_bytes`, but at least one batch if there is one.
        """
        self._check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: offset {offset} is not within [{self.log_start_offset}, {self.log_end_offset}]",
            )
        ranges: list[FileRange] = []
        segments = self.segments
        for at in range(bisect_right(self._bases, offset) - 1, len(segments)):
            segment = segments[at]
            if segment.base_offset >= up_to or (ranges and max_bytes <= 0):
                break
            if at + 1 < len(segments):
                self._open_segments.touch(segment)
            try:
                found = reading.read(segment, max(offset, segment.base_offset), max_bytes, up_to)
            except CorruptBatch:
                if ranges:
                    break
                raise
            if found is None:
                continue
            if ranges and found.length > max_bytes:
                break
            ranges.append(found)
            max_bytes -= found.length
            if not reading.is_read_to_its_end(segment, found):
                break
        return ranges

    def offset_for_time(self, timestamp: int) -> TimestampOffset | None:
        """The first record with a timestamp of at least `timestamp`; None if there is none."""
        return next((found for batch in self.batches_since(timestamp) if (found := batch.first_record())), None)

    def batches_since(self, timestamp: int) -> Iterator[TimedBatch]:
        """The batches that may hold that record, in order. To look into one is slow, and any thread may do it."""
        self._check_online()
        for segment in list(self.segments):
            if segment.next_offset > self.log_start_offset and (
                self._max_timestamp(segment) >= timestamp or not segment.is_whole
            ):
                yield from reading.batches_since(segment, timestamp, self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first of the records with the largest timestamp."""
        latest = self.max_timestamp
        return self.offset_for_time(latest) if latest >= 0 else None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all records, -1 if there is none."""
        latest = max(map(self._max_timestamp, self.segments))
        if damaged := next((segment for segment in self.segments if not segment.is_whole), None):
            raise CorruptBatch(f"{damaged.path} is damaged: what the largest timestamp is cannot be told")
        return latest

    def _max_timestamp(self, segment: Segment) -> int:
        if segment is not self.segments[-1]:
            self._open_segments.touch(segment)
        return segment.max_timestamp

    # The high watermark, and what consumers may see.

    @property
    def exposable_end_offset(self) -> int:
        """How far the high watermark may go: a topic with flush settings of its own shows only what is flushed (P2)."""
        return self.recovery_point if self.config.shows_only_flushed else self.log_end_offset

    def advance_high_watermark(self, offset: int) -> None:
        """Move the high watermark up to `offset`, as far as the topic's flush settings allow; never back."""
        self.high_watermark = max(self.high_watermark, min(offset, self.exposable_end_offset))

    # Flushing.

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether the topic's settings, or a closed segment, ask for a flush now."""
        unflushed = self.log_end_offset - self.recovery_point
        return len(self._snapshots) > 0 or (
            unflushed > 0
            and (unflushed >= self.config.flush_messages or now_ms - self._unflushed_since_ms >= self.config.flush_ms)
        )

    def start_flush(self) -> Flush | None:
        """Begin to make everything appended so far durable; None if there is nothing, or while another flush runs."""
        self._check_online()
        if self._flush is not None or (self.recovery_point == self.log_end_offset and not self._snapshots):
            return None
        first = len(self.segments) - 1
        while first > 0 and not self.segments[first - 1].indexes_saved:
            first -= 1
        self._flush = Flush(self.folder, self.segments[first:], self.log_end_offset, self._snapshots)
        self._snapshots = []
        return self._flush

    def finish_flush(self, flush: Flush, now_ms: int) -> None:
        """Take note of a flush that has run. A failed one is final: it is never tried into a false success (R2)."""
        self._flush = None
        if flush.error is not None:
            self.take_offline(f"fsync failed: {flush.error}")
            raise StorageError(f"{self.partition}: {self.offline_reason}") from flush.error
        self.recovery_point = max(self.recovery_point, flush.end_offset)
        self._unflushed_since_ms = now_ms
        for segment in flush.closed:
            self._open_segments.touch(segment)

    def flush(self, now_ms: int) -> None:
        """All of it, blocking."""
        flush = self.start_flush()
        if flush is not None:
            flush.run()
            self.finish_flush(flush, now_ms)

    def checkpoint(self) -> Checkpoint:
        """What `checkpoint.write` must save so that the next open need not look below the recovery point."""
        return Checkpoint(
            min(self.recovery_point, self.log_end_offset),
            self.log_start_offset,
            self.high_watermark,
            self.cleaned_to,
            self.epochs.entries,
        )

    def save_checkpoint(self) -> None:
        """Blocking."""
        state = self.checkpoint()
        self.write_checkpoint(state)
        self.note_checkpoint(state)

    def write_checkpoint(self, state: Checkpoint) -> None:
        """Blocking; any thread may call it, one at a time."""
        try:
            checkpoint.write(self.folder, state)
        except OSError as error:
            raise StorageError(f"{self.partition}: cannot save its checkpoint: {error}") from error

    def note_checkpoint(self, state: Checkpoint) -> None:
        """The state is on disk."""
        self.checkpointed_to = state.recovery_point

    def close(self, now_ms: int) -> None:
        """Leave everything so that the next open has nothing to check. Blocking."""
        if self.offline_reason is not None:
            return
        self.flush(now_ms)
        last = self.segments[-1]
        try:
            last.save_indexes()
            producers.write_snapshot(layout.snapshot_file(self.folder, last.next_offset), self.producers.snapshot())
            self.remove_obsolete_files()
        except OSError as error:
            raise StorageError(f"{self.partition}: cannot save its indexes and producers: {error}") from error
        self.save_checkpoint()

    # Cutting: at the end, at the start.

    def truncate_to(self, end_offset: int, now_ms: int) -> None:
        """Drop every batch that ends past `end_offset`, as a follower does to agree with its leader. Blocking."""
        self._check_idle("truncate")
        if end_offset >= self.log_end_offset:
            return
        if end_offset <= self._bases[0]:
            self.restart_at(end_offset)
            return
        self.flush(now_ms)
        kept = bisect_left(self._bases, end_offset)
        last, is_closed = self.segments[kept - 1], kept < len(self.segments)
        point = last.cut_point(end_offset)
        self.recovery_point = point.last_batch_end
        self.cleaned_to = min(self.cleaned_to, point.last_batch_end)
        # The checkpoint goes down first: bytes that are written after the cut must not count as flushed after a crash.
        self.save_checkpoint()
        with self._offline_on_failure("truncate"):
            self._put_aside(self.segments[: kept - 1 : -1])
            del self.segments[kept:], self._bases[kept:]
            last.cut(point)
            self._snapshots = [(offset, data) for offset, data in self._snapshots if offset <= last.base_offset]
            self.producers = recovery.load_producers(self.folder, self.segments, last.next_offset, now_ms)
            has_gap = point.end_offset != point.last_batch_end
            if point.end_offset > last.base_offset and (is_closed or has_gap):
                # Compaction may have left gaps here, and only the index of a closed segment can tell them from damage.
                last.close_at(point.end_offset)
                last.save_indexes()
                self.roll()
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.epochs.truncate_to(self.log_end_offset)
        self.recovery_point = self.log_end_offset
        self.save_checkpoint()

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`, as a follower does whose leader has nothing older. Blocking."""
        self._check_idle("restart")
        self.recovery_point = self.log_start_offset = self._bases[0]
        self.save_checkpoint()
        with self._offline_on_failure("restart"):
            self._put_aside(self.segments[::-1])
            self.segments = [Segment.create(self.folder, offset, self.epochs, self.config.index_interval_bytes)]
            disk.sync_folder(self.folder)
        self._bases = [offset]
        self._snapshots = []
        self.producers = Producers()
        self.epochs.truncate_to(0)
        self.log_start_offset = self.high_watermark = self.recovery_point = self.cleaned_to = offset
        self.save_checkpoint()

    def delete_records(self, before_offset: int) -> None:
        """Take away what lies before an offset, for good; retention removes the segments. Blocking."""
        self.move_start(before_offset)
        self.save_checkpoint()

    def move_start(self, before_offset: int) -> None:
        """Move the log start offset up, at most to the high watermark. It lasts once a checkpoint is saved."""
        self._check_online()
        if not 0 <= before_offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: cannot delete before {before_offset}, the high watermark is {self.high_watermark}",
            )
        self._start_at(before_offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention by time, size and log start; gives the number of segments that went."""
        if self.offline_reason is not None or self._cleaning is not None:
            return 0
        count = retention.count_expired(
            self.segments,
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )
        if count == len(self.segments):
            self.roll()
            count = len(self.segments) - 1
        expired = self.segments[:count]
        if expired:
            self._start_at(expired[-1].next_offset)
            with self._offline_on_failure("delete old segments"):
                self._put_aside(expired)
            del self.segments[:count], self._bases[:count]
        return count

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, offset)
        self.epochs.start_at(self.log_start_offset)

    def _put_aside(self, segments: list[Segment]) -> None:
        """Rename the files of segments that go, in this order: a crash midway must leave no hole between the others."""
        for segment in segments:
            logger.info("%s: dropping the segment %d (%d bytes)", self.partition, segment.base_offset, segment.size)
            for path in layout.segment_files(self.folder, segment.base_offset):
                if path.exists():
                    disk.rename(path, layout.deleted_file(path))
                    self.obsolete_files.append(layout.deleted_file(path))
            self._open_segments.forget(segment)

    def remove_obsolete_files(self) -> None:
        """Blocking: freeing the blocks of a large file takes a while."""
        obsolete, self.obsolete_files = self.obsolete_files, []
        for path in obsolete:
            disk.remove(path)

    # Compaction.

    @property
    def can_be_cleaned(self) -> bool:
        return self.offline_reason is None and self._cleaning is None and self._flush is None

    def start_cleaning(self, cleaning: Cleaning) -> None:
        """Lend the segments of a compaction to it: readers keep them, nothing else may replace them meanwhile."""
        self._check_online()
        self._cleaning = cleaning
        for segment in cleaning.segments:
            segment.is_pinned = True
            _ = segment.file, segment.indexes

    def finish_cleaning(self, cleaning: Cleaning) -> None:
        """Go on with the compacted segments in the place of those that they replaced on disk."""
        self._cleaning = None
        for segment in cleaning.segments:
            segment.is_pinned = False
        for replaced, compacted in cleaning.replacements:
            at = self.segments.index(replaced[0])
            self.segments[at : at + len(replaced)] = [compacted]
            for segment in replaced:
                self._open_segments.forget(segment)
        self._bases = [segment.base_offset for segment in self.segments]
        self.cleaned_to = max(self.cleaned_to, cleaning.cleaned_to)
        if cleaning.error is not None:
            self.take_offline(f"a compaction was left half done: {cleaning.error}")

    # State.

    def take_offline(self, reason: str) -> None:
        """Refuse everything from now on, until the process starts again and recovers the log."""
        self.offline_reason = reason
        logger.critical("%s goes offline: %s", self.partition, reason)

    def _check_online(self) -> None:
        if self.offline_reason is not None:
            raise self._offline()

    def _offline(self) -> StorageError:
        return StorageError(f"{self.partition} is offline: {self.offline_reason}. Mend the disk and restart the broker")

    @contextmanager
    def _offline_on_failure(self, what: str) -> Iterator[None]:
        """For changes of several files: half done, only the next open can tell what the log is."""
        try:
            yield
        except OSError as error:
            self.take_offline(f"cannot {what}: {error}")
            raise StorageError(f"{self.partition} is offline: {self.offline_reason}") from error

    def _check_idle(self, what: str) -> None:
        self._check_online()
        if self._flush is not None or self._cleaning is not None:
            busy = "flushed" if self._flush is not None else "compacted"
            raise StorageError(f"{self.partition}: cannot {what} while the log is being {busy}; try again")
