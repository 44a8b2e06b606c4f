from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalite.clock import SystemClock
from kafkalite.cluster.local_store import LocalStore
from kafkalite.config import BrokerConfig
from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.groups.journal import OffsetsTopic, partition_for
from kafkalite.groups.records import CommittedOffset, OffsetRow, encode_row
from kafkalite.model import OFFSETS_TOPIC, TopicPartition
from kafkalite.replication.manager import Partitions
from kafkalite.storage.manager import LogManager
from tests.unit.groups.coordinator_rig import stable, sync

CONFIG = BrokerConfig()
T0 = TopicPartition("t", 0)


class Parts(NamedTuple):
    journal: OffsetsTopic
    store: LocalStore
    partitions: Partitions


@asynccontextmanager
async def opened(folder: Path, config: BrokerConfig = CONFIG) -> AsyncIterator[Parts]:
    """The journal of a data folder, as a broker opens it."""
    clock = SystemClock()
    partitions = Partitions(config, LogManager([folder], config, clock), clock)
    store = LocalStore(folder, config.node_id)
    await partitions.open(store.snapshot, store.deleting)
    try:
        yield Parts(OffsetsTopic(config, clock, store, partitions), store, partitions)
    finally:
        await partitions.close()


async def all_records(journal: OffsetsTopic) -> list[tuple[bytes | None, bytes | None]]:
    return [record async for chunk in journal.replay() for record in chunk]


@pytest.mark.parametrize(
    ("group_id", "count", "partition"),
    [
        # The values of Java's "…".hashCode(), as its documentation defines it.
        ("", 50, 0),
        ("a", 50, 97 % 50),
        ("ab", 50, (97 * 31 + 98) % 50),
        ("hello", 50, 99162322 % 50),
        ("polygenelubricants", 50, 0),  # Integer.MIN_VALUE, whose absolute value is none
        ("Hello World", 50, 862545276 % 50),  # its code is negative
        ("\N{GRINNING FACE}", 50, (0xD83D * 31 + 0xDE00) % 50),
    ],
)
def test_a_groups_partition_is_the_one_that_kafka_computes(group_id: str, count: int, partition: int) -> None:
    assert partition_for(group_id, count) == partition


def test_every_partition_number_exists() -> None:
    assert {partition_for(f"group-{index}", 8) for index in range(200)} == set(range(8))


def test_the_topic_is_made_once_when_it_is_first_needed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (journal, store, _):
            assert await all_records(journal) == []
            assert not journal.is_ready
            with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
                journal.append("g", [(b"k", b"v")])
            await asyncio.gather(*(journal.ensure() for _ in range(5)))
            assert journal.is_ready
            topic = store.snapshot.topics[OFFSETS_TOPIC]
            assert len(topic.partitions) == CONFIG.offsets_topic_num_partitions
            assert topic.config["cleanup.policy"] == "compact"

    asyncio.run(scenario())


def test_records_are_replayed_in_order_after_a_restart(tmp_path: Path) -> None:
    written = [(b"key-%d" % (index % 7), b"value-%d" % index) for index in range(500)]

    async def write() -> None:
        async with opened(tmp_path) as (journal, _, partitions):
            await journal.ensure()
            for start in range(0, 500, 10):
                assert journal.append("g", written[start : start + 10]) is None
            journal.append("h", [(b"deleted", None)])
            assert len({partition.id for partition in partitions if partition.log.log_end_offset}) == 2

    async def read() -> None:
        async with opened(tmp_path) as (journal, _, _):
            assert journal.is_ready
            records = await all_records(journal)
            assert [record for record in records if record[0] != b"deleted"] == written
            assert (b"deleted", None) in records

    asyncio.run(write())
    asyncio.run(read())


def test_a_flush_setting_makes_an_append_wait_for_the_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = BrokerConfig.from_strings({"flush.messages": "1"})
        async with opened(tmp_path, config) as (journal, _, partitions):
            await journal.ensure()
            until_durable = journal.append("g", [(b"k", b"v")])
            assert until_durable is not None
            await asyncio.wait_for(until_durable(), 10)
            partition = next(each for each in partitions if each.log.log_end_offset)
            assert partition.log.recovery_point == 1

    asyncio.run(scenario())


def test_too_large_a_commit_is_refused_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (journal, _, _):
            await journal.ensure()
            with pytest.raises(KafkaError) as refused:
                journal.append("g", [(b"k", bytes(2 << 20))])
            assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert await all_records(journal) == []

    asyncio.run(scenario())


def test_groups_and_offsets_survive_a_restart_of_the_whole_storage(tmp_path: Path) -> None:
    committed = CommittedOffset(42, 3, "note", SystemClock().now_ms())

    async def write() -> None:
        async with opened(tmp_path) as (journal, _, _):
            groups = GroupCoordinator(CONFIG, SystemClock(), journal)
            groups.start()
            await groups.loaded()
            generation = await stable(groups, "g", "a")
            assert groups.commit("g", "a", None, generation, {T0: committed}) is ErrorCode.NONE
            await groups.stop()

    async def read() -> None:
        async with opened(tmp_path) as (journal, _, _):
            groups = GroupCoordinator(CONFIG, SystemClock(), journal)
            groups.start()
            await groups.loaded()
            assert groups.offsets_of("g") == {T0: committed}
            assert (await sync(groups, "g", "a", 1)).assignment == b"all"
            await groups.stop()

    asyncio.run(write())
    asyncio.run(read())


def test_a_rotten_journal_is_refused_not_skipped(tmp_path: Path) -> None:
    row = encode_row(OffsetRow("g", T0, CommittedOffset(1, -1, "", 0)))

    async def write() -> None:
        async with opened(tmp_path) as (journal, _, _):
            await journal.ensure()
            for _ in range(20):
                journal.append("g", [row])

    async def read() -> None:
        async with opened(tmp_path) as (journal, _, _):
            with pytest.raises(CorruptBatch):
                await all_records(journal)

    asyncio.run(write())
    rotten = next(path for path in tmp_path.glob(f"{OFFSETS_TOPIC}-*/*.log") if path.stat().st_size)
    content = bytearray(rotten.read_bytes())
    content[len(content) // 2] ^= 0xFF
    rotten.write_bytes(content)
    asyncio.run(read())
