"""Creating, changing and deleting topics: the metadata first, then the logs.

One change is made at a time, and each is made to its end though the client that asked for it goes away: so metadata and
logs agree between changes. Each is checked whole before anything is written, so `validate_only` is the same way without
its last step. A crash between metadata and logs is finished at the next start: missing logs are made, those of deleted
topics removed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from kafkalite.cluster.store import MetadataStore
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import TopicState, check_topic_name
from kafkalite.replication.manager import Partitions

T = TypeVar("T")

DEFAULT: Final = -1
"""For a number of partitions or replicas: what the broker's configuration says."""

ConfigChange = Callable[[TopicState], Mapping[str, str]]
"""What is to be set for a topic, made from what it is now."""


class Topics:
    """The topics of this broker."""

    def __init__(
        self, config: BrokerConfig, store: MetadataStore, partitions: Partitions, forget_offsets: Callable[[str], None]
    ) -> None:
        """`forget_offsets`: drop what groups have committed for a topic that is gone."""
        self._config = config
        self._store = store
        self._partitions = partitions
        self._forget_offsets = forget_offsets
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Open all logs, make those that a crash has kept from being made, and remove those of deleted topics."""
        await self._partitions.open(self._store.snapshot, self._store.deleting)
        await self._partitions.remove_obsolete_files()

    async def finish_deletions(self) -> None:
        """What is left of the deletions that a crash has cut off; groups must be loaded."""
        for name in self._store.deleting:
            await self._finish_deletion(name)

    async def close(self) -> None:
        """Wait for the changes that are under way."""
        if self._changes:
            await asyncio.wait(self._changes)

    # Which there are.

    def find(self, name: str) -> TopicState | None:
        return self._store.snapshot.topics.get(name)

    def get(self, name: str) -> TopicState:
        topic = self.find(name)
        if topic is None:
            check_topic_name(name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def get_by_id(self, topic_id: uuid.UUID) -> TopicState:
        for topic in self._store.snapshot.topics.values():
            if topic.topic_id == topic_id:
                return topic
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id}")

    # New ones.

    def check_new(
        self, name: str, partitions: int = DEFAULT, replication_factor: int = DEFAULT, config: Mapping[str, str] = {}
    ) -> int:
        """The number of partitions that a new topic would get; raises if it cannot be made."""
        check_topic_name(name)
        self._check_name_is_free(name)
        if partitions == DEFAULT:
            partitions = self._config.num_partitions
        if replication_factor == DEFAULT:
            replication_factor = self._config.default_replication_factor
        if partitions < 1:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"topic {name!r} needs at least 1 partition, not {partitions}"
            )
        brokers = len(self._store.snapshot.brokers)
        if not 1 <= replication_factor <= brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor} of topic {name!r}: it must be from 1 to {brokers}, "
                "the number of brokers",
            )
        self._check_room(partitions)
        self._config.topic_config(config)
        return partitions

    async def create(
        self, name: str, partitions: int = DEFAULT, replication_factor: int = DEFAULT, config: Mapping[str, str] = {}
    ) -> TopicState:
        """A new topic with its logs."""

        async def change() -> TopicState:
            count = self.check_new(name, partitions, replication_factor, config)
            topic = await self._store.create_topic(name, count, config)
            try:
                await self._partitions.add_topic(topic)
            except StorageError:
                # Without its logs it could neither be used nor be created again.
                await self._remove(name)
                raise
            return topic

        return await self._in_turn(change())

    def check_assignment(self, name: str, broker_ids: Sequence[int]) -> None:
        """Raises unless replicas that were assigned by hand are on brokers that there are: on this one."""
        known = [broker.node_id for broker in self._store.snapshot.brokers]
        if list(broker_ids) != known:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas of topic {name!r} are assigned to the brokers {list(broker_ids)}, there is only {known}",
            )

    def _check_name_is_free(self, name: str) -> None:
        """Kafka refuses names that differ in '.' and '_' only, as metrics cannot tell them apart; so do we."""
        if self.find(name) is not None:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
        alike = name.replace(".", "_")
        for other in self._store.snapshot.topics:
            if other.replace(".", "_") == alike:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"topic {name!r} differs from the existing {other!r} in '.' and '_' only; choose another name",
                )

    def _check_room(self, more: int) -> None:
        has, limit = len(self._partitions), self._config.max_partitions
        if has + more > limit:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the broker has {has} partitions, {more} more would exceed max.partitions={limit}",
            )

    # More partitions, other options.

    def check_more_partitions(self, name: str, total: int) -> None:
        has = len(self.get(name).partitions)
        if total <= has:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"topic {name!r} has {has} partitions; {total} is not more than that"
            )
        self._check_room(total - has)

    async def add_partitions(self, name: str, total: int) -> None:
        async def change() -> None:
            self.check_more_partitions(name, total)
            await self._partitions.add_topic(await self._store.add_partitions(name, total))

        await self._in_turn(change())

    def check_config(self, name: str, change: ConfigChange) -> Mapping[str, str]:
        """What would be set for a topic; raises if one of its options is not allowed."""
        changed = change(self.get(name))
        self._config.topic_config(changed)
        return changed

    async def change_config(self, name: str, change: ConfigChange) -> None:
        """Set a topic's options."""

        async def store_and_apply() -> None:
            changed = self.check_config(name, change)
            self._partitions.set_config(await self._store.set_config(name, changed))

        await self._in_turn(store_and_apply())

    # The end of one.

    async def delete(self, name: str) -> None:
        """Take a topic and its logs away."""
        await self._in_turn(self._remove(name))

    async def _remove(self, name: str) -> None:
        topic = await self._store.delete_topic(name)
        await self._partitions.remove_topic(topic)
        await self._finish_deletion(name)

    async def _finish_deletion(self, name: str) -> None:
        self._forget_offsets(name)
        await self._store.forget_deleted(name)

    async def _in_turn(self, change: Coroutine[Any, Any, T]) -> T:
        async def run() -> T:
            async with self._changing:
                return await change

        task = asyncio.create_task(run())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)
