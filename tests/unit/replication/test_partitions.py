"""All partitions of a broker: opened as the metadata say, taken away while somebody waits, closed without a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkalite.clock import SystemClock
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import ClusterSnapshot, PartitionState, TopicState
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.replication.manager import Partitions
from kafkalite.replication.upkeep import Upkeep
from kafkalite.replication.waiters import BytesWaiter
from kafkalite.storage.manager import LogManager
from tests.support.produced import produced
from tests.unit.replication.disk_gate import DiskGate

OWN = PartitionState(0, 0, (0,), (0,))
CONFIG = BrokerConfig()
NO_OPTIONS: Mapping[str, str] = {}


def topic_of(count: int, config: Mapping[str, str] = NO_OPTIONS) -> TopicState:
    return TopicState("t", ZERO_UUID, (OWN,) * count, config)


async def opened(data_dir: Path, *topics: TopicState, deleting: tuple[str, ...] = ()) -> Partitions:
    partitions = Partitions(CONFIG, LogManager([data_dir], CONFIG, SystemClock()), SystemClock())
    await partitions.open(ClusterSnapshot("", 0, (), {topic.name: topic for topic in topics}), deleting)
    return partitions


def append(partitions: Partitions, value: bytes) -> int:
    return partitions.get("t", 0).append_as_leader(produced(value), acks=1, now_ms=0).last_offset + 1


def test_records_are_there_and_shown_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        partitions = await opened(tmp_path, topic_of(1))
        append(partitions, b"x")
        await partitions.close()
        partitions = await opened(tmp_path, topic_of(1))
        assert partitions.get("t", 0).high_watermark == 1
        await partitions.close()

    asyncio.run(main())


def test_a_partition_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        partitions = await opened(tmp_path, topic_of(2))
        for name, number in (("t", 2), ("t", -1), ("u", 0), ("../t", 0)):
            assert partitions.find(name, number) is None
            with pytest.raises(KafkaError) as caught:
                partitions.get(name, number)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await partitions.close()

    asyncio.run(main())


def test_a_log_that_cannot_be_opened_is_a_storage_error_and_the_others_serve(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "t-0").write_text("in the way")
        partitions = Partitions(CONFIG, LogManager([tmp_path], CONFIG, SystemClock()), SystemClock())
        partitions.logs.failed = {topic_of(2).all_partitions[0]: "rotten"}
        await partitions.open(ClusterSnapshot("", 0, (), {"t": topic_of(2)}), ())
        with pytest.raises(StorageError, match="rotten"):
            partitions.get("t", 0)
        assert partitions.get("t", 1).high_watermark == 0
        await partitions.close()

    asyncio.run(main())


def test_folders_of_a_topic_that_is_being_deleted_go_and_those_of_unknown_ones_stay(tmp_path: Path) -> None:
    async def main() -> None:
        partitions = await opened(tmp_path, topic_of(1))
        await partitions.close()
        (tmp_path / "stranger-0").mkdir()
        partitions = await opened(tmp_path, deleting=("t",))
        await partitions.remove_obsolete_files()
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["stranger-0"]
        assert len(partitions) == 0
        await partitions.close()

    asyncio.run(main())


def test_whoever_waits_for_a_partition_is_woken_when_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = DiskGate(monkeypatch)

    async def main() -> None:
        topic = topic_of(1, {"flush.messages": "1"})
        partitions = await opened(tmp_path, topic)
        gate.begin()
        gate.close()
        partition = partitions.get("t", 0)
        waiting = partition.waiters.until_durable(append(partitions, b"x"))
        fetching = BytesWaiter(asyncio.get_running_loop())
        partition.waiters.for_bytes.add(fetching)
        await gate.arrival()
        removing = asyncio.create_task(partitions.remove_topic(topic))
        await asyncio.gather(waiting, fetching.done)
        assert partitions.find("t", 0) is None
        with pytest.raises(StorageError, match="deleted"):
            partition.read(0, 100, up_to=0)
        gate.open()
        await removing
        await partitions.close()

    asyncio.run(main())


def test_a_topic_that_is_created_again_is_flushed_by_its_own_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = DiskGate(monkeypatch)

    async def main() -> None:
        old, new = topic_of(1, {"flush.ms": "3600000"}), topic_of(1, {"flush.ms": "30"})
        partitions = await opened(tmp_path, old)
        append(partitions, b"old")
        await partitions.remove_topic(old)
        await partitions.add_topic(new)
        gate.begin()
        append(partitions, b"new")
        await gate.arrival()
        await partitions.close()

    asyncio.run(main())


def test_close_waits_for_the_flushes_under_way_and_flushes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = DiskGate(monkeypatch)

    async def main() -> None:
        partitions = await opened(tmp_path, topic_of(1, {"flush.messages": "1"}))
        gate.begin()
        gate.close()
        append(partitions, b"x")
        await gate.arrival()
        append(partitions, b"y")
        log = partitions.get("t", 0).log
        closing = asyncio.create_task(partitions.close())
        await asyncio.sleep(0)
        assert not closing.done()
        gate.open()
        await closing
        assert log.recovery_point == 2

    asyncio.run(main())


def test_upkeep_saves_what_has_changed_since_its_last_turn(tmp_path: Path) -> None:
    async def main() -> None:
        partitions = await opened(tmp_path, topic_of(2))
        upkeep = Upkeep(CONFIG, partitions)
        await upkeep.checkpoint()
        log = partitions.get("t", 0).log
        append(partitions, b"x")
        log.flush(0)
        assert log.checkpointed_to == 0
        await upkeep.checkpoint()
        assert log.checkpointed_to == 1
        await partitions.close()

    asyncio.run(main())


def test_upkeep_removes_segments_below_a_new_start(tmp_path: Path) -> None:
    async def main() -> None:
        partitions = await opened(tmp_path, topic_of(1, {"segment.bytes": "100"}))
        for _ in range(5):
            append(partitions, b"x" * 50)
        log = partitions.get("t", 0).log
        log.move_start(log.high_watermark)
        await Upkeep(CONFIG, partitions).retain()
        assert [path.name for path in log.folder.glob("*.log*")] == [f"{5:020d}.log"]
        await partitions.close()

    asyncio.run(main())
