"""A crash at every single step of everything that a log does to its files, and at every step of the recovery after it.

Each operation is stopped before and within its first, second, … change to the file system, until it is done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalite.config import TopicConfig
from kafkalite.storage.log import PartitionLog
from tests.support.crash_points import crashing
from tests.support.history import History
from tests.support.reading import read_everything
from tests.support.stored_log import NOW_MS, append_next, compact, open_log

pytestmark = pytest.mark.usefixtures("without_fsync", "quietly")

SEED = 5
PLAIN = TopicConfig(segment_bytes=700, index_interval_bytes=150)
COMPACTED = TopicConfig(
    segment_bytes=700, index_interval_bytes=150, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0
)


def grow(log: PartitionLog, history: History, batches: int) -> None:
    for number in range(batches):
        append_next(log, history, 1 + number % 3, epoch=max(log.epochs.latest, 0))


def a_log(folder: Path, history: History) -> PartitionLog:
    """Closed segments with indexes, written again after a clean restart, not all of it flushed."""
    log = open_log(folder, COMPACTED if "compaction" in folder.parent.name else PLAIN)
    grow(log, history, 12)
    log.close(NOW_MS)
    log = open_log(folder, log.config)
    grow(log, history, 6)
    if log.config.is_compacted:
        compact(log)
        grow(log, history, 12)
    log.flush(NOW_MS)
    log.save_checkpoint()
    grow(log, history, 4)
    log.advance_high_watermark(log.log_end_offset)
    return log


def append(log: PartitionLog, history: History) -> None:
    grow(log, history, 5)


def flush(log: PartitionLog, history: History) -> None:
    log.flush(NOW_MS)
    log.save_checkpoint()


def close(log: PartitionLog, history: History) -> None:
    log.close(NOW_MS)


def delete(log: PartitionLog, history: History) -> None:
    before = log.segments[3].base_offset + 1
    history.may_delete_before(before)
    log.delete_records(before)
    history.deleted(before)
    log.delete_old_segments(NOW_MS)
    log.remove_obsolete_files()
    log.save_checkpoint()


def truncate(log: PartitionLog, history: History) -> None:
    """To where the first batch of another producer begins within the second segment."""
    sent = history.acknowledged
    inside = [
        at for at in sorted(sent) if at > log.segments[1].base_offset and sent[at].producer != sent[at - 1].producer
    ]
    if not inside:
        return
    history.truncating(inside[0])
    log.truncate_to(inside[0], NOW_MS)
    history.truncated(inside[0])


def compaction(log: PartitionLog, history: History) -> None:
    compact(log)


OPERATIONS = [append, flush, close, delete, truncate, compaction]


class Sweep:
    """One operation, stopped at every step."""

    def __init__(self, folder: Path, operation: Callable[[PartitionLog, History], None]) -> None:
        self._folder = folder
        self._operation = operation
        self._copies = 0
        self.crashes = 0

    def run(self, recovery_stride: int) -> None:
        for when in ("before", "half"):  # after one step is before the next
            step, is_reached = 0, True
            while is_reached:
                step += 1
                folder, history, is_reached = self._crash(step, when)
                self._recover_in_steps(folder, history, recovery_stride, when)
                self._check(folder, history)
                shutil.rmtree(folder)

    def _crash(self, step: int, when: str) -> tuple[Path, History, bool]:
        history = History(SEED)
        folder = self._folder / f"{self._operation.__name__}-{step}-{when}" / "log"
        log = a_log(folder, history)
        with crashing(step, when) as point:
            self._operation(log, history)
        self.crashes += point.is_reached
        return folder, history, point.is_reached

    def _recover_in_steps(self, folder: Path, history: History, stride: int, when: str) -> None:
        """Recovery from this crash crashes too, at every `stride`th step of its own, each time from the same state."""
        step, is_reached = 1, True
        config = COMPACTED if self._operation is compaction else PLAIN
        while is_reached:
            copy = folder.with_name(f"copy-{step}")
            shutil.copytree(folder, copy)
            with crashing(step, when) as point:
                open_log(copy, config)
            is_reached = point.is_reached
            self.crashes += is_reached
            violations = history.violations(read_everything(open_log(copy, config)), is_compacted=config.is_compacted)
            assert not violations, f"step {step} of recovery: " + "\n".join(violations)
            shutil.rmtree(copy)
            step += stride

    def _check(self, folder: Path, history: History) -> None:
        """What is there is right, and so is what is written, flushed, and cut after it."""
        config = COMPACTED if self._operation is compaction else PLAIN
        log = open_log(folder, config)
        reading = read_everything(log)
        self._verify(history, log)
        logs = {path.stem for path in folder.glob("*.log")}
        assert {path.stem for path in folder.glob("*index")} <= logs, "indexes wait for a segment that may come there"
        history.settle(reading)
        if self._operation is truncate:
            truncate(log, history)
        grow(log, history, 14)
        log.flush(NOW_MS)
        log.save_checkpoint()
        self._verify(history, log)
        self._verify(history, open_log(folder, config))

    def _verify(self, history: History, log: PartitionLog) -> None:
        reading = read_everything(log)
        violations = history.violations(reading, is_compacted=log.config.is_compacted)
        assert not violations, "\n".join(violations)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_crash_at_any_step_of_it_and_of_the_recovery_after_it_loses_nothing(
    tmp_path: Path, operation: Callable[[PartitionLog, History], None], count: Callable[[int, int], int]
) -> None:
    sweep = Sweep(tmp_path, operation)
    sweep.run(recovery_stride=count(40, 1))
    assert sweep.crashes >= 20
