"""Topics with their logs: what may be made, what a crash or a failing disk leaves, and changes that meet each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.storage import disk
from tests.support.crash_points import crashing
from tests.support.produced import produced
from tests.unit.cluster.broker_rig import NODE_ID, BrokerRig


def folders(data_dir: Path) -> list[str]:
    return sorted(path.name for path in data_dir.iterdir() if path.is_dir())


def test_a_topic_has_its_logs_when_it_is_created_and_none_when_it_is_deleted(tmp_path: Path) -> None:
    with BrokerRig(tmp_path, {"num.partitions": "2"}) as rig:
        topic = rig.run(rig.topics.create("t"))
        assert (len(topic.partitions), folders(tmp_path)) == (2, ["t-0", "t-1"])
        assert rig.partitions.get("t", 1).log.log_end_offset == 0
        assert rig.topics.get_by_id(topic.topic_id) is rig.topics.get("t")
        rig.run(rig.topics.delete("t"))
        assert (folders(tmp_path), len(rig.partitions), rig.forgotten) == ([], 0, ["t"])
        assert rig.store.deleting == frozenset()


def test_what_cannot_be_created_is_refused_with_kafkas_code_and_leaves_nothing(tmp_path: Path) -> None:
    with BrokerRig(tmp_path, {"max.partitions": "4"}) as rig:
        rig.run(rig.topics.create("a.b", 2))
        before = rig.store.snapshot
        for arguments, code in [
            (("a.b",), ErrorCode.TOPIC_ALREADY_EXISTS),
            (("a_b",), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (("../t",), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (("t", 0), ErrorCode.INVALID_PARTITIONS),
            (("t", -2), ErrorCode.INVALID_PARTITIONS),
            (("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
            (("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
            (("t", 3), ErrorCode.POLICY_VIOLATION),
            (("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
            (("t", 1, 1, {"retention.mss": "1"}), ErrorCode.INVALID_CONFIG),
            (("t", 1, 1, {"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        ]:
            with pytest.raises(KafkaError) as caught:
                rig.run(rig.topics.create(*arguments))  # type: ignore[arg-type]
            assert caught.value.code is code, arguments
        assert rig.store.snapshot is before
        assert folders(tmp_path) == ["a.b-0", "a.b-1"]


def test_more_partitions_keep_what_is_there(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t", 1))

        async def append() -> None:
            rig.partitions.get("t", 0).append_as_leader(produced(b"x"), acks=1, now_ms=0)

        rig.run(append())
        rig.run(rig.topics.add_partitions("t", 3))
        assert [rig.partitions.get("t", number).log.log_end_offset for number in range(3)] == [1, 0, 0]
        for total in (3, 2, 0, -1):
            with pytest.raises(KafkaError) as caught:
                rig.run(rig.topics.add_partitions("t", total))
            assert caught.value.code is ErrorCode.INVALID_PARTITIONS


def test_changed_options_reach_the_logs_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t", 2, config={"retention.ms": "5"}))
        rig.run(rig.topics.change_config("t", lambda topic: {**topic.config, "segment.bytes": "100"}))
        logs = [rig.partitions.get("t", number).log for number in range(2)]
        assert {(log.config.retention_ms, log.config.segment_bytes) for log in logs} == {(5, 100)}
        with pytest.raises(KafkaError, match=r"segment\.bytes"):
            rig.run(rig.topics.change_config("t", lambda _: {"segment.bytes": "1"}))
        assert rig.topics.get("t").config == {"retention.ms": "5", "segment.bytes": "100"}


def test_changes_of_one_topic_at_the_same_time_do_not_lose_each_other(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        names = ["retention.ms", "segment.bytes", "flush.messages", "max.message.bytes"]

        async def change_all() -> None:
            await asyncio.gather(
                *(rig.topics.change_config("t", lambda topic, n=name: {**topic.config, n: "100"}) for name in names)  # type: ignore[misc]
            )

        rig.run(change_all())
        assert sorted(rig.topics.get("t").config) == sorted(names)


def test_creations_and_deletions_at_the_same_time_leave_metadata_and_logs_in_agreement(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:

        async def race() -> None:
            changes = [rig.topics.create("t", 3), rig.topics.delete("t"), rig.topics.create("t", 2)] * 4
            await asyncio.gather(*changes, return_exceptions=True)

        rig.run(race())
        expected = [f"t-{number}" for number in range(len(rig.topics.get("t").partitions))]
        assert folders(tmp_path) == expected
        assert len(rig.partitions) == len(expected)


def test_a_change_is_made_to_its_end_though_its_client_goes_away(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:

        async def ask_and_go() -> None:
            asking = asyncio.create_task(rig.topics.create("t", 2))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await rig.topics.close()

        rig.run(ask_and_go())
        assert (folders(tmp_path), len(rig.partitions)) == (["t-0", "t-1"], 2)


def test_a_topic_whose_logs_cannot_be_made_is_not_created_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerRig(tmp_path) as rig:
        real = disk.sync_folder

        def sync_folder(folder: Path) -> None:
            if folder.name == "t-1":
                raise OSError("No space left on device")
            real(folder)

        monkeypatch.setattr(disk, "sync_folder", sync_folder)
        with pytest.raises(StorageError, match="No space left"):
            rig.run(rig.topics.create("t", 3))
        assert (rig.topics.find("t"), rig.store.deleting, folders(tmp_path)) == (None, frozenset(), [])
        monkeypatch.undo()
        rig.run(rig.topics.create("t", 3))
        assert folders(tmp_path) == ["t-0", "t-1", "t-2"]


def test_a_topic_in_the_metadata_without_logs_gets_them_at_the_next_start(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.store.create_topic("t", 2, {"segment.bytes": "100"}))
    with BrokerRig(tmp_path) as rig:
        assert [rig.partitions.get("t", number).log.config.segment_bytes for number in range(2)] == [100, 100]


def test_a_deletion_that_a_crash_has_cut_off_is_finished_at_the_next_start(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t", 2))
        rig.run(rig.store.delete_topic("t"))
    with BrokerRig(tmp_path) as rig:
        assert (folders(tmp_path), rig.forgotten, rig.store.deleting) == ([], ["t"], frozenset())
        rig.run(rig.topics.create("t", 1))


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_a_crash_at_any_step_leaves_metadata_and_logs_that_the_next_start_brings_together(
    tmp_path: Path, when: str
) -> None:
    for nth in range(1, 200):
        folder = tmp_path / str(nth)
        rig = BrokerRig(folder)
        with crashing(nth, when) as point:
            rig.run(rig.topics.create("t", 2))
            rig.run(rig.topics.add_partitions("t", 3))
            rig.run(rig.topics.create("u", 1))
            rig.run(rig.topics.delete("t"))
        rig.crash()
        with BrokerRig(folder) as again:
            topics = again.store.snapshot.topics.values()
            expected = sorted(f"{topic.name}-{number}" for topic in topics for number in range(len(topic.partitions)))
            assert (folders(folder), again.logs.failed) == (expected, {}), f"after step {nth}"
            assert len(again.partitions) == len(expected)
            assert again.store.deleting == frozenset()
        if not point.is_reached:
            assert expected == ["u-0"]
            return
    raise AssertionError("these changes take fewer steps than this")


def test_only_this_brokers_id_can_be_assigned(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.topics.check_assignment("t", [NODE_ID])
        for brokers in ([], [NODE_ID + 1], [NODE_ID, NODE_ID], [NODE_ID, NODE_ID + 1]):
            with pytest.raises(KafkaError) as caught:
                rig.topics.check_assignment("t", brokers)
            assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
