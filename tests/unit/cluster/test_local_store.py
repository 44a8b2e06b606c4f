"""The embedded metadata: it survives, it is whole or refused, and no id is given out twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kafkalite.cluster.local_store import LocalStore
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import BrokerInfo
from kafkalite.storage import disk, layout
from tests.support.crash_points import crashing

T = TypeVar("T")


def run(change: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(change)


def store_of(data_dir: Path) -> LocalStore:
    return LocalStore(data_dir, node_id=7)


def test_a_new_folder_is_a_new_cluster_and_keeps_its_id(tmp_path: Path) -> None:
    first = store_of(tmp_path).snapshot
    assert (len(first.cluster_id), first.controller_id, dict(first.topics)) == (22, 7, {})
    assert store_of(tmp_path).snapshot.cluster_id == first.cluster_id
    (tmp_path / "other").mkdir()
    assert store_of(tmp_path / "other").snapshot.cluster_id != first.cluster_id


def test_topics_survive_reopening_with_id_options_and_size(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    run(store.create_topic("a", 2, {"retention.ms": "5"}))
    run(store.create_topic("b", 1, {}))
    run(store.add_partitions("a", 3))
    run(store.set_config("b", {"flush.messages": "1"}))
    again = store_of(tmp_path).snapshot
    assert again.topics == store.snapshot.topics
    assert [(t.name, len(t.partitions), dict(t.config)) for t in again.topics.values()] == [
        ("a", 3, {"retention.ms": "5"}),
        ("b", 1, {"flush.messages": "1"}),
    ]
    assert again.topics["a"].partitions[0].leader == 7


def test_a_topic_that_is_created_again_has_a_new_id(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    before = run(store.create_topic("t", 1, {})).topic_id
    run(store.delete_topic("t"))
    run(store.forget_deleted("t"))
    assert run(store.create_topic("t", 1, {})).topic_id != before


def test_a_deletion_is_remembered_until_its_logs_are_gone(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    run(store.create_topic("t", 1, {}))
    run(store.delete_topic("t"))
    again = store_of(tmp_path)
    assert (dict(again.snapshot.topics), again.deleting) == ({}, frozenset({"t"}))
    with pytest.raises(KafkaError) as caught:
        run(again.create_topic("t", 1, {}))
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    run(again.forget_deleted("t"))
    assert store_of(tmp_path).deleting == frozenset()


def test_a_refused_change_leaves_no_trace(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    run(store.create_topic("t", 2, {}))
    before = store.snapshot
    for change, code in [
        (store.create_topic("t", 1, {}), ErrorCode.TOPIC_ALREADY_EXISTS),
        (store.add_partitions("t", 2), ErrorCode.INVALID_PARTITIONS),
        (store.add_partitions("u", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (store.set_config("u", {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (store.delete_topic("u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]:
        with pytest.raises(KafkaError) as caught:
            run(change)
        assert caught.value.code is code
    assert store.snapshot is before
    assert store_of(tmp_path).snapshot == before


def test_the_broker_is_in_every_snapshot_once_it_is_known(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    broker = BrokerInfo(7, "127.0.0.1", 9092)
    store.set_broker(broker)
    run(store.create_topic("t", 1, {}))
    assert store.snapshot.brokers == (broker,)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    run(store_of(tmp_path).create_topic("topic", 1, {}))
    path = layout.cluster_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes({"flip": content.replace(b"topic", b"topik", 1), "cut": content[:-20], "empty": b""}[damage])
    with pytest.raises(StorageError, match=f"{path} is damaged.*backup"):
        store_of(tmp_path)


def test_a_change_that_cannot_be_written_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(tmp_path)
    monkeypatch.setattr(disk, "sync_data", _no_space)
    with pytest.raises(StorageError, match="No space left"):
        run(store.create_topic("t", 1, {}))
    assert dict(store.snapshot.topics) == {}
    monkeypatch.undo()
    assert dict(store_of(tmp_path).snapshot.topics) == {}
    run(store.create_topic("t", 1, {}))


def _no_space(_file: object) -> None:
    raise OSError("No space left on device")


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_a_crash_at_any_step_of_a_change_leaves_the_old_state_or_the_new_one(tmp_path: Path, when: str) -> None:
    seen = set()
    for nth in range(1, 20):
        folder = tmp_path / str(nth)
        folder.mkdir()
        store = store_of(folder)
        run(store.create_topic("old", 1, {}))
        with crashing(nth, when) as point:
            run(store.create_topic("new", 1, {}))
        names = tuple(store_of(folder).snapshot.topics)
        assert names in {("old",), ("old", "new")}
        seen.add(names)
        if not point.is_reached:
            break
    assert seen == {("old",), ("old", "new")}


def test_producer_ids_never_repeat_over_restarts_however_they_come(tmp_path: Path) -> None:
    async def take(store: LocalStore, count: int) -> list[int]:
        return list(await asyncio.gather(*(store.next_producer_id() for _ in range(count))))

    taken: list[int] = []
    for count in (1, 3, 1500, 1):
        taken += run(take(store_of(tmp_path), count))
    assert len(set(taken)) == len(taken)


def test_a_block_of_producer_ids_is_on_disk_before_the_first_of_them_is_given_out(tmp_path: Path) -> None:
    for nth in range(1, 20):
        with crashing(nth, "before") as point:
            store = store_of(tmp_path)
            given = run(store.next_producer_id())
            assert run(store_of(tmp_path).next_producer_id()) != given
        if not point.is_reached:
            return
    raise AssertionError("a block of ids takes fewer steps than this")


def test_changes_at_the_same_time_all_last(tmp_path: Path) -> None:
    store = store_of(tmp_path)

    async def create_many() -> None:
        await asyncio.gather(*(store.create_topic(f"t{number}", 1, {}) for number in range(20)))

    run(create_many())
    assert len(store_of(tmp_path).snapshot.topics) == 20
