"""Durability: when a flush is due, what it covers, who may see a record before it, and what a failed one means."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kafkalite.errors import ErrorCode, StorageError
from kafkalite.storage import disk, layout
from kafkalite.storage.disk import OpenFile
from kafkalite.storage.log import PartitionLog
from tests.support.produced import append
from tests.support.reading import read_everything
from tests.unit.storage.conftest import OpenLog


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were fsynced, in order."""
    names: list[str] = []
    real = disk.sync_data

    def sync_data(file: OpenFile) -> None:
        names.append(file.path.name)
        real(file)

    monkeypatch.setattr(disk, "sync_data", sync_data)
    return names


def test_flush_messages_counts_records(open_log: OpenLog) -> None:
    log = open_log(flush_messages=3)
    append(log, b"a", b"b")
    assert not log.flush_is_due(0)
    append(log, b"c")
    assert log.flush_is_due(0)
    log.flush(0)
    assert (log.flush_is_due(10**9), log.recovery_point) == (False, 3)


def test_flush_ms_counts_from_the_first_record_that_is_not_flushed(open_log: OpenLog) -> None:
    log = open_log(flush_ms=100)
    append(log, b"a", now_ms=1000)
    append(log, b"b", now_ms=1090)
    assert not log.flush_is_due(1099)
    assert log.flush_is_due(1100)


def test_without_flush_settings_only_a_closed_segment_asks_for_a_flush(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a")
    assert not log.flush_is_due(10**15)
    log.roll()
    assert log.flush_is_due(0)
    log.flush(0)
    assert not log.flush_is_due(10**15)


def test_one_fsync_serves_all_appends_before_it_and_the_next_one_all_that_came_meanwhile(
    open_log: OpenLog, synced: list[str]
) -> None:
    log = open_log(flush_messages=1)
    synced.clear()
    for number in range(10):
        append(log, b"%d" % number)
    first = log.start_flush()
    assert first is not None
    for number in range(10, 30):
        append(log, b"%d" % number)
        assert log.start_flush() is None, "only one flush at a time"
    first.run()
    log.finish_flush(first, 0)
    assert (log.recovery_point, log.exposable_end_offset) == (10, 10)
    log.flush(0)
    assert log.recovery_point == 30
    assert len(synced) == 2


def test_with_flush_settings_a_record_is_shown_only_after_its_flush(open_log: OpenLog) -> None:
    log = open_log(flush_messages=10)
    append(log, b"a")
    log.advance_high_watermark(1)
    assert log.high_watermark == 0
    log.flush(0)
    log.advance_high_watermark(1)
    assert log.high_watermark == 1


def test_without_flush_settings_a_record_is_shown_at_once(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a")
    log.advance_high_watermark(1)
    assert log.high_watermark == 1


def test_a_flush_covers_closed_segments_and_saves_their_indexes(open_log: OpenLog, synced: list[str]) -> None:
    log = open_log(segment_bytes=150)
    for number in range(6):
        append(log, b"%d" % number)
    closed = [segment.base_offset for segment in log.segments[:-1]]
    assert closed
    synced.clear()
    log.flush(0)
    for segment in log.segments:
        assert segment.path.name in synced
    for base_offset in closed:
        assert layout.offset_index_file(log.folder, base_offset).exists()
        assert layout.time_index_file(log.folder, base_offset).exists()


def fail_once(monkeypatch: pytest.MonkeyPatch, is_meant: Callable[[OpenFile], bool]) -> None:
    real = disk.sync_data
    failed: list[OpenFile] = []

    def sync_data(file: OpenFile) -> None:
        if is_meant(file) and not failed:
            failed.append(file)
            raise OSError(errno.EIO, "injected")
        real(file)

    monkeypatch.setattr(disk, "sync_data", sync_data)


def test_a_failed_fsync_takes_the_log_offline_for_good(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(flush_messages=1)
    append(log, b"a")
    log.flush(0)
    log.advance_high_watermark(1)
    append(log, b"b")
    fail_once(monkeypatch, lambda file: file.path.suffix == ".log")
    with pytest.raises(StorageError, match="fsync failed"):
        log.flush(0)
    log.advance_high_watermark(2)
    assert log.high_watermark == 1, "what was not flushed is not shown"
    attempts: list[Callable[[PartitionLog], object]] = [
        lambda log: append(log, b"c"),
        lambda log: log.flush(0),
        lambda log: log.read(0, 100, up_to=1),
        lambda log: log.offset_for_time(0),
        lambda log: log.delete_records(1),
    ]
    for attempt in attempts:
        with pytest.raises(StorageError, match=r"offline: fsync failed.*restart") as caught:
            attempt(log)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert read_everything(open_log()).rows[0].value == b"a"


def test_indexes_that_cannot_be_saved_do_not_harm_the_log(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(segment_bytes=150)
    for number in range(6):
        append(log, b"%d" % number)
    fail_once(monkeypatch, lambda file: ".index" in file.path.name or ".timeindex" in file.path.name)
    log.flush(0)
    assert log.recovery_point == 6
    log.close(0)
    assert [row.offset for row in read_everything(open_log(segment_bytes=150)).rows] == list(range(6))


def test_a_failed_write_leaves_nothing_behind_and_may_be_tried_again(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    append(log, b"a")
    real = disk.write_at

    def half_a_write(file: OpenFile, data: memoryview, position: int) -> None:
        real(file, data[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "write_at", half_a_write)
    with pytest.raises(StorageError, match="No space left") as caught:
        append(log, b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    assert caught.value.code.retriable
    monkeypatch.undo()
    assert log.segments[-1].path.stat().st_size == log.segments[-1].size
    assert append(log, b"b", producer_id=1, producer_epoch=0, base_sequence=0).base_offset == 1
    assert [row.value for row in read_everything(open_log()).rows] == [b"a", b"b"]
