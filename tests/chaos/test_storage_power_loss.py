"""The power goes: of every log file only what was fsynced is sure to be there, and anything may follow it.

A process that dies keeps the page cache, so `kill -9` cannot tell whether a flush is real. Here the disk remembers for
each file how much of it was synced; "power loss" cuts every file there, and adds what a disk may have kept of the rest.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from kafkalite.config import TopicConfig
from kafkalite.storage import disk
from kafkalite.storage.log import PartitionLog
from tests.conftest import Trials
from tests.support.history import History
from tests.support.reading import read_everything
from tests.support.stored_log import NOW_MS, append_next, compact, open_log

pytestmark = pytest.mark.usefixtures("quietly")


class RememberingDisk:
    """Knows how many bytes of which file (by inode: names change) have been synced."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._synced: dict[int, int] = {}
        self._open: list[disk.OpenFile] = []
        """Kept, so that no new file gets the inode of a removed one."""
        patch.setattr(disk, "sync_data", self._sync)
        patch.setattr(disk, "sync_folder", lambda _folder: None)

    def _sync(self, file: disk.OpenFile) -> None:
        self._synced[os.fstat(file.fd).st_ino] = file.size
        self._open.append(file)

    def lose_power(self, folder: Path, copy: Path, rng: random.Random) -> None:
        """A copy of the folder as it may be found afterwards."""
        shutil.copytree(folder, copy)
        for path in folder.iterdir():
            synced, size = self._synced.get(path.stat().st_ino, 0), path.stat().st_size
            if size <= synced:
                continue
            kept = rng.randint(synced, size)
            with (copy / path.name).open("r+b") as file:
                file.truncate(kept)
                if rng.random() < 0.5:
                    file.truncate(size)
                elif rng.random() < 0.5:
                    file.seek(kept)
                    file.write(rng.randbytes(size - kept))
        for path in copy.iterdir():
            self._sync(disk.OpenFile(path))


@pytest.mark.parametrize("is_compacted", [False, True], ids=["plain", "compacted"])
def test_what_was_acknowledged_after_its_flush_survives_a_power_loss(
    tmp_path: Path, trials: Trials, monkeypatch: pytest.MonkeyPatch, is_compacted: bool
) -> None:
    config = TopicConfig(
        segment_bytes=900,
        index_interval_bytes=150,
        min_cleanable_dirty_ratio=0,
        cleanup_policy=("compact",) if is_compacted else ("delete",),
    )

    def write(log: PartitionLog, history: History, rng: random.Random) -> PartitionLog:
        for _ in range(rng.randint(1, 25)):
            chance = rng.random()
            if chance < 0.8:
                append_next(log, history, rng.randint(1, 3), is_flushed=rng.random() < 0.4)
            elif chance < 0.87:
                log.save_checkpoint()
            elif chance < 0.92 and is_compacted:
                compact(log)
            elif chance < 0.95:
                log.close(NOW_MS)
                log = open_log(log.folder, config)
            else:
                log.roll()
        return log

    def trial(seed: int) -> None:
        rng = random.Random(f"power {seed}")
        history = History(seed)
        with monkeypatch.context() as patch:
            remembering = RememberingDisk(patch)
            folder = tmp_path / f"{seed}-0"
            log = open_log(folder, config)
            for life in range(1, 4):
                write(log, history, rng)
                found = tmp_path / f"{seed}-{life}"
                remembering.lose_power(folder, found, rng)
                shutil.rmtree(folder)
                folder = found
                log = open_log(folder, config)
                reading = read_everything(log)
                assert not reading.refused
                violations = history.violations(reading, is_compacted=is_compacted, only_flushed=True)
                assert not violations, "\n".join(violations)
                history.truncated(reading.log_end_offset)
                history.settle(reading)
            shutil.rmtree(folder)

    trials(trial, small=40, large=2_000)
