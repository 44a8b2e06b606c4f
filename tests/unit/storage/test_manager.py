"""All logs of a broker: directories, locks, deletion, and that one bad log does not harm the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import TopicPartition
from kafkalite.storage import disk
from kafkalite.storage.manager import LogManager
from tests.support.manual_clock import ManualClock
from tests.support.produced import append
from tests.support.reading import read_everything


def manager_of(*data_dirs: Path) -> LogManager:
    manager = LogManager(data_dirs, StorageConfig(), ManualClock(0))
    manager.open(lambda _: TopicConfig(segment_bytes=200))
    return manager


def test_logs_are_there_again_after_a_restart(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    for number in range(3):
        append(manager.create(TopicPartition("t", number), TopicConfig()), b"%d" % number)
    manager.close()
    manager = manager_of(tmp_path)
    assert sorted(manager.logs) == [TopicPartition("t", number) for number in range(3)]
    assert [read_everything(manager.logs[TopicPartition("t", n)]).rows[0].value for n in range(3)] == [b"0", b"1", b"2"]


def test_partitions_spread_over_the_directories_and_are_found_in_all(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    manager = manager_of(first, second)
    for number in range(6):
        manager.create(TopicPartition("t", number), TopicConfig())
    assert [len(list(folder.glob("t-*"))) for folder in (first, second)] == [3, 3]
    manager.close()
    assert len(manager_of(first, second).logs) == 6


def test_a_directory_in_use_is_refused_by_name_and_free_after_close(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    with pytest.raises(StorageError, match=f"{tmp_path} is in use by another broker; stop it"):
        manager_of(tmp_path)
    manager.close()
    manager_of(tmp_path).close()


def test_a_partition_is_created_once_and_its_name_is_checked(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    manager.create(TopicPartition("t", 0), TopicConfig())
    with pytest.raises(KafkaError) as caught:
        manager.create(TopicPartition("t", 0), TopicConfig())
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError):
        manager.create(TopicPartition("../t", 0), TopicConfig())


def test_a_deleted_partition_is_gone_at_once_and_its_files_soon(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    log = manager.create(TopicPartition("t", 0), TopicConfig())
    append(log, b"old")
    manager.delete(TopicPartition("t", 0))
    with pytest.raises(StorageError, match="deleted"):
        append(log, b"late")
    again = manager.create(TopicPartition("t", 0), TopicConfig())
    assert again.log_end_offset == 0
    assert len(list(tmp_path.glob("t-0*"))) == 2
    manager.remove_obsolete_files()
    assert [path.name for path in tmp_path.glob("t-0*")] == ["t-0"]


def test_what_a_crash_left_of_a_deleted_partition_is_removed_at_the_next_start(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    manager.create(TopicPartition("t", 0), TopicConfig())
    manager.delete(TopicPartition("t", 0))
    del manager
    assert manager_of(tmp_path).logs == {}
    assert not list(tmp_path.glob("t-0*"))


def test_a_log_that_cannot_be_opened_is_reported_and_the_others_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_of(tmp_path)
    for topic in ("bad", "good"):
        append(manager.create(TopicPartition(topic, 0), TopicConfig()), b"x")
    del manager
    real = disk.sync_folder

    def sync_folder(folder: Path) -> None:
        if folder.name == "bad-0":
            raise OSError("Input/output error")
        real(folder)

    monkeypatch.setattr(disk, "sync_folder", sync_folder)
    manager = manager_of(tmp_path)
    assert list(manager.logs) == [TopicPartition("good", 0)]
    assert "Input/output error" in manager.failed[TopicPartition("bad", 0)]
    with pytest.raises(KafkaError):
        manager.create(TopicPartition("bad", 0), TopicConfig())


def test_a_partition_in_two_directories_is_reported_and_neither_is_touched(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        manager = manager_of(tmp_path / folder)
        append(manager.create(TopicPartition("t", 0), TopicConfig()), folder.encode())
        manager.close()
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert "remove one of them" in manager.failed[TopicPartition("t", 0)]
    assert all(list((tmp_path / folder / "t-0").glob("*.log")) for folder in ("a", "b"))


def test_folders_that_are_no_partitions_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "keep.txt").write_text("mine")
    assert manager_of(tmp_path).logs == {}
    assert (tmp_path / "notes" / "keep.txt").read_text() == "mine"


def test_retention_also_forgets_silent_producers(tmp_path: Path) -> None:
    clock = ManualClock(0)
    manager = LogManager([tmp_path], StorageConfig(producer_id_expiration_ms=1000), clock)
    log = manager.create(TopicPartition("t", 0), TopicConfig())
    append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    clock.sleep(1)
    manager.retain()
    assert len(log.producers) == 1
    clock.sleep(0.001)
    manager.retain()
    assert len(log.producers) == 0


def test_a_log_that_fails_to_close_does_not_keep_the_others_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_of(tmp_path)
    for topic in ("bad", "good"):
        append(manager.create(TopicPartition(topic, 0), TopicConfig()), b"x")
    monkeypatch.setattr(manager.logs[TopicPartition("bad", 0)], "flush", _fail)
    with pytest.raises(ExceptionGroup, match="did not close cleanly"):
        manager.close()
    manager = manager_of(tmp_path)
    assert all(log.log_end_offset == 1 for log in manager.logs.values())


def _fail(_now_ms: int) -> None:
    raise OSError("no more")
