"""The handlers of the group APIs over a real coordinator, each answer also encoded in its version."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.clock import SystemClock
from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode
from kafkalite.model import BrokerInfo, ClusterSnapshot, PartitionState, TopicState
from kafkalite.protocol.api import ApiKey
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkalite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkalite.server.handlers import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from kafkalite.server.services import Call
from tests.unit.groups.coordinator_rig import MemoryJournal, running

HANDLERS: dict[type, tuple[ApiKey, Callable[..., Any]]] = {
    FindCoordinatorRequest: (ApiKey.FIND_COORDINATOR, find_coordinator.handle),
    JoinGroupRequest: (ApiKey.JOIN_GROUP, join_group.handle),
    SyncGroupRequest: (ApiKey.SYNC_GROUP, sync_group.handle),
    HeartbeatRequest: (ApiKey.HEARTBEAT, heartbeat.handle),
    LeaveGroupRequest: (ApiKey.LEAVE_GROUP, leave_group.handle),
    OffsetCommitRequest: (ApiKey.OFFSET_COMMIT, offset_commit.handle),
    OffsetFetchRequest: (ApiKey.OFFSET_FETCH, offset_fetch.handle),
    OffsetDeleteRequest: (ApiKey.OFFSET_DELETE, offset_delete.handle),
    DescribeGroupsRequest: (ApiKey.DESCRIBE_GROUPS, describe_groups.handle),
    ListGroupsRequest: (ApiKey.LIST_GROUPS, list_groups.handle),
    DeleteGroupsRequest: (ApiKey.DELETE_GROUPS, delete_groups.handle),
}
SUBSCRIPTION = ConsumerProtocolSubscription(topics=["t"]).to_bytes()


@dataclass
class Server:
    services: Any
    client_id: str = "client"
    last_member_id: str = field(default="", init=False)

    async def ask(self, request: Any, version: int) -> Any:
        """Decodes what a client of that version would receive."""
        api_key, handle = HANDLERS[type(request)]
        request = type(request).decode(request.encode(version), version)
        outcome = handle(self.services, Call(RequestHeader(api_key, version, 1, self.client_id), "127.0.0.1"), request)
        response = await outcome if isinstance(outcome, Awaitable) else outcome
        return type(response).decode(response.encode(version), version)

    async def join(self, version: int = 7, **changes: object) -> Any:
        values: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        }
        response = await self.ask(JoinGroupRequest(**(values | changes)), version)
        self.last_member_id = response.member_id
        return response

    async def member(self, group_id: str = "g") -> str:
        """A stable group with one member."""
        await self.join(group_id=group_id)
        joined = await self.join(group_id=group_id, member_id=self.last_member_id)
        member_id: str = joined.member_id
        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")]
        request = SyncGroupRequest(
            group_id=group_id, generation_id=joined.generation_id, member_id=member_id, assignments=assignments
        )
        assert (await self.ask(request, 5)).assignment == b"mine"
        return member_id


@asynccontextmanager
async def server(journal: MemoryJournal | None = None, *, wait_loaded: bool = True) -> AsyncIterator[Server]:
    config = BrokerConfig(offset_metadata_max_bytes=10)
    own = PartitionState(0, 0, (0,), (0,))
    topics = {name: TopicState(name, uuid.uuid4(), (own,) * 2, {}) for name in ("t", "u")}
    snapshot = ClusterSnapshot("cluster", 0, (BrokerInfo(0, "host", 9092),), topics)
    async with running(journal or MemoryJournal(), config, wait_loaded=wait_loaded) as groups:
        store = SimpleNamespace(snapshot=snapshot)
        yield Server(SimpleNamespace(config=config, clock=SystemClock(), store=store, groups=groups))


def commit_of(
    *partitions: tuple[str, int, int], member_id: str = "", generation_id: int = -1, note: str | None = None
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id=generation_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=note
                    )
                ],
            )
            for topic, index, offset in partitions
        ],
    )


def errors_of(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }


def offsets_of(topics: Any) -> dict[tuple[str, int], tuple[int, str | None]]:
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.metadata)
        for topic in topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(5))
def test_the_coordinator_of_every_group_is_this_broker(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            response = await broker.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"]), version)
            found = response.coordinators if version >= 4 else [response]
            assert [(each.error_code, each.node_id, each.host, each.port) for each in found] == [
                (0, 0, "host", 9092)
            ] * len(found)
            assert [each.key for each in response.coordinators] == (["g", "h"] if version >= 4 else [])

    asyncio.run(scenario())


def test_there_is_no_coordinator_of_transactions_yet() -> None:
    async def scenario() -> None:
        async with server() as broker:
            response = await broker.ask(FindCoordinatorRequest(key="x", key_type=1), 3)
            assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert "transactions are not built yet" in response.error_message
            response = await broker.ask(FindCoordinatorRequest(key="x", key_type=9), 3)
            assert response.error_code == ErrorCode.INVALID_REQUEST

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(8))
def test_a_consumer_of_any_version_joins(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            response = await broker.join(version)
            if version >= 4:
                assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
                assert response.protocol_name == (None if version >= 7 else "")
                assert response.member_id.startswith("client-")
                response = await broker.join(version, member_id=response.member_id)
            assert response.error_code == 0
            assert response.leader == response.member_id
            assert [member.metadata for member in response.members] == [SUBSCRIPTION]
            assert response.protocol_name == "range"
            assert response.protocol_type == ("consumer" if version >= 7 else None)
            member = broker.services.groups.find("g").members[response.member_id]
            assert member.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)

    asyncio.run(scenario())


def test_member_ids_are_bounded_and_a_static_members_begins_with_its_instance_id() -> None:
    async def scenario() -> None:
        async with server() as broker:
            broker.client_id = "c" * 1_000
            assert len((await broker.join()).member_id) == 255 + 1 + 36
            assert (await broker.join(group_id="h", group_instance_id="i")).member_id.startswith("i-")

    asyncio.run(scenario())


def test_heartbeat_and_leave_of_every_version() -> None:
    async def scenario() -> None:
        async with server() as broker:
            for version in range(5):
                member_id = await broker.member(f"g{version}")
                beat = HeartbeatRequest(group_id=f"g{version}", generation_id=1, member_id=member_id)
                assert (await broker.ask(beat, version)).error_code == 0
            for version in range(6):
                member_id = await broker.member(f"l{version}")
                request = LeaveGroupRequest(
                    group_id=f"l{version}",
                    member_id=member_id,
                    members=[MemberIdentity(member_id=member_id), MemberIdentity(member_id="nobody")],
                )
                response = await broker.ask(request, version)
                assert response.error_code == 0
                if version >= 3:
                    assert [each.error_code for each in response.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
                else:
                    assert (await broker.ask(request, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            nowhere = LeaveGroupRequest(group_id="", member_id="m")
            assert (await broker.ask(nowhere, 2)).error_code == ErrorCode.INVALID_GROUP_ID

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(2, 9))
def test_commits_and_their_errors_are_per_partition(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            request = commit_of(("t", 0, 5), ("t", 2, 5), ("u", -1, 5), ("missing", 0, 5), note="0123456789")
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            expected = {("t", 0): 0, ("t", 2): unknown, ("u", -1): unknown, ("missing", 0): unknown}
            assert errors_of(await broker.ask(request, version)) == expected
            too_long = commit_of(("t", 0, 6), note="0123456789a")
            assert errors_of(await broker.ask(too_long, version)) == {("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
            fetch = OffsetFetchRequest(group_id="g", topics=None)
            assert offsets_of((await broker.ask(fetch, 7)).topics) == {("t", 0): (5, "0123456789")}

    asyncio.run(scenario())


def test_a_commit_of_a_stranger_has_the_groups_error_in_each_partition() -> None:
    async def scenario() -> None:
        async with server() as broker:
            await broker.member()
            response = await broker.ask(commit_of(("t", 0, 1), ("x", 0, 1), member_id="nobody", generation_id=1), 8)
            assert errors_of(response) == {
                ("t", 0): ErrorCode.UNKNOWN_MEMBER_ID,
                ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(1, 9))
def test_fetched_offsets_are_the_committed_ones_and_minus_one_elsewhere(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            await broker.ask(commit_of(("t", 1, 7)), 8)
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
            asked = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
            response = await broker.ask(OffsetFetchRequest(group_id="g", topics=topics, groups=asked), version)
            answer = response.groups[0] if version >= 8 else response
            assert answer.error_code == 0
            assert offsets_of(answer.topics) == {("t", 0): (-1, ""), ("t", 1): (7, "")}
            assert errors_of(answer) == {("t", 0): 0, ("t", 1): 0}

    asyncio.run(scenario())


def test_several_groups_and_all_of_a_group_are_fetched_at_once() -> None:
    async def scenario() -> None:
        async with server() as broker:
            await broker.ask(commit_of(("u", 0, 1), ("t", 1, 7), ("t", 0, 3)), 8)
            groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "unknown")]
            response = await broker.ask(OffsetFetchRequest(groups=groups), 8)
            assert [(each.group_id, each.error_code) for each in response.groups] == [("g", 0), ("unknown", 0)]
            assert offsets_of(response.groups[0].topics) == {("t", 0): (3, ""), ("t", 1): (7, ""), ("u", 0): (1, "")}
            assert response.groups[1].topics == []

    asyncio.run(scenario())


def test_offsets_are_deleted_unless_they_are_read() -> None:
    async def scenario() -> None:
        async with server() as broker:
            await broker.ask(commit_of(("t", 0, 1), ("u", 0, 1)), 8)
            await broker.member()

            def topic(name: str, *indexes: int) -> OffsetDeleteRequestTopic:
                partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
                return OffsetDeleteRequestTopic(name=name, partitions=partitions)

            request = OffsetDeleteRequest(group_id="g", topics=[topic("t", 0), topic("u", 0, 9), topic("x", 0)])
            response = await broker.ask(request, 0)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert errors_of(response) == {
                ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
                ("u", 0): 0,
                ("u", 9): unknown,
                ("x", 0): unknown,
            }
            response = await broker.ask(OffsetDeleteRequest(group_id="none", topics=[]), 0)
            assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(6))
def test_groups_are_described(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            member_id = await broker.member()
            response = await broker.ask(DescribeGroupsRequest(groups=["g", "unknown"]), version)
            group, unknown = response.groups
            assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
                0,
                "Stable",
                "consumer",
                "range",
            )
            (member,) = group.members
            assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "127.0.0.1")
            assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"mine")
            assert (unknown.error_code, unknown.group_state, unknown.members) == (0, "Dead", [])

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(5))
def test_groups_are_listed_and_filtered_by_state(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            await broker.member("stable")
            await broker.ask(commit_of(("t", 0, 1)), 8)
            response = await broker.ask(ListGroupsRequest(), version)
            assert {(each.group_id, each.protocol_type) for each in response.groups} == {
                ("stable", "consumer"),
                ("g", ""),
            }
            if version >= 4:
                response = await broker.ask(ListGroupsRequest(states_filter=["stable", "Nonsense"]), version)
                assert [(each.group_id, each.group_state) for each in response.groups] == [("stable", "Stable")]

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(3))
def test_only_empty_groups_are_deleted(version: int) -> None:
    async def scenario() -> None:
        async with server() as broker:
            await broker.member("busy")
            await broker.ask(commit_of(("t", 0, 1)), 8)
            response = await broker.ask(DeleteGroupsRequest(groups_names=["g", "busy", "unknown"]), version)
            assert {each.group_id: each.error_code for each in response.results} == {
                "g": 0,
                "busy": ErrorCode.NON_EMPTY_GROUP,
                "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
            }

    asyncio.run(scenario())


def test_while_groups_are_loaded_everybody_is_told_so() -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        journal.may_replay.clear()
        async with server(journal, wait_loaded=False) as broker:
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (await broker.join()).error_code == loading
            assert (await broker.ask(ListGroupsRequest(), 4)).error_code == loading
            assert (await broker.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups[0].error_code == loading
            assert (await broker.ask(LeaveGroupRequest(group_id="g"), 5)).error_code == loading
            assert errors_of(await broker.ask(commit_of(("t", 0, 1)), 8)) == {("t", 0): loading}
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
            fetch = OffsetFetchRequest(group_id="g", topics=topics)
            assert (await broker.ask(fetch, 7)).error_code == loading
            assert errors_of(await broker.ask(fetch, 1)) == {("t", 0): loading}
            several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
            assert (await broker.ask(several, 8)).groups[0].error_code == loading

    asyncio.run(scenario())
