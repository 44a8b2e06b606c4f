from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.groups.group import GroupState
from kafkalite.groups.records import CommittedOffset
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.support.manual_clock import ManualClock
from tests.unit.groups.coordinator_rig import QUICK, MemoryJournal, join, running, stable, sync

T = TypeVar("T")
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
READS_T = (("range", ConsumerProtocolSubscription(topics=["t"]).to_bytes()),)


def at(offset: int, commit_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, 1, "note", commit_ms)


async def commit(
    coordinator: GroupCoordinator,
    group_id: str,
    offsets: dict[TopicPartition, CommittedOffset],
    member_id: str = "",
    generation_id: int = -1,
) -> ErrorCode:
    outcome = coordinator.commit(group_id, member_id, None, generation_id, offsets)
    return outcome if isinstance(outcome, ErrorCode) else await outcome


async def soon(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, 10)


# ---------------------------------------------------------------- members


def test_two_members_share_a_generation() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            generation = await stable(groups, "g", "a")
            joining = asyncio.create_task(join(groups, "g", new="b"))
            await asyncio.sleep(0)
            assert groups.heartbeat("g", "a", None, generation) is ErrorCode.REBALANCE_IN_PROGRESS
            leader, follower = await soon(asyncio.gather(join(groups, "g", "a"), joining))
            assert leader.generation_id == follower.generation_id == generation + 1
            parked = asyncio.create_task(sync(groups, "g", "b", leader.generation_id))
            await asyncio.sleep(0)
            assert not parked.done()
            await sync(groups, "g", "a", leader.generation_id, {"a": b"1", "b": b"2"})
            assert (await soon(parked)).assignment == b"2"
            assert groups.completed_rebalances == 2
            assert groups.count_by_state() == {GroupState.STABLE: 1}

    asyncio.run(scenario())


def test_a_silent_member_is_removed_by_the_groups_own_timer() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            await stable(groups, "g", "a")
            joining = asyncio.create_task(join(groups, "g", new="silent", session_timeout_ms=1))
            await asyncio.sleep(0)
            await join(groups, "g", "a")
            generation = (await soon(joining)).generation_id
            await sync(groups, "g", "a", generation)
            # The leader's next join waits for the silent one, whose session ends.
            result = await soon(join(groups, "g", "a"))
            assert [member.member_id for member in result.members] == ["a"]

    asyncio.run(scenario())


