"""All logs of a broker, over one or several data directories.

A directory is locked while it is in use. A new partition goes to the directory with the fewest; a partition that cannot
be opened is reported in `failed` and does not keep the others from opening. Time and threads are the caller's:
every method here runs to its end, and those that wait for the disk say so. An owner that must not wait lets another
thread run the static ones: `create` is `choose_folder`, `open_new`, `add`; obsolete files are taken, then removed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from kafkalite.clock import Clock
from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError, KafkaliteError, StorageError
from kafkalite.model import TopicPartition
from kafkalite.storage import cleaner, disk, layout
from kafkalite.storage.cleaner import Cleaning
from kafkalite.storage.disk import OpenFile
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.open_segments import OpenSegments
from kafkalite.storage.segment import Segment

logger = logging.getLogger(__name__)


class LogManager:
    """The logs by partition. Locks its directories as long as it lives; `close` when done."""

    def __init__(self, data_dirs: Iterable[Path], storage: StorageConfig, clock: Clock) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.failed: dict[TopicPartition, str] = {}
        """Partitions that are on disk and could not be opened, with the reason."""
        self._data_dirs = [path.resolve() for path in data_dirs]
        self._storage = storage
        self._clock = clock
        self._open_segments = OpenSegments(storage.log_open_segments_max)
        self._locks = [_lock(path) for path in self._data_dirs]
        self._obsolete_folders: list[Path] = []

    def open(self, config_of: Callable[[TopicPartition], TopicConfig | None]) -> None:
        """Open every partition that the directories hold. Blocking: a log that was not closed is recovered.

        One without a config belongs to no topic: it is left alone, and reported in `failed`.
        """
        for data_dir in self._data_dirs:
            for folder in sorted(path for path in data_dir.iterdir() if path.is_dir()):
                if layout.is_deleted_partition(folder):
                    self._obsolete_folders.append(folder)
                elif (partition := layout.parse_partition_folder(folder)) is not None:
                    self._open_log(partition, folder, config_of(partition))
        self.remove_obsolete_files()

    def _open_log(self, partition: TopicPartition, folder: Path, config: TopicConfig | None) -> None:
        if config is None:
            self.failed[partition] = f"{folder} belongs to no topic that the broker knows; move it away, or remove it"
            logger.error("%s: %s", partition, self.failed[partition])
            return
        if partition in self.logs:
            self.failed[partition] = f"both {self.logs[partition].folder} and {folder} hold it; remove one of them"
            logger.error("%s: %s", partition, self.failed[partition])
            return
        try:
            self.logs[partition] = PartitionLog(
                partition, folder, config, now_ms=self._clock.now_ms(), open_segments=self._open_segments
            )
        except (OSError, KafkaliteError) as error:
            self.failed[partition] = str(error)
            logger.exception("%s in %s cannot be opened", partition, folder)

    def create(self, partition: TopicPartition, config: TopicConfig) -> PartitionLog:
        """A new, empty log. Blocking."""
        folder = self.choose_folder(partition)
        log = self.open_new(partition, folder, config)
        self.add(log)
        return log

    def choose_folder(self, partition: TopicPartition) -> Path:
        """Where a new partition goes: into the directory that holds the fewest."""
        if partition in self.logs or partition in self.failed:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{partition} has a log already")
        held = [log.folder.parent for log in self.logs.values()] if len(self._data_dirs) > 1 else []
        return layout.partition_folder(min(self._data_dirs, key=held.count), partition)

    def open_new(self, partition: TopicPartition, folder: Path, config: TopicConfig) -> PartitionLog:
        """The log in a new folder, which is not among the others yet. Blocking; any thread may call it."""
        try:
            log = PartitionLog(
                partition, folder, config, now_ms=self._clock.now_ms(), open_segments=self._open_segments
            )
            disk.sync_folder(folder.parent)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise StorageError(f"cannot create {folder}: {error}") from error
        return log

    def add(self, log: PartitionLog) -> None:
        """Take a new log among the others."""
        self.logs[log.partition] = log

    def delete(self, partition: TopicPartition) -> None:
        """Take a log away; its files go with the next `remove_obsolete_files`."""
        log = self.logs.pop(partition)
        log.offline_reason = "the partition was deleted"
        target = layout.deleted_partition_folder(log.folder)
        disk.rename(log.folder, target)
        self._obsolete_folders.append(target)

    def remove_obsolete_files(self) -> None:
        """Remove what retention, truncation and deletion have put aside. Blocking."""
        self.remove_files(self.take_obsolete_files())

    def take_obsolete_files(self) -> list[Path]:
        """What may be removed; the caller is to do it."""
        obsolete, self._obsolete_folders = self._obsolete_folders, []
        for log in self.logs.values():
            obsolete += log.obsolete_files
            log.obsolete_files = []
        return obsolete

    @staticmethod
    def remove_files(paths: Iterable[Path]) -> None:
        """Blocking: freeing the blocks of a large file takes a while."""
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                disk.remove(path)

    def retain(self) -> None:
        """Apply retention to every log, and forget producers that have been silent too long."""
        now_ms = self._clock.now_ms()
        for log in self.logs.values():
            log.delete_old_segments(now_ms)
            log.producers.forget_expired(now_ms, self._storage.producer_id_expiration_ms)

    def plan_cleaning(self) -> tuple[PartitionLog, Cleaning] | None:
        """A compaction pass of the log that needs it most; the caller runs it and gives it to `finish_cleaning`."""
        now_ms = self._clock.now_ms()
        plans: list[tuple[int, PartitionLog, list[Segment]]] = []
        for log in self.logs.values():
            if log.config.is_compacted and log.can_be_cleaned:
                chosen = cleaner.choose_segments(
                    log.segments,
                    log.config,
                    cleaned_to=log.cleaned_to,
                    end_offset=min(log.checkpointed_to, log.high_watermark),
                    now_ms=now_ms,
                )
                dirty_bytes = sum(segment.size for segment in chosen if segment.next_offset > log.cleaned_to)
                if dirty_bytes:
                    plans.append((dirty_bytes, log, chosen))
        if not plans:
            return None
        _, log, segments = max(plans, key=lambda plan: plan[0])
        cleaning = Cleaning(
            log.folder,
            segments,
            cleaned_to=log.cleaned_to,
            config=log.config,
            storage=self._storage,
            now_ms=now_ms,
            clock=self._clock,
        )
        log.start_cleaning(cleaning)
        return log, cleaning

    def clean(self) -> bool:
        """One whole compaction pass, if any log needs one. Blocking."""
        self.checkpoint()
        plan = self.plan_cleaning()
        if plan is None:
            return False
        log, cleaning = plan
        try:
            cleaning.run()
        finally:
            log.finish_cleaning(cleaning)
        return True

    def checkpoint(self) -> None:
        """Save every log's recovery point, log start and high watermark, though some fail. Blocking."""
        errors: list[StorageError] = []
        for log in self.logs.values():
            if log.offline_reason is None:
                try:
                    log.save_checkpoint()
                except StorageError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Flush and close every log, though some fail, and let go of the directories. Blocking."""
        errors: list[Exception] = []
        for log in self.logs.values():
            try:
                log.close(self._clock.now_ms())
            except (OSError, KafkaliteError) as error:
                logger.exception("%s did not close cleanly; it will be recovered at the next start", log.partition)
                errors.append(error)
        self.logs.clear()
        self._locks.clear()
        if errors:
            raise ExceptionGroup("some logs did not close cleanly", errors)


def _lock(data_dir: Path) -> OpenFile:
    data_dir.mkdir(parents=True, exist_ok=True)
    lock = OpenFile(layout.lock_file(data_dir), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StorageError(
            f"the data directory {data_dir} is in use by another broker; stop it, or choose another directory"
        ) from None
    return lock
