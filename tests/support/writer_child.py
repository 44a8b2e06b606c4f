"""A process that uses a log as a broker does until it is killed; run by `test_storage_kills`.

    python -m tests.support.writer_child TASK_AS_JSON

It says on its standard output what it is about to do and what was acknowledged, each line in one write and only
after the fact: what the reader of the pipe has seen has happened.

    S producer sequence         about to append       A offset producer sequence flushed     acknowledged
    r offset, R offset          deleting, deleted     t offset, T offset                     truncating, truncated
    O                           the log is open
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import NamedTuple

from kafkalite.clock import SystemClock
from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.model import TopicPartition
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.manager import LogManager
from tests.support.content import FIRST_TIMESTAMP, batch_length, batch_of
from tests.support.kill_points import KillPoint, arm, kill_self

PARTITION = TopicPartition("kills", 0)
NOW_MS = FIRST_TIMESTAMP + 1_000_000
OPERATIONS = 2_000
SEGMENT_BYTES = 1_500


class Task(NamedTuple):
    """What a child is to do; `next_sequences` is where each producer goes on."""

    folder: str
    seed: int
    round: int
    kind: str
    """plain, flushed (each batch is flushed before it is acknowledged), truncated or compacted."""
    point: tuple[str, str, int, str] | None
    next_sequences: dict[str, int]
    only_recovers: bool = False

    def to_json(self) -> str:
        return json.dumps(self._asdict())


def config_of(kind: str) -> TopicConfig:
    return TopicConfig(
        segment_bytes=SEGMENT_BYTES,
        index_interval_bytes=200,
        flush_messages=1 if kind == "flushed" else 2**63 - 1,
        cleanup_policy=("compact",) if kind == "compacted" else ("delete",),
        min_cleanable_dirty_ratio=0.1,
    )


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class Writer:
    """Appends for three producers in turn, and now and then does each of the other things."""

    def __init__(self, task: Task, manager: LogManager) -> None:
        self._task = task
        self._manager = manager
        self._rng = random.Random(f"{task.seed} {task.round}")
        self._next = {int(producer): sequence for producer, sequence in task.next_sequences.items()}
        self._batches: list[tuple[int, int, int]] = []
        self._epoch = task.round * 1000

    @property
    def _log(self) -> PartitionLog:
        return self._manager.logs[PARTITION]

    def step(self) -> None:
        chance = self._rng.random()
        log = self._log
        if chance < 0.85:
            self._append()
        elif chance < 0.91:
            log.flush(NOW_MS)
        elif chance < 0.94:
            log.advance_high_watermark(log.log_end_offset)
            self._manager.checkpoint()
        elif chance < 0.95:
            self._epoch += 1
        elif chance < 0.97 and self._task.kind != "compacted":
            self._delete()
        elif self._task.kind == "compacted":
            log.flush(NOW_MS)
            log.advance_high_watermark(log.log_end_offset)
            self._manager.clean()
        elif self._task.kind == "truncated":
            self._truncate()

    def _append(self) -> None:
        seed, producer = self._task.seed, self._rng.choice(sorted(self._next))
        sequence = self._next[producer]
        say(f"S {producer} {sequence}")
        appended = self._log.append_as_leader(
            batch_of(seed, producer, sequence), leader_epoch=self._epoch, now_ms=NOW_MS
        )
        is_flushed = self._task.kind == "flushed"
        if is_flushed:
            self._log.flush(NOW_MS)
        say(f"A {appended.base_offset} {producer} {sequence} {int(is_flushed)}")
        self._batches.append((appended.base_offset, producer, sequence))
        self._next[producer] = sequence + batch_length(seed, producer, sequence)

    def _delete(self) -> None:
        """A part of the log's start: never so much that the producers' last batches go."""
        log = self._log
        log.advance_high_watermark(log.log_end_offset)
        offset = self._rng.randint(log.log_start_offset, (log.log_start_offset + log.high_watermark) // 2)
        say(f"r {offset}")
        log.delete_records(offset)
        say(f"R {offset}")
        log.delete_old_segments(NOW_MS)
        self._manager.remove_obsolete_files()

    def _truncate(self) -> None:
        cut = self._rng.randrange(1, 12)
        if len(self._batches) <= cut or self._batches[-cut][0] <= self._log.log_start_offset:
            return
        for _, producer, sequence in reversed(self._batches[-cut:]):
            self._next[producer] = sequence
        offset = self._batches[-cut][0]
        del self._batches[-cut:]
        say(f"t {offset}")
        self._log.truncate_to(offset, NOW_MS)
        say(f"T {offset}")


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    if task.point and task.only_recovers:
        arm(KillPoint(*task.point))
    manager = LogManager([Path(task.folder)], StorageConfig(), SystemClock())
    manager.open(lambda _partition: config_of(task.kind))
    assert not manager.failed, manager.failed
    if PARTITION not in manager.logs:
        manager.create(PARTITION, config_of(task.kind))
    say("O")
    if task.only_recovers:
        return
    if task.point:
        arm(KillPoint(*task.point))
    writer = Writer(task, manager)
    for _ in range(OPERATIONS):
        writer.step()
    kill_self()


if __name__ == "__main__":
    main()
