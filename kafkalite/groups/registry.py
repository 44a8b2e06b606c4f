"""The groups of this broker and their offsets in memory, and the journal that they are kept in.

Invariant: what is removed or added here was appended to the journal first; an append that fails changes nothing. Every
group that has committed offsets is in the registry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from kafkalite.clock import Clock
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.groups.group import Group, GroupState
from kafkalite.groups.offsets import OffsetTable, Replayed, expired_offsets
from kafkalite.groups.records import CommittedOffset, GroupMetadata, GroupRow, KeyValue, OffsetRow, Row, encode_row
from kafkalite.model import TopicPartition

logger = logging.getLogger(__name__)

_SWEEP_PAUSE_SECONDS: Final = 1.0
"""How often, at most, a new group above the limit makes the coordinator look for groups that nobody needs."""

_JOURNAL_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""What the client of a group is told when its journal cannot be written, as Kafka does."""


UntilDurable: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until what was written is as durable as its topic's flush settings say; to be called at once or never."""


class Journal(Protocol):
    """Where groups and offsets are kept; `journal.OffsetsTopic` in a broker."""

    @property
    def is_ready(self) -> bool: ...

    async def ensure(self) -> None:
        """Make the journal if it is missing."""

    def append(self, group_id: str, records: Sequence[KeyValue]) -> UntilDurable | None:
        """Write at once, or raise `KafkaError`. None: the records are as durable as they have to be already."""

    def replay(self) -> AsyncIterator[Sequence[tuple[bytes | None, bytes | None]]]:
        """All that was written, in chunks."""


@dataclass(slots=True, eq=False)
class Entry:
    """A group and its timer; `empty_since_ms` is wall time, -1 while it has members or if it never had any."""

    group: Group
    empty_since_ms: int = -1
    timer: asyncio.TimerHandle | None = None
    timer_at_ms: int = 0


class GroupRegistry:
    """All groups by their ids, and all committed offsets."""

    def __init__(self, config: BrokerConfig, clock: Clock, journal: Journal) -> None:
        self._config = config
        self._clock = clock
        self.journal = journal
        self._entries: dict[str, Entry] = {}
        self.offsets = OffsetTable()
        self._swept_at: float | None = None

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def find(self, group_id: str) -> Entry | None:
        return self._entries.get(group_id)

    async def load(self) -> None:
        """Replay the journal; raises if a part of it cannot be read."""
        state = Replayed()
        async for records in self.journal.replay():
            await asyncio.to_thread(state.take, records)
        now_ms = int(self._clock.monotonic() * 1000)
        self.offsets = state.offsets
        for group_id, stored in state.groups.items():
            empty_since_ms = -1 if stored.members else stored.current_state_timestamp
            self._entries[group_id] = Entry(
                Group.restore(group_id, stored, now_ms, **self._group_settings), empty_since_ms
            )
        for group_id in state.offsets.groups():
            if group_id not in self._entries:
                self._entries[group_id] = Entry(Group(group_id, **self._group_settings))
        if self._entries or state.skipped:
            logger.info("%d groups loaded, %d records skipped", len(self._entries), state.skipped)

    def add(self, group_id: str) -> Entry:
        """A new group, which is not in the journal until it has something to keep; raises if there are too many."""
        self._check_room(group_id)
        entry = self._entries[group_id] = Entry(Group(group_id, **self._group_settings))
        return entry

    def _check_room(self, group_id: str) -> None:
        limit = self._config.max_groups
        if len(self._entries) < limit:
            return
        now = self._clock.monotonic()
        if self._swept_at is None or now - self._swept_at >= _SWEEP_PAUSE_SECONDS:
            self._swept_at = now
            for entry in [each for name, each in self._entries.items() if name not in self.offsets.groups()]:
                self.remove_offsets(entry, (), and_if_useless_the_group=True)
            if len(self._entries) >= limit:
                logger.warning("group %r is refused: there are max.groups=%d groups already", group_id, limit)
        if len(self._entries) >= limit:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"there are max.groups={limit} groups already")

    @property
    def _group_settings(self) -> dict[str, int]:
        config = self._config
        return {
            "initial_rebalance_delay_ms": config.group_initial_rebalance_delay_ms,
            "max_size": config.group_max_size,
        }

    # ---------------------------------------------------------------- changes that the journal keeps

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> UntilDurable | None:
        """Keep these positions, of a group that may be new; what is given back waits until they are durable."""
        if group_id not in self._entries:
            self._check_room(group_id)
        durable = self._append(group_id, [OffsetRow(group_id, *each) for each in offsets.items()])
        if group_id not in self._entries:
            self.add(group_id)
        for partition, committed in offsets.items():
            self.offsets.put(group_id, partition, committed)
        return durable

    def store(self, entry: Entry, metadata: GroupMetadata) -> None:
        """Keep a generation."""
        metadata.current_state_timestamp = self._clock.now_ms()
        entry.empty_since_ms = -1 if metadata.members else metadata.current_state_timestamp
        self._append(entry.group.group_id, [GroupRow(entry.group.group_id, metadata)])

    def forget_topic(self, topic: str) -> None:
        """Remove every group's positions in a topic."""
        for group_id, partitions in self.offsets.of_topic(topic):
            try:
                self.remove_offsets(self._entries[group_id], partitions)
            except KafkaError as error:
                logger.warning("group %r keeps positions in the deleted topic %r: %s", group_id, topic, error)

    def remove_expired(self, entry: Entry) -> None:
        """Forget the group's positions that are past their retention, and the group if it is empty and has no other."""
        try:
            self.remove_offsets(entry, self._expired_offsets(entry), and_if_useless_the_group=True)
        except KafkaError as error:
            logger.warning("group %r keeps what has expired: %s", entry.group.group_id, error)

    def _expired_offsets(self, entry: Entry) -> list[TopicPartition]:
        group = entry.group
        keep_topics: set[str] | None = set()
        if group.state is not GroupState.EMPTY:
            keep_topics = group.subscribed_topics() if group.state is GroupState.STABLE else None
        if keep_topics is None:
            return []
        return expired_offsets(
            self.offsets.of(group.group_id),
            now_ms=self._clock.now_ms(),
            retention_ms=self._config.offsets_retention_minutes * 60_000,
            empty_since_ms=entry.empty_since_ms,
            keep_topics=keep_topics,
        )

    def remove_offsets(
        self, entry: Entry, partitions: Iterable[TopicPartition], *, and_if_useless_the_group: bool = False
    ) -> None:
        """Forget these positions; an empty group that has no other and waits for nobody may go with them."""
        group = entry.group
        committed = self.offsets.of(group.group_id)
        removed = [partition for partition in partitions if partition in committed]
        is_useless = group.state is GroupState.EMPTY and not group.has_pending_members
        with_group = and_if_useless_the_group and is_useless and len(removed) == len(committed)
        rows: list[Row] = [OffsetRow(group.group_id, partition, None) for partition in removed]
        if with_group and group.generation_id > 0:
            rows.append(GroupRow(group.group_id, None))
        if rows:
            self._append(group.group_id, rows)
        self.offsets.remove(group.group_id, removed)
        if with_group:
            group.kill()
            del self._entries[group.group_id]
            if entry.timer is not None:
                entry.timer.cancel()

    def _append(self, group_id: str, rows: Iterable[Row]) -> UntilDurable | None:
        return self.journal.append(group_id, [encode_row(row) for row in rows])


def answer_for(error: KafkaError) -> ErrorCode:
    """What the client of a group is told of an error of its journal."""
    return _JOURNAL_ERRORS.get(error.code, error.code)
