"""kill -9 of a process that writes a log, at named and at random points, and again while it recovers.

The page cache survives the process, so every acknowledged record must be there, flushed or not. Each trial is one log
that lives through several kills; what it has promised in one life it must keep in all later ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalite.clock import SystemClock
from kafkalite.config import StorageConfig
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.manager import LogManager
from tests.conftest import Trials
from tests.support.child_process import run_child, take_note
from tests.support.content import batch_of
from tests.support.history import History
from tests.support.kill_points import COMPACTION_POINTS, NAMED_POINTS, TRUNCATION_POINTS, KillPoint
from tests.support.reading import read_everything
from tests.support.writer_child import NOW_MS, PARTITION, Task, config_of

pytestmark = pytest.mark.usefixtures("quietly")

PRODUCERS = (1, 2, 3)
LIVES = 4
POINTS = {
    "plain": NAMED_POINTS,
    "flushed": NAMED_POINTS,
    "truncated": TRUNCATION_POINTS,
    "compacted": COMPACTION_POINTS,
}


class KilledLog:
    """A log, the lives it has had, and what it has promised in them."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        folder.mkdir()
        self._folder = folder
        self._errors = folder.with_suffix(".stderr")
        self._kind = kind
        self._rng = random.Random(f"kill {seed}")
        self._seed = seed
        self._history = History(seed)
        self._first_sequences: dict[int, set[int]] = {producer: set() for producer in PRODUCERS}
        self.acknowledged = 0
        self.kills = 0

    def live_and_die(self, life: int, point: KillPoint | None) -> None:
        task = self._task(life, point)
        kill_after = self._rng.randint(1, 600) if point is None else None
        outcome = run_child(task, self._errors, kill_after=kill_after)
        assert outcome.was_killed
        self.kills += 1
        take_note(self._history, outcome.lines)
        for line in outcome.lines:
            what, *numbers = line.split()
            if what == "S":
                self._first_sequences[int(numbers[0])].add(int(numbers[1]))
            self.acknowledged += what == "A"

    def die_in_recovery(self, life: int) -> None:
        """Recovery is killed at ever later steps, until it gets through."""
        step = self._rng.randint(1, 3)
        while True:
            point = KillPoint("any", ".", step, self._rng.choice(["before", "half", "after"]))
            if not run_child(self._task(life, point, only_recovers=True), self._errors).was_killed:
                return
            self.kills += 1
            step += self._rng.randint(1, 12)

    def _task(self, life: int, point: KillPoint | None, *, only_recovers: bool = False) -> Task:
        next_sequences = {str(producer): self._history.next_sequence(producer) for producer in PRODUCERS}
        return Task(str(self._folder), self._seed, life, self._kind, point, next_sequences, only_recovers)

    def check(self) -> None:
        manager = LogManager([self._folder], StorageConfig(), SystemClock())
        manager.open(lambda _partition: config_of(self._kind))
        assert not manager.failed
        log = manager.logs.get(PARTITION)
        if log is None:
            assert not self._history.acknowledged
            return
        reading = read_everything(log)
        assert not reading.refused
        violations = self._history.violations(reading, is_compacted=self._kind == "compacted")
        assert not violations, "\n".join(violations)
        self._history.settle(reading)
        self._check_duplicates_are_known(log)
        assert read_everything(log) == reading
        if self._rng.random() < 0.5:
            manager.close()

    def _check_duplicates_are_known(self, log: PartitionLog) -> None:
        """I4: what each producer sent last and sends again, as its acknowledgement did not reach it, is not written."""
        for producer in PRODUCERS:
            last_sequence = self._history.next_sequence(producer) - 1
            offset = max(
                (at for at, sent in self._history.acknowledged.items() if sent.producer == producer), default=-1
            )
            if offset < log.log_start_offset:
                continue
            first = max(first for first in self._first_sequences[producer] if first <= last_sequence)
            again = log.append_as_leader(
                batch_of(self._seed, producer, first), leader_epoch=log.epochs.latest, now_ms=NOW_MS
            )
            assert again.is_duplicate, f"batch {first} of producer {producer} was written twice"
            assert again.last_offset == offset


@pytest.mark.parametrize("kind", POINTS)
def test_killed_writers_lose_nothing(
    tmp_path: Path, trials: Trials, kind: str, record_property: Callable[[str, object], None]
) -> None:
    points = POINTS[kind]
    totals = {"kills": 0, "batches acknowledged": 0}

    def trial(seed: int) -> None:
        log = KilledLog(tmp_path / f"log-{seed}", kind, seed)
        for life in range(LIVES):
            at = seed * LIVES + life
            log.live_and_die(life, points[at * 2 // 3 % len(points)] if at % 3 else None)
            if at % 2:
                log.die_in_recovery(life)
            log.check()
        totals["kills"] += log.kills
        totals["batches acknowledged"] += log.acknowledged

    trials(trial, small=2, large=63)
    for name, value in totals.items():
        record_property(name, value)
