"""The traps of groups, one by one, over raw sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkalite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafkalite.testing import EmbeddedBroker
from tests.compat.raw_connection import RawConnection


def join_request(
    group: str, member_id: str = "", protocols: Sequence[str] = ("range",), **fields: Any
) -> JoinGroupRequest:
    given = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer", **fields}
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in protocols],
        **given,
    )


def join(raw: RawConnection, group: str, member_id: str = "", version: int = 7, **fields: Any) -> JoinGroupResponse:
    return raw.call(join_request(group, member_id, **fields), JoinGroupResponse, version)


def join_as_new(raw: RawConnection, group: str, **fields: Any) -> JoinGroupResponse:
    """With the id that the first answer gives."""
    return join(raw, group, join(raw, group, **fields).member_id, **fields)


def sync(raw: RawConnection, group: str, joined: JoinGroupResponse, **shares: bytes) -> SyncGroupResponse:
    assignments = [SyncGroupRequestAssignment(member_id=member, assignment=share) for member, share in shares.items()]
    return raw.call(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        ),
        SyncGroupResponse,
        5,
    )


def heartbeat(raw: RawConnection, group: str, member_id: str, generation: int, **fields: Any) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, **fields)
    return raw.call(request, HeartbeatResponse, 4).error_code


def test_a_member_without_id_gets_one_with_error_79_from_version_4_on(raw: RawConnection, group: str) -> None:
    first = join(raw, group, version=4)
    assert (first.error_code, first.generation_id) == (79, -1)
    assert first.member_id
    joined = join(raw, group, first.member_id, version=4)
    assert (joined.error_code, joined.member_id) == (0, first.member_id)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_member_without_id_joins_at_once(raw: RawConnection, group: str, version: int) -> None:
    joined = join(raw, group, version=version)
    assert joined.error_code == 0
    assert joined.member_id == joined.leader


def test_a_static_member_needs_no_second_try(raw: RawConnection, group: str) -> None:
    joined = join(raw, group, group_instance_id="one")
    assert joined.error_code == 0
    assert joined.generation_id >= 0


def test_errors_of_joining_may_have_a_null_protocol(raw: RawConnection, group: str) -> None:
    assert join(raw, group, version=7).protocol_name is None
    assert join(raw, group, version=6).protocol_name == ""


def test_only_the_leader_gets_the_members_and_all_get_their_share(
    raw: RawConnection, broker: EmbeddedBroker, group: str
) -> None:
    first = join_as_new(raw, group)
    assert sync(raw, group, first, **{first.member_id: b"all"}).assignment == b"all"
    with RawConnection(broker.port) as other:
        second_id = join(other, group).member_id
        waiting = other.send(join_request(group, second_id), 7)
        # The join of the second is parked, and the first learns of it by its heartbeat.
        while heartbeat(raw, group, first.member_id, first.generation_id) == 0:
            pass
        assert heartbeat(raw, group, first.member_id, first.generation_id) == 27
        leader = join(raw, group, first.member_id)
        follower = other.receive(JoinGroupResponse, 7, waiting)
        assert leader.leader == follower.leader == first.member_id
        assert {member.member_id for member in leader.members} == {first.member_id, second_id}
        assert list(follower.members) == []
        assert leader.generation_id == follower.generation_id == first.generation_id + 1

        # The follower's share is parked until the leader has said what it is.
        request = SyncGroupRequest(
            group_id=group,
            generation_id=follower.generation_id,
            member_id=second_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        parked = other.send(request, 5)
        assert sync(raw, group, leader, **{first.member_id: b"A", second_id: b"B"}).assignment == b"A"
        assert other.receive(SyncGroupResponse, 5, parked).assignment == b"B"
        assert heartbeat(raw, group, first.member_id, leader.generation_id) == 0


def test_wrong_generations_and_members_are_told_apart(raw: RawConnection, group: str) -> None:
    joined = join_as_new(raw, group)
    sync(raw, group, joined, **{joined.member_id: b"all"})
    assert heartbeat(raw, group, joined.member_id, joined.generation_id) == 0
    assert heartbeat(raw, group, joined.member_id, joined.generation_id - 1) == 22
    assert heartbeat(raw, group, "somebody else", joined.generation_id) == 25
    assert heartbeat(raw, f"no-{group}", joined.member_id, 1) == 25
    assert join(raw, group, "somebody else").error_code == 25


def test_a_static_members_old_self_is_fenced(raw: RawConnection, group: str) -> None:
    first = join(raw, group, group_instance_id="one")
    sync(raw, group, first, **{first.member_id: b"all"})
    again = join(raw, group, group_instance_id="one")
    assert again.error_code == 0
    assert again.member_id != first.member_id
    assert heartbeat(raw, group, first.member_id, again.generation_id, group_instance_id="one") == 82


@pytest.mark.parametrize("timeout_ms", [0, 50, 10**9])
def test_a_session_timeout_out_of_bounds_is_error_26(raw: RawConnection, group: str, timeout_ms: int) -> None:
    assert join(raw, group, session_timeout_ms=timeout_ms).error_code == 26


def test_members_without_a_common_protocol_are_error_23(raw: RawConnection, group: str) -> None:
    joined = join_as_new(raw, group)
    sync(raw, group, joined, **{joined.member_id: b"all"})
    assert join_as_new(raw, group, protocols=["roundrobin"]).error_code == 23
    assert join_as_new(raw, group, protocol_type="connect").error_code == 23
    assert join(raw, f"new-{group}", version=3, protocols=[]).error_code == 23


def test_an_empty_group_id_is_error_24(raw: RawConnection) -> None:
    assert join(raw, "").error_code == 24


def test_a_session_that_is_not_kept_alive_ends(raw: RawConnection, group: str) -> None:
    joined = join_as_new(raw, group, session_timeout_ms=200)
    sync(raw, group, joined, **{joined.member_id: b"all"})
    # Another member's join, parked until the silent one is given up, is what waits here.
    assert join_as_new(raw, group).generation_id == joined.generation_id + 1


def test_leaving_members_are_answered_one_by_one(raw: RawConnection, group: str) -> None:
    joined = join_as_new(raw, group)
    request = LeaveGroupRequest(
        group_id=group, members=[MemberIdentity(member_id=joined.member_id), MemberIdentity(member_id="nobody")]
    )
    answer = raw.call(request, LeaveGroupResponse, 5)
    assert (answer.error_code, [member.error_code for member in answer.members]) == (0, [0, 25])


# Offsets


def commit(raw: RawConnection, group: str, topic: str, offset: int, version: int = 8, **fields: Any) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="note")
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])], **fields
    )
    return raw.call(request, OffsetCommitResponse, version).topics[0].partitions[0].error_code


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_are_fetched_one_by_one(raw: RawConnection, topic: str, group: str, version: int) -> None:
    raw.create_topic(topic, partitions=2)
    assert commit(raw, group, topic, 42) == 0
    wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])
    answer = raw.call(OffsetFetchRequest(group_id=group, topics=[wanted]), OffsetFetchResponse, version)
    found = {one.partition_index: (one.committed_offset, one.error_code) for one in answer.topics[0].partitions}
    assert found == {0: (42, 0), 1: (-1, 0)}
    assert answer.topics[0].partitions[0].metadata == "note"


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_mean_all_that_a_group_has(raw: RawConnection, topic: str, group: str, version: int) -> None:
    raw.create_topic(topic, partitions=2)
    commit(raw, group, topic, 42)
    answer = raw.call(OffsetFetchRequest(group_id=group, topics=None), OffsetFetchResponse, version)
    ((name, (partition,)),) = ((found.name, found.partitions) for found in answer.topics)
    assert (name, partition.partition_index, partition.committed_offset) == (topic, 0, 42)


def test_from_version_8_offsets_of_many_groups_are_fetched(raw: RawConnection, topic: str, group: str) -> None:
    raw.create_topic(topic)
    commit(raw, group, topic, 42)
    wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    groups = [
        OffsetFetchRequestGroup(group_id=group, topics=None),
        OffsetFetchRequestGroup(group_id=f"no-{group}", topics=[wanted]),
    ]
    known, unknown = raw.call(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 8).groups
    assert (known.group_id, known.error_code) == (group, 0)
    assert known.topics[0].partitions[0].committed_offset == 42
    assert (unknown.error_code, unknown.topics[0].partitions[0].committed_offset) == (0, -1)
    assert unknown.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", range(2, 9))
def test_an_offset_of_an_unknown_topic_is_error_3(raw: RawConnection, group: str, version: int) -> None:
    assert commit(raw, group, "no-such-topic", 1, version) == 3


def test_commits_are_checked_against_the_group(raw: RawConnection, topic: str, group: str) -> None:
    raw.create_topic(topic)
    joined = join_as_new(raw, group)
    sync(raw, group, joined, **{joined.member_id: b"all"})
    member: dict[str, Any] = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    assert commit(raw, group, topic, 1, **member) == 0
    assert commit(raw, group, topic, 1, **{**member, "generation_id": joined.generation_id + 1}) == 22
    assert commit(raw, group, topic, 1, **{**member, "member_id": "nobody"}) == 25
    assert commit(raw, group, topic, 1) == 25, "from outside, while the group has members"


def test_committed_offsets_survive_a_crash(topic: str, group: str) -> None:
    with EmbeddedBroker() as broker:
        with RawConnection(broker.port) as raw:
            raw.create_topic(topic)
            assert commit(raw, group, topic, 42) == 0
        broker.kill()
        broker.restart()
        with RawConnection(broker.port) as raw:
            answer = raw.call(OffsetFetchRequest(group_id=group, topics=None), OffsetFetchResponse, 7)
            assert answer.topics[0].partitions[0].committed_offset == 42
