"""The metadata of a broker that stands alone: one JSON file in its data folder, replaced atomically, with a checksum.

Changes are made one after the other; each is on disk before it is shown. A damaged file is refused at the start
rather than guessed at: without it the broker does not know which folders are topics.
"""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from crc32c import crc32c

from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import BrokerInfo, ClusterSnapshot, PartitionState, TopicState
from kafkalite.storage import disk, layout

_FORMAT: Final = 1
_PRODUCER_ID_BLOCK: Final = 1_000
"""Producer ids are taken from the file by the block, so that handing one out costs no write."""


@dataclass(frozen=True, slots=True)
class _State:
    cluster_id: str
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    deleting: frozenset[str] = frozenset()
    producer_ids_taken: int = 0


class LocalStore:
    """The embedded `MetadataStore`. `broker` is told once the listener knows its port."""

    def __init__(self, data_dir: Path, node_id: int) -> None:
        """Read the file, or begin a new cluster. Blocking."""
        self._path = layout.cluster_file(data_dir)
        self._node_id = node_id
        self._own_partition = PartitionState(node_id, 0, (node_id,), (node_id,))
        self._brokers: tuple[BrokerInfo, ...] = ()
        self._changing = asyncio.Lock()
        self._next_producer_id = self._producer_ids_end = 0
        found = _read(self._path, self._own_partition)
        if found is None:
            found = _State(cluster_id=_new_cluster_id())
            _write(self._path, found)
        self._show(found)

    def set_broker(self, broker: BrokerInfo) -> None:
        self._brokers = (broker,)
        self._show(self._state)

    def _show(self, state: _State) -> None:
        self._state = state
        self.snapshot = ClusterSnapshot(state.cluster_id, self._node_id, self._brokers, state.topics)

    @property
    def deleting(self) -> frozenset[str]:
        return self._state.deleting

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        async with self._changing:
            if name in self._state.topics or name in self._state.deleting:
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
            self._check_no_twin(name)
            topic = TopicState(name, uuid.uuid4(), (self._own_partition,) * partitions, dict(config))
            return await self._put(topic)

    async def add_partitions(self, name: str, total: int) -> TopicState:
        async with self._changing:
            topic = self._topic(name)
            if total <= len(topic.partitions):
                raise KafkaError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"topic {name!r} has {len(topic.partitions)} partitions; {total} is not more than that",
                )
            added = (self._own_partition,) * (total - len(topic.partitions))
            return await self._put(replace(topic, partitions=topic.partitions + added))

    async def set_config(self, name: str, config: Mapping[str, str]) -> TopicState:
        async with self._changing:
            return await self._put(replace(self._topic(name), config=dict(config)))

    async def delete_topic(self, name: str) -> TopicState:
        async with self._changing:
            topic = self._topic(name)
            rest = {other: state for other, state in self._state.topics.items() if other != name}
            await self._save(replace(self._state, topics=rest, deleting=self._state.deleting | {name}))
            return topic

    async def forget_deleted(self, name: str) -> None:
        async with self._changing:
            await self._save(replace(self._state, deleting=self._state.deleting - {name}))

    async def next_producer_id(self) -> int:
        async with self._changing:
            if self._next_producer_id == self._producer_ids_end:
                first = self._state.producer_ids_taken
                await self._save(replace(self._state, producer_ids_taken=first + _PRODUCER_ID_BLOCK))
                self._next_producer_id, self._producer_ids_end = first, first + _PRODUCER_ID_BLOCK
            self._next_producer_id += 1
            return self._next_producer_id - 1

    def _topic(self, name: str) -> TopicState:
        topic = self._state.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def _check_no_twin(self, name: str) -> None:
        """Kafka refuses names that differ in '.' and '_' only, as metrics cannot tell them apart; so do we."""
        alike = name.replace(".", "_")
        for other in self._state.topics:
            if other.replace(".", "_") == alike:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"topic {name!r} differs from the existing {other!r} in '.' and '_' only; choose another name",
                )

    async def _put(self, topic: TopicState) -> TopicState:
        await self._save(replace(self._state, topics={**self._state.topics, topic.name: topic}))
        return topic

    async def _save(self, state: _State) -> None:
        await asyncio.to_thread(_write, self._path, state)
        self._show(state)


def _new_cluster_id() -> str:
    """22 characters of URL-safe base64, as Kafka's are."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _write(path: Path, state: _State) -> None:
    body = {
        "format": _FORMAT,
        "cluster_id": state.cluster_id,
        "producer_ids_taken": state.producer_ids_taken,
        "deleting": sorted(state.deleting),
        "topics": {
            topic.name: {"id": str(topic.topic_id), "partitions": len(topic.partitions), "config": dict(topic.config)}
            for topic in state.topics.values()
        },
    }
    text = json.dumps(body, indent=1) + "\n"
    try:
        disk.replace(path, (text + f"crc32c {crc32c(text.encode()):08x}\n").encode())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error}") from error


def _read(path: Path, own: PartitionState) -> _State | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    body, _, checksum = content.removesuffix(b"\n").rpartition(b"\n")
    text = body + b"\n"
    if checksum != f"crc32c {crc32c(text):08x}".encode():
        raise StorageError(f"{path} is damaged: its checksum is wrong. Restore it from a backup")
    parsed = json.loads(text)
    if parsed["format"] != _FORMAT:
        raise StorageError(f"{path} has the format {parsed['format']}, this version reads {_FORMAT}; update kafkalite")
    topics = {
        name: TopicState(name, uuid.UUID(topic["id"]), (own,) * topic["partitions"], topic["config"])
        for name, topic in parsed["topics"].items()
    }
    return _State(parsed["cluster_id"], topics, frozenset(parsed["deleting"]), parsed["producer_ids_taken"])