def test_a_join_whose_client_is_gone_harms_nobody() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            await stable(groups, "g", "a")
            gone = asyncio.create_task(join(groups, "g", new="b"))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            assert (await soon(join(groups, "g", "a"))).error is ErrorCode.NONE

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("group_id", "changes", "error"),
    [
        ("", {}, ErrorCode.INVALID_GROUP_ID),
        ("g", {"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ("g", {"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ("g", {"member_id": "of a group that is not there"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", {"session_timeout_ms": 6_000}, ErrorCode.NONE),
    ],
)
def test_joins_are_checked_before_a_group_is_made(group_id: str, changes: dict[str, object], error: ErrorCode) -> None:
    async def scenario() -> None:
        async with running(MemoryJournal(), BrokerConfig()) as groups:
            result = await join(groups, group_id, **changes)  # type: ignore[arg-type]
            assert result.error is error
            assert len(groups.all_groups()) == (error is ErrorCode.NONE)

    asyncio.run(scenario())


def test_requests_about_an_unknown_group() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            assert groups.heartbeat("g", "a", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
            assert groups.leave("g", "a", None) is ErrorCode.UNKNOWN_MEMBER_ID
            assert (await sync(groups, "g", "a", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
            assert await commit(groups, "g", {T0: at(1)}, "a", 1) is ErrorCode.ILLEGAL_GENERATION
            assert groups.delete("g") is ErrorCode.GROUP_ID_NOT_FOUND
            assert groups.delete_offsets("g", [T0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
            assert groups.find("g") is None

    asyncio.run(scenario())


def test_new_groups_beyond_the_limit_are_refused_and_useless_ones_make_room() -> None:
    async def scenario() -> None:
        config = BrokerConfig(max_groups=2)
        async with running(MemoryJournal(), config, ManualClock(1_000_000)) as groups:
            assert await commit(groups, "keeps an offset", {T0: at(1)}) is ErrorCode.NONE
            assert (await join(groups, "useless", protocols=())).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert (await join(groups, "new")).error is ErrorCode.NONE
            assert groups.find("useless") is None
            assert (await join(groups, "one more")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
            assert await commit(groups, "one more", {T0: at(1)}) is ErrorCode.GROUP_MAX_SIZE_REACHED
            assert await commit(groups, "keeps an offset", {T0: at(2)}) is ErrorCode.NONE
            assert groups.offsets_of("one more") == {}

    asyncio.run(scenario())


# ---------------------------------------------------------------- offsets


def test_the_first_commit_makes_the_journal_and_later_ones_are_answered_at_once() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            assert await commit(groups, "g", {T0: at(1)}) is ErrorCode.NONE
            assert groups.commit("g", "", None, -1, {T0: at(2), T1: at(3)}) is ErrorCode.NONE
            assert groups.offsets_of("g") == {T0: at(2), T1: at(3)}
            assert journal.ensured == 1
            assert len(journal.records) == 3

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (StorageError("disk"), ErrorCode.NOT_COORDINATOR),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "x"), ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "x"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_commit_that_cannot_be_written_is_not_in_memory_either(failure: KafkaError, answer: ErrorCode) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            await commit(groups, "g", {T0: at(1)})
            journal.append_error = failure
            assert await commit(groups, "g", {T0: at(2)}) is answer
            assert await commit(groups, "new", {T0: at(2)}) is answer
            assert groups.offsets_of("g") == {T0: at(1)}
            assert groups.find("new") is None
            assert groups.delete("g") is answer
            assert groups.delete_offsets("g", [T0]) == (answer, {})
            groups.forget_topic("t")
            assert groups.offsets_of("g") == {T0: at(1)}

    asyncio.run(scenario())


def test_a_commit_waits_until_it_is_durable() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        flushed = asyncio.Event()

        async def until_durable() -> None:
            await flushed.wait()

        async with running(journal) as groups:
            await journal.ensure()
            journal.until_durable = until_durable
            waiting = asyncio.ensure_future(commit(groups, "g", {T0: at(1)}))
            await asyncio.sleep(0)
            assert not waiting.done()
            flushed.set()
            assert await soon(waiting) is ErrorCode.NONE

    asyncio.run(scenario())


def test_a_journal_that_cannot_be_made_is_an_error_of_its_first_users_only() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        journal.ensure_error = StorageError("disk")
        async with running(journal) as groups:
            assert (await join(groups, "g")).error is ErrorCode.NOT_COORDINATOR
            assert await commit(groups, "g", {T0: at(1)}) is ErrorCode.NOT_COORDINATOR
            journal.ensure_error = None
            assert await commit(groups, "g", {T0: at(1)}) is ErrorCode.NONE

    asyncio.run(scenario())


def test_an_assignment_that_cannot_be_written_is_refused() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            generation = (await join(groups, "g", new="a")).generation_id
            journal.append_error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "x")
            assert (await sync(groups, "g", "a", generation)).error is ErrorCode.UNKNOWN_SERVER_ERROR
            assert groups.completed_rebalances == 0
            journal.append_error = None
            generation = (await soon(join(groups, "g", "a"))).generation_id
            assert (await sync(groups, "g", "a", generation)).error is ErrorCode.NONE

    asyncio.run(scenario())


def test_only_members_commit_while_there_are_any() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            generation = await stable(groups, "g", "a")
            assert await commit(groups, "g", {T0: at(1)}) is ErrorCode.UNKNOWN_MEMBER_ID
            assert await commit(groups, "g", {T0: at(1)}, "a", generation - 1) is ErrorCode.ILLEGAL_GENERATION
            assert await commit(groups, "g", {T0: at(1)}, "a", generation) is ErrorCode.NONE

    asyncio.run(scenario())


def test_the_empty_group_id_can_keep_offsets_as_in_kafka() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            assert await commit(groups, "", {T0: at(1)}) is ErrorCode.NONE
            assert groups.offsets_of("") == {T0: at(1)}
            assert groups.delete("") is ErrorCode.NONE

    asyncio.run(scenario())


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal()) as groups:
            await commit(groups, "g", {T0: at(1), U0: at(1)})
            await stable(groups, "g", "a", protocols=READS_T)
            assert groups.delete_offsets("g", [T0, U0]) == (
                ErrorCode.NONE,
                {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: ErrorCode.NONE},
            )
            assert groups.offsets_of("g") == {T0: at(1)}
            assert groups.delete_offsets("", [T0]) == (ErrorCode.INVALID_GROUP_ID, {})
            await stable(groups, "workers", "w", protocol_type="connect")
            assert groups.delete_offsets("workers", [T0]) == (ErrorCode.NON_EMPTY_GROUP, {})

    asyncio.run(scenario())


def test_a_deleted_topics_offsets_are_gone_for_good() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            await commit(groups, "g", {T0: at(1), T1: at(1), U0: at(1)})
            await commit(groups, "h", {T0: at(1)})
            groups.forget_topic("t")
        async with running(MemoryJournal(journal.records)) as groups:
            assert groups.offsets_of("g") == {U0: at(1)}
            assert groups.offsets_of("h") == {}

    asyncio.run(scenario())


def test_offsets_expire_and_empty_groups_with_them() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        clock = ManualClock(1_000_000_000)
        config = BrokerConfig(offsets_retention_minutes=1)
        async with running(journal, config, clock) as groups:
            generation = await stable(groups, "had members", "a", protocols=READS_T)
            await commit(groups, "had members", {T0: at(1, clock.now_ms()), U0: at(1, clock.now_ms())}, "a", generation)
            await commit(groups, "simple", {T0: at(1, clock.now_ms())})
            clock.sleep(30)
            await commit(groups, "fresh", {T0: at(1, clock.now_ms())})
            clock.sleep(30)
            await groups.expire_offsets()
            # A topic that the group still reads is kept; what nobody reads is not.
            assert groups.offsets_of("had members") == {T0: at(1, 1_000_000_000)}
            assert groups.find("simple") is None
            assert groups.find("fresh") is not None
            groups.leave("had members", "a", None)
            await groups.expire_offsets()
            assert groups.offsets_of("had members")  # it counts from when the group became empty
            clock.sleep(60)
            await groups.expire_offsets()
            assert groups.all_groups() == []
        async with running(MemoryJournal(journal.records), config, clock) as groups:
            assert groups.all_groups() == []

    asyncio.run(scenario())


def test_expiry_comes_by_itself() -> None:
    async def scenario() -> None:
        config = BrokerConfig(offsets_retention_check_interval_ms=1, offsets_retention_minutes=1)
        async with running(MemoryJournal(), config) as groups:
            await commit(groups, "g", {T0: at(1, commit_ms=0)})

            async def gone() -> None:
                while groups.find("g") is not None:
                    await asyncio.sleep(0)

            await soon(gone())

    asyncio.run(scenario())


# ---------------------------------------------------------------- groups that go, and restarts


def test_only_an_empty_group_is_deleted_and_its_name_is_free_again() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            generation = await stable(groups, "g", "a")
            await commit(groups, "g", {T0: at(1)}, "a", generation)
            assert groups.delete("g") is ErrorCode.NON_EMPTY_GROUP
            groups.leave("g", "a", None)
            await join(groups, "g", must_know_id=True)
            assert groups.delete("g") is ErrorCode.NONE
            assert groups.delete("g") is ErrorCode.GROUP_ID_NOT_FOUND
            assert groups.offsets_of("g") == {}
        async with running(MemoryJournal(journal.records)) as groups:
            assert groups.all_groups() == []
            assert (await join(groups, "g", new="b")).generation_id == 1

    asyncio.run(scenario())


def test_a_restart_finds_offsets_and_stable_groups() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            generation = await stable(groups, "g", "a")
            await commit(groups, "g", {T0: at(5)}, "a", generation)
            await commit(groups, "simple", {T1: at(6)})
        async with running(MemoryJournal(journal.records)) as groups:
            assert groups.offsets_of("g") == {T0: at(5)}
            assert groups.offsets_of("simple") == {T1: at(6)}
            assert groups.heartbeat("g", "a", None, generation) is ErrorCode.NONE
            assert (await sync(groups, "g", "a", generation)).assignment == b"all"
            assert groups.count_by_state() == {GroupState.STABLE: 1, GroupState.EMPTY: 1}
            assert groups.delete("simple") is ErrorCode.NONE

    asyncio.run(scenario())


def test_members_that_do_not_come_back_after_a_restart_are_removed() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            await stable(groups, "g", "a", session_timeout_ms=200)
        async with running(MemoryJournal(journal.records)) as groups:
            assert groups.count_by_state() == {GroupState.STABLE: 1}

            async def empty() -> None:
                while groups.count_by_state() != {GroupState.EMPTY: 1}:
                    await asyncio.sleep(0)

            await soon(empty())

    asyncio.run(scenario())


def test_until_the_journal_is_replayed_requests_are_told_to_wait() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with running(journal) as groups:
            await commit(groups, "g", {T0: at(5)})
        journal.may_replay.clear()
        async with running(journal, wait_loaded=False) as groups:
            await asyncio.sleep(0)
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (await join(groups, "g")).error is loading
            assert await commit(groups, "g", {T0: at(1)}) is loading
            assert groups.refusal("g") is loading
            assert groups.delete("g") is loading
            assert groups.delete_offsets("g", [T0]) == (loading, {})
            # These two answers are Kafka's: clients do not expect the error there.
            assert groups.heartbeat("g", "a", None, 1) is ErrorCode.NONE
            assert (await sync(groups, "g", "a", 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
            journal.may_replay.set()
            await soon(groups.loaded())
            assert groups.offsets_of("g") == {T0: at(5)}

    asyncio.run(scenario())


def test_a_journal_that_cannot_be_read_refuses_groups_instead_of_forgetting_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        journal = MemoryJournal([(b"x", b"y")])
        journal.replay_error = StorageError("rot")
        async with running(journal) as groups:
            assert groups.refusal("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await commit(groups, "g", {T0: at(1)}) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "rot" in caplog.text


def test_a_stop_answers_what_is_parked() -> None:
    async def scenario() -> None:
        async with running(MemoryJournal(), QUICK) as groups:
            await stable(groups, "g", "a")
            await join(groups, "g", "b")
            parked_join = asyncio.create_task(join(groups, "g", new="b"))
            await asyncio.sleep(0)
            await groups.stop()
            assert (await soon(parked_join)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await join(groups, "g")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    asyncio.run(scenario())
