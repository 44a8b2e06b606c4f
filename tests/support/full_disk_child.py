"""Fills a small disk under a log, again and again; run by `test_storage_full_disk` in a mount namespace of its own.

    unshare -m python -m tests.support.full_disk_child MOUNT_POINT FIRST_SEED SEEDS [ONLY_PHASE]

The disk is a tmpfs that only this process sees. Each fill leaves a few free bytes at one phase of a log's life, goes on
until the disk refuses, checks that nothing acknowledged is lost, gives the space back, and checks that the log goes on.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.errors import ErrorCode, StorageError
from kafkalite.model import TopicPartition
from kafkalite.storage.manager import LogManager
from tests.support.history import History
from tests.support.manual_clock import ManualClock
from tests.support.reading import read_everything
from tests.support.stored_log import NOW_MS, append_next

DISK_BYTES = 1024 * 1024
PAGE = 4096
PARTITION = TopicPartition("full", 0)
SEGMENT_BYTES = {"append": 20_000, "compaction": 12_000}
PHASES = ("append", "roll", "flush", "compaction", "checkpoint", "close")


class Disk:
    """A tmpfs, and a file of ballast that takes its space."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True)

    def leave(self, free_bytes: int) -> None:
        """Take all the space but this much, to the page."""
        state = os.statvfs(self.folder)
        taken = state.f_bavail * state.f_frsize - free_bytes
        with self._ballast.open("ab") as file:
            file.write(bytes(max(0, taken // PAGE * PAGE)))

    def give_back(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Fill:
    """One log, one fill."""

    def __init__(self, disk: Disk, seed: int, phase: str) -> None:
        self._disk = disk
        self._rng = random.Random(f"fill {seed}")
        self._phase = phase
        self._history = History(seed)
        self._config = TopicConfig(
            segment_bytes=SEGMENT_BYTES.get(phase, 2_000),
            index_interval_bytes=100,
            cleanup_policy=("compact",) if phase == "compaction" else ("delete",),
            min_cleanable_dirty_ratio=0,
        )
        self._data = disk.folder / f"data-{seed}"
        self._open()

    def _open(self) -> None:
        self._manager = LogManager([self._data], StorageConfig(), ManualClock(NOW_MS))
        self._manager.open(lambda _partition: self._config)
        assert not self._manager.failed, self._manager.failed
        self._log = self._manager.logs.get(PARTITION) or self._manager.create(PARTITION, self._config)

    def run(self) -> None:
        is_compaction = self._phase == "compaction"
        for _ in range(self._rng.randint(200, 300) if is_compaction else self._rng.randint(20, 60)):
            self._append()
        if self._rng.random() < 0.5:
            self._manager.close()
            self._open()
        self._disk.leave(self._rng.randint(0, 4) * PAGE)
        assert self._fill(), f"the disk never became full in {self._phase}"
        self._check("while the disk is full")
        if self._phase == "close":
            self._close_and_open_on_a_full_disk()
        self._disk.give_back()
        for _ in range(self._rng.randint(5, 40)):
            self._append()
        self._log.flush(NOW_MS)
        self._manager.checkpoint()
        if self._config.is_compacted:
            self._log.advance_high_watermark(self._log.log_end_offset)
            self._manager.clean()
        self._check("after space has come back")
        if self._rng.random() < 0.5:
            self._manager.close()
        self._abandon()
        self._open()
        self._check("after it was opened again")
        self._append()
        self._check("after one more record")
        self._manager.close()

    def _close_and_open_on_a_full_disk(self) -> None:
        """Neither need succeed; both must say so by what they are meant to raise, and leave nothing worse."""
        with suppress(ExceptionGroup):
            self._manager.close()
        self._abandon()
        manager = LogManager([self._data], StorageConfig(), ManualClock(NOW_MS))
        manager.open(lambda _partition: self._config)
        assert set(manager.failed) | set(manager.logs) == {PARTITION}
        if PARTITION in manager.logs:
            self._log = manager.logs[PARTITION]
            self._check("after it was opened on a full disk")
        del manager
        self._abandon()
        self._disk.give_back()
        self._open()

    def _abandon(self) -> None:
        """Let go of the log as a process does that ends: no more than its descriptors are closed."""
        self._manager = self._log = None  # type: ignore[assignment]
        gc.collect()

    def _append(self) -> None:
        append_next(self._log, self._history, self._rng.randint(1, 3))

    def _fill(self) -> int:
        """Go on until the disk is full, and a while longer; gives how often it refused."""
        log, manager = self._log, self._manager
        refused = 0
        steps: dict[str, list[Callable[[], object]]] = {
            "append": [self._append],
            "roll": [log.roll, self._append],
            "flush": [self._append, lambda: log.flush(NOW_MS)],
            "compaction": [self._append, lambda: log.flush(NOW_MS), self._show_all, self._tighten, manager.clean],
            "checkpoint": [self._append, manager.checkpoint],
            "close": [self._append],
        }
        for step in steps[self._phase] * 400:
            try:
                step()
            except StorageError as error:
                self._check_refusal(error)
                refused += 1
                if refused > 20:
                    break
        return refused

    def _check_refusal(self, error: StorageError) -> None:
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert error.code.retriable
        assert self._log.offline_reason is None, self._log.offline_reason
        sizes = {segment.path: segment.size for segment in self._log.segments}
        assert {path: path.stat().st_size for path in sizes} == sizes, "a part of a failed write is left"

    def _tighten(self) -> None:
        """Compaction gives space back: take it again, but for what the next pass just may need."""
        self._disk.leave(self._rng.randint(0, 3) * PAGE)

    def _show_all(self) -> None:
        self._log.advance_high_watermark(self._log.log_end_offset)

    def _check(self, when: str) -> None:
        reading = read_everything(self._log)
        violations = self._history.violations(reading, is_compacted=self._config.is_compacted)
        assert not violations, "\n".join([f"{self._phase}, {when}:", *violations])


def main() -> None:
    folder, first_seed, seeds, *only = sys.argv[1:]
    logging.disable()
    disk = Disk(Path(folder))
    for seed in range(int(first_seed), int(first_seed) + int(seeds)):
        phase = only[0] if only else PHASES[seed % len(PHASES)]
        fill = Fill(disk, seed, phase)
        try:
            fill.run()
        except BaseException as error:
            error.add_note(f"fill {seed} in {phase}")
            raise
        subprocess.run(["rm", "-r", str(disk.folder / f"data-{seed}")], check=True)
        sys.stdout.write(f"{seed}\n")


if __name__ == "__main__":
    main()
