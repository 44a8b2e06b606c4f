"""The group coordinator: the requests of clients to groups, on the event loop, with parked futures and timers.

What happens to a group is decided by `Group`; what is kept, and where, is `registry`'s. JoinGroup and SyncGroup are
parked until the group answers them; each group has one timer. A commit is answered when it is in the journal.

Until the journal is replayed, requests are answered with COORDINATOR_LOAD_IN_PROGRESS; if it cannot be, with
COORDINATOR_NOT_AVAILABLE, because a group that lost its positions would silently read from somewhere else. A group
beyond `max.groups` is refused with GROUP_MAX_SIZE_REACHED, which clients do not retry.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Collection, Iterable, Mapping
from enum import Enum, auto
from typing import Final

from kafkalite.clock import Clock
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.groups.group import Group, GroupState
from kafkalite.groups.member import Answer, Assigned, Effect, Join, JoinResult, Store, SyncResult
from kafkalite.groups.records import CommittedOffset
from kafkalite.groups.registry import Entry, GroupRegistry, Journal, answer_for
from kafkalite.groups.roster import CONSUMER_PROTOCOL_TYPE
from kafkalite.model import TopicPartition

logger = logging.getLogger(__name__)


class _Status(Enum):
    LOADING = auto()
    READY = auto()
    FAILED = auto()
    STOPPED = auto()


_STATUS_ERRORS: Final = {
    _Status.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    _Status.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    _Status.STOPPED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class GroupCoordinator:
    """All groups of this broker."""

    def __init__(self, config: BrokerConfig, clock: Clock, journal: Journal) -> None:
        self._config = config
        self._clock = clock
        self._journal = journal
        self._registry = GroupRegistry(config, clock, journal)
        self._status = _Status.LOADING
        self._parked: dict[int, asyncio.Future[JoinResult | SyncResult]] = {}
        self._tickets = itertools.count()
        self._task: asyncio.Task[None] | None = None
        self._loaded = asyncio.Event()
        self.completed_rebalances = 0

    # ---------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Begin to replay the journal; requests are answered meanwhile."""
        self._task = asyncio.create_task(self._run())

    async def loaded(self) -> None:
        """Wait until the journal is replayed, or cannot be."""
        await self._loaded.wait()

    async def stop(self) -> None:
        """Let go of everything that waits; members find their group again after the next start."""
        self._status = _Status.STOPPED
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for entry in self._registry:
            if entry.timer is not None:
                entry.timer.cancel()
        for parked in self._parked.values():
            if not parked.done():
                parked.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops"))

    async def _run(self) -> None:
        try:
            await self._registry.load()
        except Exception:
            self._status = _Status.FAILED
            logger.exception("groups cannot be used, because their journal cannot be read")
            return
        else:
            self._status = _Status.READY
        finally:
            self._loaded.set()
        now_ms = self._monotonic_ms()
        for entry in self._registry:
            self._arm(entry, now_ms)
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            try:
                await self.expire_offsets()
            except Exception:
                logger.exception("looking for expired offsets failed; it is tried again")

    # ---------------------------------------------------------------- members

    async def join(self, group_id: str, join: Join) -> JoinResult:
        """JoinGroup. Waits until the group's next generation is complete."""
        try:
            entry = await self._entry_for_join(group_id, join)
            ticket, now_ms = next(self._tickets), self._monotonic_ms()
            result = await self._answer_to(ticket, entry, entry.group.join(join, ticket, now_ms), now_ms)
        except KafkaError as error:
            return JoinResult(answer_for(error), join.member_id)
        assert isinstance(result, JoinResult)
        return result

    async def _entry_for_join(self, group_id: str, join: Join) -> Entry:
        error = self.refusal(group_id)
        if error is ErrorCode.NONE and not self._journal.is_ready:
            await self._journal.ensure()
            error = self.refusal(group_id)
        shortest, longest = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if error is ErrorCode.NONE and not shortest <= join.session_timeout_ms <= longest:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        entry = self._registry.find(group_id)
        if error is ErrorCode.NONE and entry is None and join.member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"group {group_id!r}: {join.member_id!r} cannot join")
        return entry or self._registry.add(group_id)

    async def sync(
        self,
        group_id: str,
        *,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Mapping[str, bytes],
    ) -> SyncResult:
        """SyncGroup. Waits until the leader has given its assignment."""
        error = self.refusal(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Older clients do not expect that error here; this one makes them join again (as Kafka does).
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        entry = self._registry.find(group_id)
        if error is not ErrorCode.NONE or entry is None:
            return SyncResult(error or ErrorCode.UNKNOWN_MEMBER_ID)
        ticket, now_ms = next(self._tickets), self._monotonic_ms()
        effects = entry.group.sync(
            ticket,
            now_ms,
            generation_id=generation_id,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments,
        )
        try:
            result = await self._answer_to(ticket, entry, effects, now_ms)
        except KafkaError as failure:
            return SyncResult(failure.code)
        assert isinstance(result, SyncResult)
        return result

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Heartbeat."""
        error = self.refusal(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # clients do not expect it, and nobody's session runs yet (as Kafka does)
        entry = self._registry.find(group_id)
        if error is not ErrorCode.NONE or entry is None:
            return error or ErrorCode.UNKNOWN_MEMBER_ID
        return entry.group.heartbeat(member_id, instance_id, generation_id, self._monotonic_ms())

    def leave(self, group_id: str, member_id: str, instance_id: str | None) -> ErrorCode:
        """LeaveGroup for one member; whether the group may be used at all, `refusal` says."""
        entry = self._registry.find(group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        now_ms = self._monotonic_ms()
        error, effects = entry.group.leave(member_id, instance_id, now_ms)
        self._perform(entry, effects, now_ms)
        return error

    # ---------------------------------------------------------------- offsets

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """OffsetCommit, of all these positions or none; only the first one of a broker, or a flush, has to wait."""
        error = self.refusal(group_id, may_be_empty=True)
        if error is ErrorCode.NONE and not self._journal.is_ready:
            return self._commit_first(group_id, member_id, instance_id, generation_id, offsets)
        entry = self._registry.find(group_id)
        if error is ErrorCode.NONE and entry is not None:
            error = entry.group.check_commit(member_id, instance_id, generation_id, self._monotonic_ms())
        elif error is ErrorCode.NONE and generation_id >= 0:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE or not offsets:
            return error
        try:
            durable = self._registry.commit(group_id, offsets)
        except KafkaError as failure:
            logger.warning("group %r: a commit failed: %s", group_id, failure)
            return answer_for(failure)
        return ErrorCode.NONE if durable is None else _outcome(durable())

    async def _commit_first(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> ErrorCode:
        error = await _outcome(self._journal.ensure())
        if error is not ErrorCode.NONE:
            return error
        result = self.commit(group_id, member_id, instance_id, generation_id, offsets)
        return result if isinstance(result, ErrorCode) else await result

    def offsets_of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """A group's committed positions, whatever its state."""
        return self._registry.offsets.of(group_id)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """OffsetDelete: the group's error, or each partition's."""
        error = self.refusal(group_id)
        entry = self._registry.find(group_id)
        if error is not ErrorCode.NONE or entry is None:
            return error or ErrorCode.GROUP_ID_NOT_FOUND, {}
        errors = dict.fromkeys(partitions, ErrorCode.NONE)
        if entry.group.state is not GroupState.EMPTY:
            if entry.group.protocol_type != CONSUMER_PROTOCOL_TYPE:
                return ErrorCode.NON_EMPTY_GROUP, {}
            subscribed = entry.group.subscribed_topics()
            for partition in errors:
                # A subscription that cannot be read may hold any topic.
                if subscribed is None or partition.topic in subscribed:
                    errors[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        try:
            self._registry.remove_offsets(entry, [each for each, code in errors.items() if code is ErrorCode.NONE])
        except KafkaError as failure:
            return answer_for(failure), {}
        return ErrorCode.NONE, errors

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted: its committed positions must not be found by a new one of that name."""
        self._registry.forget_topic(topic)

    async def expire_offsets(self) -> None:
        """Forget positions past their retention, and empty groups that have none."""
        for entry in self._registry:
            if entry.group.state is not GroupState.DEAD:
                self._registry.remove_expired(entry)
            await asyncio.sleep(0)  # lets requests in: a group may have many positions, a broker many groups

    # ---------------------------------------------------------------- groups

    def refusal(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
        """Why a request for this group cannot be served now; NONE if it can.

        What has to do with members needs a group id that is not empty; offsets were once kept under the empty one.
        """
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        return _STATUS_ERRORS.get(self._status, ErrorCode.NONE)

    def find(self, group_id: str) -> Group | None:
        """The group, to be looked at."""
        entry = self._registry.find(group_id)
        return None if entry is None else entry.group

    def all_groups(self) -> list[Group]:
        """Every group, to be looked at."""
        return [entry.group for entry in self._registry]

    def count_by_state(self) -> Counter[GroupState]:
        """How many groups are in each state."""
        return Counter(entry.group.state for entry in self._registry)

    def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one group: only an empty one goes, with its offsets."""
        error = self.refusal(group_id, may_be_empty=True)
        entry = self._registry.find(group_id)
        if error is not ErrorCode.NONE or entry is None:
            return error or ErrorCode.GROUP_ID_NOT_FOUND
        if entry.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        entry.group.forget_pending_members()
        try:
            self._registry.remove_offsets(entry, list(self.offsets_of(group_id)), and_if_useless_the_group=True)
        except KafkaError as failure:
            return answer_for(failure)
        return ErrorCode.NONE

    # ---------------------------------------------------------------- effects and time

    async def _answer_to(
        self, ticket: int, entry: Entry, effects: Iterable[Effect], now_ms: int
    ) -> JoinResult | SyncResult:
        future: asyncio.Future[JoinResult | SyncResult] = asyncio.get_running_loop().create_future()
        self._parked[ticket] = future
        try:
            self._perform(entry, effects, now_ms)
            return await future
        finally:
            del self._parked[ticket]

    def _perform(self, entry: Entry, effects: Iterable[Effect], now_ms: int) -> None:
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Answer):
                # Whoever asked may be gone: a closed connection cancels what it waits for.
                parked = self._parked.get(effect.ticket)
                if parked is not None and not parked.done():
                    parked.set_result(effect.result)
            else:
                todo.extend(entry.group.stored(effect, self._store(entry, effect), now_ms))
        self._arm(entry, now_ms)

    def _store(self, entry: Entry, store: Store) -> ErrorCode:
        try:
            self._registry.store(entry, store.metadata)
        except KafkaError as error:
            logger.warning("group %r cannot be stored: %s", entry.group.group_id, error)
            code = answer_for(error)
            return ErrorCode.UNKNOWN_SERVER_ERROR if code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE else code
        if isinstance(store.then, Assigned):
            self.completed_rebalances += 1
        return ErrorCode.NONE

    def _arm(self, entry: Entry, now_ms: int) -> None:
        """One timer per group. It may be early, never late: deadlines that moved back are looked up when it fires."""
        deadline_ms = entry.group.next_deadline_ms
        if deadline_ms is None or (entry.timer is not None and entry.timer_at_ms <= deadline_ms):
            return
        if entry.timer is not None:
            entry.timer.cancel()
        delay_seconds = max(deadline_ms - now_ms, 0) / 1000
        entry.timer_at_ms = deadline_ms
        entry.timer = asyncio.get_running_loop().call_later(delay_seconds, self._on_timer, entry)

    def _on_timer(self, entry: Entry) -> None:
        entry.timer = None
        now_ms = self._monotonic_ms()
        self._perform(entry, entry.group.on_time(now_ms), now_ms)

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


async def _outcome(work: Awaitable[None]) -> ErrorCode:
    try:
        await work
    except KafkaError as error:
        return answer_for(error)
    return ErrorCode.NONE
