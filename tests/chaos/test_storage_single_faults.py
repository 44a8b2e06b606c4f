"""Single faults, each at one chosen place: what a campaign or a review has found once must never be found again."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError, StorageError
from kafkalite.records.rows import Row, encode_rows
from kafkalite.storage import checkpoint, disk
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.manager import LogManager
from tests.support.content import batch_of
from tests.support.history import History
from tests.support.manual_clock import ManualClock
from tests.support.reading import read_everything
from tests.support.stored_log import NOW_MS, PARTITION, append_next, open_log

pytestmark = pytest.mark.usefixtures("without_fsync")

PLAIN = TopicConfig(segment_bytes=100_000, index_interval_bytes=100_000)
COMPACTED = TopicConfig(cleanup_policy=("compact",), segment_bytes=900, min_cleanable_dirty_ratio=0)


def flip(path: Path, position: int, mask: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


def positions(path: Path) -> list[int]:
    """Where the batches of a log file begin."""
    content = path.read_bytes()
    found, position = [], 0
    while position < len(content):
        found.append(position)
        position += 12 + int.from_bytes(content[position + 8 : position + 12])
    return found


def test_one_fetch_over_several_segments_leaves_no_batch_out(tmp_path: Path) -> None:
    log = open_log(tmp_path, TopicConfig(segment_bytes=900))
    history = History(3)
    for number in range(60):
        append_next(log, history, number % 3)
    for max_bytes in range(1, 2500, 37):
        assert history.violations(read_everything(log, max_bytes)) == []


def test_a_checkpoint_between_an_epoch_and_its_flush_costs_no_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, PLAIN)
    history = History(1)
    append_next(log, history, 1, epoch=0)
    log.flush(NOW_MS)
    append_next(log, history, 1, epoch=0)
    append_next(log, history, 1, epoch=1)
    checkpoint.write(log.folder, log.checkpoint())

    assert history.violations(read_everything(open_log(tmp_path, PLAIN))) == []


@pytest.mark.parametrize("is_closed", [True, False])
def test_records_deleted_up_to_the_middle_of_a_segment_do_not_make_the_rest_look_damaged(
    tmp_path: Path, is_closed: bool
) -> None:
    log = open_log(tmp_path, PLAIN)
    history = History(1)
    for epoch in (0, 0, 1, 1, 2):
        start = append_next(log, history, 1, epoch=epoch)
    log.flush(NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    history.may_delete_before(start)
    log.delete_records(start)
    if is_closed:
        log.close(NOW_MS)

    log = open_log(tmp_path, PLAIN)
    reading = read_everything(log)
    assert history.violations(reading) == []
    found = log.offset_for_time(0)
    assert found is not None
    assert found.offset == start
    duplicate = log.append_as_leader(
        batch_of(1, 1, history.acknowledged[start].sequence), leader_epoch=2, now_ms=NOW_MS
    )
    assert duplicate.is_duplicate


@pytest.mark.parametrize("length", [0xFF, 0x00], ids=["negative", "too short"])
def test_a_log_with_a_damaged_length_can_be_truncated_after_it(tmp_path: Path, length: int) -> None:
    log = open_log(tmp_path, PLAIN)
    history = History(1)
    ends = [append_next(log, history, 1) for _ in range(8)]
    log.close(NOW_MS)
    path = next(tmp_path.glob("*.log"))
    content = bytearray(path.read_bytes())
    at = positions(path)[3] + 8
    content[at : at + 4] = bytes([length] * 3 + [0xF4])
    path.write_bytes(content)

    log = open_log(tmp_path, PLAIN)
    log.truncate_to(ends[7], NOW_MS)
    history.truncating(ends[7])
    history.truncated(ends[7])
    reading = read_everything(log)
    assert history.violations(reading, may_refuse=range(ends[3], ends[4])) == []
    assert reading.refused == list(range(ends[3], ends[4]))


def test_damage_just_below_the_high_watermark_does_not_hide_what_is_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, PLAIN)
    history = History(1)
    ends = [append_next(log, history, 1) for _ in range(6)]
    log.close(NOW_MS)
    path = next(tmp_path.glob("*.log"))
    flip(path, positions(path)[3] + 40)

    log = open_log(tmp_path, PLAIN)
    for up_to in range(ends[3], ends[4] + 1):
        ranges = log.read(0, 10_000, up_to=up_to)
        assert sum(found.length for found in ranges) == positions(path)[3]
    with pytest.raises(CorruptBatch):
        log.read(ends[3], 10_000, up_to=ends[4])


def test_a_batch_within_a_damaged_batch_is_not_taken_for_a_stored_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, PLAIN)
    stowaway = bytes(encode_rows([Row(2, NOW_MS, b"k", b"not a record of this log")], leader_epoch=0))
    log.append_as_leader(encode_rows([Row(0, NOW_MS, b"k", b"0")]), leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(encode_rows([Row(0, NOW_MS, b"k", stowaway)]), leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(encode_rows([Row(0, NOW_MS, b"k", b"2")]), leader_epoch=0, now_ms=NOW_MS)
    log.close(NOW_MS)
    path = next(tmp_path.glob("*.log"))
    flip(path, positions(path)[1] + 40)

    reading = read_everything(open_log(tmp_path, PLAIN))
    assert [row.value for row in reading.rows] == [b"0", b"2"]
    assert reading.refused == [1]


def manager_with_dirty_log(tmp_path: Path, history: History) -> LogManager:
    manager = LogManager([tmp_path], StorageConfig(), ManualClock(NOW_MS))
    log = manager.create(PARTITION, COMPACTED)
    for number in range(60):
        append_next(log, history, number % 3)
    log.flush(NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return manager


@pytest.mark.parametrize("suffix", [".index.tmp", ".timeindex.tmp"])
def test_a_compaction_whose_indexes_cannot_be_saved_still_counts(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(1)
    manager = manager_with_dirty_log(tmp_path, history)
    log = manager.logs[PARTITION]
    before = log.size
    write_at = disk.write_at

    def without_space(file: disk.OpenFile, data: bytes, position: int) -> None:
        if file.path.name.endswith(suffix):
            raise OSError(errno.ENOSPC, "no space left")
        write_at(file, data, position)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_at", without_space)
        assert manager.clean()
    assert log.size < before
    for segment in log.segments:
        segment.release()
    assert history.violations(read_everything(log), is_compacted=True) == []
    for number in range(30):
        append_next(log, history, number % 3)
    log.flush(NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    assert manager.clean(), "it is compacted again once there is space"
    assert history.violations(read_everything(log), is_compacted=True) == []
    assert history.violations(read_everything(open_log(log.folder, COMPACTED)), is_compacted=True) == []


@pytest.mark.parametrize("step", ["sync_folder", "remove", "rename"])
def test_a_swap_that_fails_halfway_takes_the_log_offline_and_the_next_open_finishes_it(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(1)
    manager = manager_with_dirty_log(tmp_path, history)
    log = manager.logs[PARTITION]
    assert manager.clean()
    for number in range(30):
        append_next(log, history, number % 3)
    log.flush(NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    before = len(log.segments)
    real = getattr(disk, step)

    def failing(*arguments: Path) -> None:
        if list(log.folder.glob("*.swap")):
            raise OSError(errno.EIO, "input/output error")
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(disk, step, failing)
        with pytest.raises(StorageError):
            manager.clean()
    assert log.offline_reason is not None
    with pytest.raises(StorageError):
        log.append_as_leader(batch_of(1, 77, 0), leader_epoch=0, now_ms=NOW_MS)
    reopened = open_log(log.folder, COMPACTED)
    assert not list(log.folder.glob("*.swap"))
    assert len(reopened.segments) < before, "small segments have been put together"
    assert history.violations(read_everything(reopened), is_compacted=True) == []


def test_a_checkpoint_that_cannot_be_written_is_a_storage_error_and_spares_the_other_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = LogManager([tmp_path], StorageConfig(), ManualClock(NOW_MS))
    histories = {}
    for number in range(2):
        partition = PARTITION._replace(partition=number)
        histories[partition] = History(number)
        log = manager.create(partition, PLAIN)
        append_next(log, histories[partition], 1)
        log.flush(NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
    write_new = disk.write_new

    def without_space(path: Path, content: bytes) -> None:
        if path.parent.name == f"{PARTITION}":
            raise OSError(errno.ENOSPC, "no space left")
        write_new(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_new", without_space)
        with pytest.raises(StorageError):
            manager.checkpoint()
        with pytest.raises(StorageError):
            manager.logs[PARTITION].delete_records(1)
    other = PARTITION._replace(partition=1)
    saved = checkpoint.read(manager.logs[other].folder)
    assert saved is not None
    assert saved.recovery_point == manager.logs[other].recovery_point
    manager.checkpoint()


@pytest.mark.parametrize("step", ["rename", "truncate", "sync_data"])
def test_a_truncation_that_fails_halfway_is_a_storage_error_and_can_be_recovered(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TopicConfig(segment_bytes=900)
    log = open_log(tmp_path, config)
    history = History(1)
    ends = [append_next(log, history, 1) for _ in range(40)]
    log.flush(NOW_MS)
    real = getattr(disk, step)

    def failing(*arguments: Path | disk.OpenFile) -> None:
        name = getattr(arguments[0], "name", None) or getattr(arguments[0], "path", Path()).name
        if name.endswith(".log"):
            raise OSError(errno.EIO, "input/output error")
        real(*arguments)

    history.truncating(ends[3])
    with monkeypatch.context() as patch:
        patch.setattr(disk, step, failing)
        with pytest.raises(StorageError):
            log.truncate_to(ends[3], NOW_MS)
    with pytest.raises(StorageError):
        log.append_as_leader(batch_of(1, 77, 0), leader_epoch=0, now_ms=NOW_MS)
    assert history.violations(read_everything(open_log(tmp_path, config))) == []


def test_the_lost_end_of_an_unflushed_segment_ends_a_compacted_log_there(tmp_path: Path) -> None:
    """Only the end of a whole segment can be lost in a crash of the machine; a replica must not keep what follows."""
    log = open_log(tmp_path, COMPACTED)
    history = History(1)
    ends = [append_next(log, history, number % 3) for number in range(30)]
    second = sorted(tmp_path.glob("*.log"))[1]
    with second.open("r+b") as file:
        file.truncate(positions(second)[-1])

    reading = read_everything(open_log(tmp_path, COMPACTED))
    assert reading.log_end_offset in ends
    assert reading.log_end_offset < int(sorted(tmp_path.glob("*.log"))[1].stem) + 100
    assert history.violations(reading, may_lose_from=reading.log_end_offset) == []


def test_a_time_that_only_a_damaged_batch_holds_is_refused_and_not_answered_by_a_later_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, TopicConfig(index_interval_bytes=0))
    for timestamp in (1000, 9000, 2000, 2000):
        log.append_as_leader(encode_rows([Row(0, timestamp, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS)
    log.flush(NOW_MS)
    checkpoint.write(log.folder, log.checkpoint())
    log.append_as_leader(encode_rows([Row(0, 9500, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS)
    path = next(tmp_path.glob("*.log"))
    flip(path, positions(path)[1] + 40)

    for _ in range(2):
        log = open_log(tmp_path, TopicConfig(index_interval_bytes=0))
        with pytest.raises(CorruptBatch):
            log.offset_for_time(3000)
        found = log.offset_for_time(500)
        assert found is not None
        assert found.offset == 0
        log.close(NOW_MS)


def test_a_batch_of_an_earlier_leader_epoch_is_refused_rather_than_lost_at_the_next_open(tmp_path: Path) -> None:
    log = open_log(tmp_path, PLAIN)
    history = History(1)
    append_next(log, history, 1, epoch=5)
    with pytest.raises(KafkaError) as refusal:
        log.append_as_leader(batch_of(1, 2, 0), leader_epoch=4, now_ms=NOW_MS)
    assert refusal.value.code is ErrorCode.FENCED_LEADER_EPOCH
    append_next(log, history, 1, epoch=5)
    assert history.violations(read_everything(open_log(tmp_path, PLAIN))) == []


def log_that_rolls_after_a_clean_restart(folder: Path, history: History) -> PartitionLog:
    """Its last segment has saved indexes, which describe only what was there before the restart."""
    config = TopicConfig(segment_bytes=900, index_interval_bytes=100)
    log = open_log(folder, config)
    append_next(log, history, 1)
    append_next(log, history, 2)
    log.close(NOW_MS)
    log = open_log(folder, config)
    while len(log.segments) < 3:
        append_next(log, history, 1)
    return log


def test_a_segment_that_is_written_again_after_a_restart_is_flushed_when_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(1)
    log = log_that_rolls_after_a_clean_restart(tmp_path, history)
    synced = []
    monkeypatch.setattr(disk, "sync_data", lambda file: synced.append(file.path))
    log.flush(NOW_MS)
    assert {segment.path for segment in log.segments} <= set(synced)


@pytest.mark.parametrize("has_space", [True, False])
def test_the_indexes_of_a_part_of_a_segment_are_not_taken_for_those_of_the_whole(
    tmp_path: Path, has_space: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(1)
    log = log_that_rolls_after_a_clean_restart(tmp_path, history)
    write_at = disk.write_at

    def without_space(file: disk.OpenFile, data: bytes, position: int) -> None:
        if "index" in file.path.name and not has_space:
            raise OSError(errno.ENOSPC, "no space left")
        write_at(file, data, position)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_at", without_space)
        log.flush(NOW_MS)
    log.save_checkpoint()
    for segment in log.segments:
        segment.release()
    assert history.violations(read_everything(log)) == []
    assert history.violations(read_everything(open_log(tmp_path, log.config))) == []


def test_what_is_written_after_a_truncation_is_not_read_by_the_indexes_of_what_was_there(tmp_path: Path) -> None:
    config = TopicConfig(index_interval_bytes=100)
    log = open_log(tmp_path, config)
    history = History(1)
    offsets = [append_next(log, history, 1) for _ in range(20)]
    log.close(NOW_MS)
    log = open_log(tmp_path, config)
    history.truncating(offsets[5])
    log.truncate_to(offsets[5], NOW_MS)
    history.truncated(offsets[5])
    for _ in range(30):
        append_next(log, history, 2)
    log.flush(NOW_MS)
    log.save_checkpoint()
    reading = read_everything(open_log(tmp_path, config))
    assert reading.refused == []
    assert history.violations(reading) == []
