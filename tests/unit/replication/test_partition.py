"""What a partition acknowledges and shows, and when: never before it is as durable as its topic asks for (P2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkalite.clock import SystemClock
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import ClusterSnapshot, PartitionState, TopicState
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.replication.manager import Partitions
from kafkalite.replication.partition import ACKS_ALL, Partition
from kafkalite.replication.waiters import BytesWaiter
from kafkalite.storage.manager import LogManager
from tests.support.produced import produced
from tests.unit.replication.disk_gate import DiskGate

Scenario = Callable[[Partition, Partitions], Awaitable[None]]


def topic_of(config: dict[str, str], leader_epoch: int = 0) -> TopicState:
    return TopicState("t", ZERO_UUID, (PartitionState(0, leader_epoch, (0,), (0,)),), config)


def run(data_dir: Path, scenario: Scenario, *, leader_epoch: int = 0, **options: str) -> None:
    """The scenario with one partition of a topic that has these options."""
    topic = topic_of({name.replace("_", "."): value for name, value in options.items()}, leader_epoch)

    async def main() -> None:
        broker = BrokerConfig()
        partitions = Partitions(broker, LogManager([data_dir], broker, SystemClock()), SystemClock())
        await partitions.open(ClusterSnapshot("", 0, (), {"t": topic}), ())
        try:
            await scenario(partitions.get("t", 0), partitions)
        finally:
            await partitions.close()

    asyncio.run(main())


def append(partition: Partition, *values: bytes, acks: int = ACKS_ALL) -> int:
    """The offset after the batch."""
    return partition.append_as_leader(produced(*values), acks=acks, now_ms=SystemClock().now_ms()).last_offset + 1


async def acknowledged(partition: Partition, end_offset: int) -> None:
    if end_offset > partition.durable_to:
        await partition.waiters.until_durable(end_offset)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> DiskGate:
    return DiskGate(monkeypatch)


def test_without_flush_settings_a_record_is_shown_and_acknowledged_at_once(tmp_path: Path, gate: DiskGate) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        end_offset = append(partition, b"a", b"b")
        assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
        assert partition.durable_to >= end_offset
        assert len(partition.read(0, 1000, up_to=2)) == 1
        assert gate.passed == 0

    run(tmp_path, scenario)


def test_with_flush_messages_1_nothing_is_shown_or_acknowledged_before_the_fsync(
    tmp_path: Path, gate: DiskGate
) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        gate.close()
        waiting = partition.waiters.until_durable(append(partition, b"a"))
        await gate.arrival()
        assert partition.high_watermark == 0
        assert partition.durable_to == 0
        assert partition.read(0, 1000, up_to=partition.high_watermark) == []
        assert not waiting.done()
        gate.open()
        await waiting
        assert (partition.high_watermark, partition.durable_to) == (1, 1)

    run(tmp_path, scenario, flush_messages="1")


def test_one_fsync_acknowledges_all_that_came_before_it_and_the_next_one_the_rest(
    tmp_path: Path, gate: DiskGate
) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        gate.close()
        first = partition.waiters.until_durable(append(partition, b"a"))
        await gate.arrival()
        rest = [partition.waiters.until_durable(append(partition, b"b")) for _ in range(10)]
        gate.open()
        await first
        await asyncio.gather(*rest)
        assert (gate.passed, partition.high_watermark) == (2, 11)

    run(tmp_path, scenario, flush_messages="1")


def test_with_flush_messages_n_fewer_than_n_records_may_be_unflushed_when_one_is_acknowledged(
    tmp_path: Path, gate: DiskGate
) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        gate.close()
        for number in (1, 2):
            assert append(partition, b"%d" % number) <= partition.durable_to
        assert partition.high_watermark == 0, "what is not flushed is not shown"
        end_offset = append(partition, b"3")
        await gate.arrival()
        assert end_offset > partition.durable_to
        gate.open()
        await acknowledged(partition, end_offset)
        assert (gate.passed, partition.high_watermark, partition.durable_to) == (1, 3, 5)

    run(tmp_path, scenario, flush_messages="3")


def test_flush_ms_flushes_and_shows_what_nobody_follows_up(tmp_path: Path, gate: DiskGate) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        shown = BytesWaiter(asyncio.get_running_loop())
        partition.waiters.for_bytes.add(shown)
        append(partition, b"a")
        assert partition.high_watermark == 0
        await asyncio.wait_for(shown.done, 10)
        assert (gate.passed, partition.high_watermark) == (1, 1)

    run(tmp_path, scenario, flush_ms="30")


def test_flush_ms_0_is_an_fsync_for_every_append(tmp_path: Path, gate: DiskGate) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        end_offset = append(partition, b"a")
        assert end_offset > partition.durable_to
        await acknowledged(partition, end_offset)
        assert (gate.passed, partition.high_watermark) == (1, 1)

    run(tmp_path, scenario, flush_ms="0")


def test_a_failed_fsync_takes_the_log_offline_and_wakes_whoever_waits_to_the_error(
    tmp_path: Path, gate: DiskGate
) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        gate.begin()
        await acknowledged(partition, append(partition, b"good"))
        await gate.arrival()
        gate.close()
        gate.error = OSError("Input/output error")
        waiting = partition.waiters.until_durable(append(partition, b"lost"))
        fetching = BytesWaiter(asyncio.get_running_loop())
        partition.waiters.for_bytes.add(fetching)
        await gate.arrival()
        gate.open()
        await asyncio.gather(waiting, fetching.done)
        assert partition.log.offline_reason is not None
        assert (partition.high_watermark, partition.durable_to) == (1, 1), "what was lost is neither shown nor counted"
        with pytest.raises(StorageError, match="Input/output error"):
            append(partition, b"more")
        with pytest.raises(StorageError, match="offline"):
            partition.read(1, 1000, up_to=1)

    run(tmp_path, scenario, flush_messages="1")


def test_acks_all_needs_min_insync_replicas_and_other_acks_do_not(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        with pytest.raises(KafkaError, match=r"min\.insync\.replicas is 2") as caught:
            append(partition, b"a", acks=ACKS_ALL)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end_offset == 0
        assert append(partition, b"a", acks=1) == 1

    run(tmp_path, scenario, min_insync_replicas="2")


@pytest.mark.parametrize(
    ("asked", "code"),
    [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_client_that_has_seen_another_leader_is_told_which_way(
    tmp_path: Path, asked: int, code: ErrorCode | None
) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        if code is None:
            partition.check_leader_epoch(asked)
            return
        with pytest.raises(KafkaError) as caught:
            partition.check_leader_epoch(asked)
        assert caught.value.code is code

    run(tmp_path, scenario, leader_epoch=5)


def test_batches_carry_the_leaders_epoch(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        append(partition, b"a")
        assert partition.log.epochs.end_offset_of(5, partition.log.log_end_offset) == (5, 1)

    run(tmp_path, scenario, leader_epoch=5)


def test_a_duplicate_is_answered_with_its_first_offset_and_shows_nothing_new(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        first, again = (
            partition.append_as_leader(
                produced(b"a", producer_id=1, producer_epoch=0, base_sequence=0), acks=ACKS_ALL, now_ms=0
            )
            for _ in range(2)
        )
        assert (first.base_offset, again.base_offset, again.is_duplicate) == (0, 0, True)
        assert partition.high_watermark == 1

    run(tmp_path, scenario)


def test_a_waiting_fetch_is_woken_by_enough_bytes_only(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Partitions) -> None:
        size = len(produced(b"a"))
        waiter = BytesWaiter(asyncio.get_running_loop())
        waiter.missing_bytes = 2 * size
        partition.waiters.for_bytes.add(waiter)
        append(partition, b"a")
        assert not waiter.done.done()
        append(partition, b"b")
        assert waiter.done.done()

    run(tmp_path, scenario)


def test_options_that_ask_for_less_durability_show_and_acknowledge_what_waits(tmp_path: Path, gate: DiskGate) -> None:
    async def scenario(partition: Partition, partitions: Partitions) -> None:
        gate.begin()
        append(partition, b"a")
        assert partition.high_watermark == 0
        partitions.set_config(topic_of({}))
        assert (partition.high_watermark, gate.passed) == (1, 0)

    run(tmp_path, scenario, flush_messages="10")


def test_options_that_ask_for_more_durability_flush_what_is_there(tmp_path: Path, gate: DiskGate) -> None:
    async def scenario(partition: Partition, partitions: Partitions) -> None:
        gate.begin()
        end_offset = append(partition, b"a")
        partitions.set_config(topic_of({"flush.messages": "1"}))
        await acknowledged(partition, end_offset)
        assert (gate.passed, partition.log.recovery_point) == (1, 1)

    run(tmp_path, scenario)


def test_a_shorter_flush_ms_holds_for_what_waits_already(tmp_path: Path, gate: DiskGate) -> None:
    async def scenario(partition: Partition, partitions: Partitions) -> None:
        gate.begin()
        append(partition, b"a")
        partitions.set_config(topic_of({"flush.ms": "30"}))
        await gate.arrival()

    run(tmp_path, scenario, flush_ms="3600000")
