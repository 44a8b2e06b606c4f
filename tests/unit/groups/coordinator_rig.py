"""A coordinator on the test's own event loop, with a journal in memory that can fail or be late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from kafkalite.clock import Clock, SystemClock
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.groups.member import JoinResult, SyncResult
from kafkalite.groups.records import KeyValue
from tests.unit.groups.group_driver import join_of

QUICK = BrokerConfig(group_min_session_timeout_ms=1)


class MemoryJournal:
    def __init__(self, records: Sequence[tuple[bytes | None, bytes | None]] = ()) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = list(records)
        self.is_ready = bool(records)
        self.ensured = 0
        self.append_error: KafkaError | None = None
        self.ensure_error: KafkaError | None = None
        self.replay_error: KafkaError | None = None
        self.until_durable: Callable[[], Awaitable[None]] | None = None
        self.may_replay = asyncio.Event()
        self.may_replay.set()

    async def ensure(self) -> None:
        await asyncio.sleep(0)
        if self.ensure_error is not None:
            raise self.ensure_error
        self.ensured += 1
        self.is_ready = True

    def append(self, group_id: str, records: Sequence[KeyValue]) -> Callable[[], Awaitable[None]] | None:
        assert self.is_ready, "the journal was written before it was made"
        if self.append_error is not None:
            raise self.append_error
        self.records += records
        return self.until_durable

    async def replay(self) -> AsyncIterator[Sequence[tuple[bytes | None, bytes | None]]]:
        await self.may_replay.wait()
        if self.replay_error is not None:
            raise self.replay_error
        for start in range(0, len(self.records), 3):
            yield self.records[start : start + 3]


@asynccontextmanager
async def running(
    journal: MemoryJournal, config: BrokerConfig = QUICK, clock: Clock | None = None, *, wait_loaded: bool = True
) -> AsyncIterator[GroupCoordinator]:
    coordinator = GroupCoordinator(config, clock or SystemClock(), journal)
    coordinator.start()
    if wait_loaded:
        await coordinator.loaded()
    try:
        yield coordinator
    finally:
        await coordinator.stop()


async def join(
    coordinator: GroupCoordinator, group_id: str, member_id: str = "", *, new: str = "generated", **changes: object
) -> JoinResult:
    return await coordinator.join(group_id, join_of(member_id, new_member_id=new, **changes))


async def sync(
    coordinator: GroupCoordinator,
    group_id: str,
    member_id: str,
    generation_id: int,
    assignments: dict[str, bytes] | None = None,
) -> SyncResult:
    return await coordinator.sync(
        group_id,
        generation_id=generation_id,
        member_id=member_id,
        instance_id=None,
        protocol_type=None,
        protocol_name=None,
        assignments=assignments or {},
    )


async def stable(coordinator: GroupCoordinator, group_id: str, member_id: str, **changes: object) -> int:
    """A group with one member; its generation."""
    joined = await join(coordinator, group_id, new=member_id, **changes)  # type: ignore[arg-type]
    assert joined.error is ErrorCode.NONE
    await sync(coordinator, group_id, member_id, joined.generation_id, {member_id: b"all"})
    return joined.generation_id
