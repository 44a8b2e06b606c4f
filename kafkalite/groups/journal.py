"""The journal of all groups: the internal, compacted topic `__consumer_offsets`, as Kafka lays it out.

A group's records are all in one partition, found by its name, so they are replayed in the order of their writing. The
topic is made when the first group needs it. The event loop owns the journal; only the reading of a replay leaves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from kafkalite.clock import Clock
from kafkalite.cluster.store import MetadataStore
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.groups.records import KeyValue
from kafkalite.groups.registry import UntilDurable
from kafkalite.model import OFFSETS_TOPIC, TopicState
from kafkalite.records.batch import split_batches
from kafkalite.records.rows import Row, encode_rows, iter_rows
from kafkalite.replication.manager import Partitions
from kafkalite.replication.partition import ACKS_ALL, Partition
from kafkalite.storage.disk import FileRange
from kafkalite.storage.reading import DECOMPRESSED_LIMIT

_REPLAY_BYTES: Final = 1 << 20

_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    # Every start reads the whole topic, and the last segment of a partition is never compacted: Kafka's 100 MiB would
    # make a restart slow.
    "segment.bytes": str(4 << 20),
}


class OffsetsTopic:
    """The `Journal` of a broker."""

    def __init__(self, config: BrokerConfig, clock: Clock, store: MetadataStore, partitions: Partitions) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._partitions = partitions
        self._creating = asyncio.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether the topic is there to be appended to."""
        return self._partitions.find(OFFSETS_TOPIC, 0) is not None

    async def ensure(self) -> None:
        """Make the topic if it is missing."""
        async with self._creating:
            if self.is_ready:
                return
            topic = self._topic
            if topic is None:
                count = self._config.offsets_topic_num_partitions
                topic = await self._store.create_topic(OFFSETS_TOPIC, count, _TOPIC_CONFIG)
            await self._partitions.add_topic(topic)

    @property
    def _topic(self) -> TopicState | None:
        return self._store.snapshot.topics.get(OFFSETS_TOPIC)

    def append(self, group_id: str, records: Sequence[KeyValue]) -> UntilDurable | None:
        """Write a group's records as one batch."""
        topic = self._topic
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {OFFSETS_TOPIC} yet")
        partition = self._partitions.get(OFFSETS_TOPIC, partition_for(group_id, len(topic.partitions)))
        now_ms = self._clock.now_ms()
        batch = encode_rows([Row(index, now_ms, key, value) for index, (key, value) in enumerate(records)])
        end_offset = partition.append_as_leader(batch, acks=ACKS_ALL, now_ms=now_ms).last_offset + 1
        return None if end_offset <= partition.durable_to else partial(_until_durable, partition, end_offset)

    async def replay(self) -> AsyncIterator[Sequence[tuple[bytes | None, bytes | None]]]:
        """All records, in chunks; raises if a part of the topic cannot be read."""
        topic = self._topic
        for key in [] if topic is None else topic.all_partitions:
            partition = self._partitions.get(*key)
            offset, end_offset = partition.log.log_start_offset, partition.log.log_end_offset
            while offset < end_offset:
                ranges = partition.read(offset, _REPLAY_BYTES, up_to=end_offset)
                if not ranges:
                    break
                records, offset = await asyncio.to_thread(_read, ranges, offset)
                yield records


def partition_for(group_id: str, count: int) -> int:
    """The partition of a group, as Kafka computes it: the absolute value of Java's `String.hashCode`, modulo."""
    code = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    signed = code - (1 << 32) if code >> 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % count


async def _until_durable(partition: Partition, end_offset: int) -> None:
    await partition.waiters.until_durable(end_offset)
    if end_offset > partition.durable_to:
        raise StorageError(f"{partition.id} went away before offset {end_offset} was on disk")


def _read(ranges: list[FileRange], offset: int) -> tuple[list[tuple[bytes | None, bytes | None]], int]:
    """The records of whole batches, and the offset after them."""
    records: list[tuple[bytes | None, bytes | None]] = []
    for found in ranges:
        for batch in split_batches(found.read()):
            offset = batch.next_offset
            if not batch.is_control:
                records += [(row.key, row.value) for row in iter_rows(batch, limit=DECOMPRESSED_LIMIT)]
    return records, offset
