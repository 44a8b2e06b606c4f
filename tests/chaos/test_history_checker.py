"""A checker is trusted only after it has caught mutants: logs that break one promise each, on purpose."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kafkalite.config import TopicConfig
from kafkalite.records.rows import Row
from kafkalite.storage import disk
from kafkalite.storage.disk import FileRange
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.producers import Producers
from tests.support.content import batch_length, batch_of
from tests.support.history import History
from tests.support.reading import Reading, ShortRead, read_everything
from tests.support.stored_log import NOW_MS, append_next, open_log

CONFIG = TopicConfig(segment_bytes=900)


@pytest.fixture
def history() -> History:
    return History(seed=7)


@pytest.fixture
def log(tmp_path: Path, history: History) -> PartitionLog:
    log = open_log(tmp_path / "log", CONFIG)
    for number in range(20):
        append_next(log, history, number % 3)
    return log


def reopened(log: PartitionLog) -> Reading:
    return read_everything(open_log(log.folder, CONFIG))


def kinds(violations: Iterable[str]) -> set[str]:
    return {violation.split(":")[0] for violation in violations}


def test_a_log_that_keeps_its_promises_passes(log: PartitionLog, history: History) -> None:
    assert history.violations(read_everything(log)) == []
    assert history.violations(reopened(log)) == []


def test_mutant_acknowledges_before_it_writes(
    log: PartitionLog, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "write_at", lambda _file, _data, _position: None)
    append_next(log, history, 1)
    monkeypatch.undo()
    assert "I1" in kinds(history.violations(reopened(log)))


def test_mutant_lets_duplicates_through(log: PartitionLog, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producers, "check", lambda _self, _batch: None)
    log.append_as_leader(batch_of(history.seed, 1, 0), leader_epoch=0, now_ms=NOW_MS)
    assert "I4" in kinds(history.violations(reopened(log)))


def test_mutant_gives_an_offset_to_two_batches(log: PartitionLog, history: History) -> None:
    with pytest.raises(AssertionError, match="I2"):
        history.acknowledge(0, 2, history.next_sequence(2))


def test_mutant_reads_short(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    read = FileRange.read
    monkeypatch.setattr(FileRange, "read", lambda self: read(self)[:-1])
    with pytest.raises(ShortRead):
        read_everything(log)


def test_mutant_ends_a_read_before_the_log_ends(log: PartitionLog, history: History) -> None:
    reading = read_everything(log)
    assert kinds(history.violations(reading._replace(rows=reading.rows[:-1]))) == {"I1/I3", "I1"}


def test_mutant_loses_the_tail_and_says_so(log: PartitionLog, history: History) -> None:
    os.truncate(log.segments[-1].path, 0)
    assert kinds(history.violations(reopened(log))) == {"I1"}


def test_mutant_loses_a_whole_segment_at_the_start(log: PartitionLog, history: History) -> None:
    log.segments[0].path.unlink()
    assert "I1" in kinds(history.violations(reopened(log)))


def swap_two(rows: list[Row]) -> list[Row]:
    return [rows[1], rows[0], *rows[2:]]


def move_by_one(rows: list[Row]) -> list[Row]:
    return [row._replace(offset=row.offset + 1) for row in rows]


def change_a_value(rows: list[Row]) -> list[Row]:
    return [rows[0]._replace(value=b"other"), *rows[1:]]


def change_a_key(rows: list[Row]) -> list[Row]:
    return [rows[0]._replace(key=b"other"), *rows[1:]]


def change_a_timestamp(rows: list[Row]) -> list[Row]:
    return [rows[0]._replace(timestamp=1), *rows[1:]]


def exchange_two_records(rows: list[Row]) -> list[Row]:
    first, second, *rest = rows
    return [second._replace(offset=first.offset), first._replace(offset=second.offset), *rest]


def repeat_one(rows: list[Row]) -> list[Row]:
    return [rows[0], *rows]


def invent_one(rows: list[Row]) -> list[Row]:
    return [*rows, Row(rows[-1].offset + 1, 1, b"k", b"v", (("id", b"1:100000"),))]


def lose_one_in_the_middle(rows: list[Row]) -> list[Row]:
    return [*rows[:5], *rows[6:]]


MUTATIONS = [
    swap_two,
    move_by_one,
    change_a_value,
    change_a_key,
    change_a_timestamp,
    exchange_two_records,
    repeat_one,
    invent_one,
]


@pytest.mark.parametrize(
    ("mutate", "is_compacted"),
    [
        *((mutation, is_compacted) for mutation in MUTATIONS for is_compacted in (False, True)),
        (lose_one_in_the_middle, False),  # of a compacted log, what is superseded may go; see the test below
    ],
)
def test_mutant_serves_something_else(
    log: PartitionLog, history: History, mutate: Callable[[list[Row]], list[Row]], is_compacted: bool
) -> None:
    reading = read_everything(log)
    assert history.violations(reading._replace(rows=mutate(reading.rows)), is_compacted=is_compacted)


def test_mutant_compacts_the_last_value_of_a_key_away(log: PartitionLog, history: History) -> None:
    reading = read_everything(log)
    latest = {row.key: row for row in reading.rows}
    kept = sorted(latest.values(), key=lambda row: row.offset)
    assert history.violations(reading._replace(rows=kept), is_compacted=True) == []
    for row in kept:
        rows = [other for other in kept if other != row]
        found = history.violations(reading._replace(rows=rows), is_compacted=True)
        assert kinds(found) == ({"I1"} if row.value is not None else set())


def test_mutant_refuses_what_is_not_damaged(log: PartitionLog, history: History) -> None:
    reading = read_everything(log)
    refusing = reading._replace(rows=reading.rows[1:], refused=[0])
    assert history.violations(refusing, may_refuse=range(1)) == []
    assert history.violations(refusing, may_refuse=range(1, 2))


def test_mutant_brings_truncated_records_back(log: PartitionLog, history: History) -> None:
    before = read_everything(log)
    end = before.log_end_offset - batch_length(7, 1, 0)
    history.truncating(end)
    assert history.violations(before) == []
    history.truncated(end)
    assert history.violations(before)


def test_mutant_loses_a_flushed_record_when_the_power_goes(log: PartitionLog, history: History) -> None:
    append_next(log, history, 1, is_flushed=True)
    append_next(log, history, 2)
    reading = read_everything(log)
    flushed_end = max(history.flushed) + 1

    def lost_from(offset: int) -> Reading:
        return reading._replace(rows=[row for row in reading.rows if row.offset < offset], log_end_offset=offset)

    assert history.violations(lost_from(flushed_end), only_flushed=True) == []
    assert history.violations(lost_from(flushed_end))
    assert history.violations(lost_from(flushed_end - 1), only_flushed=True)
