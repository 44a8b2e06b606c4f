"""Consumer groups: members join, leave, die and come back, by every client that has groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalite.testing import EmbeddedBroker
from tests.compat.clients.client import Client, Record, Refused
from tests.compat.group_under_test import GroupUnderTest

PARTITIONS = 4
SHORT_SESSION_MS = 3_000
LONG_SESSION_MS = 120_000
"""So long that only a member that said good-bye can be missed within a test."""
LEFT_SECONDS = 30

WITH_GROUPS = pytest.mark.parametrize(
    "client", ["confluent-kafka", "kafka-python", "aiokafka", "kafkajs"], indirect=True
)


@pytest.fixture
def members(broker: EmbeddedBroker, admin: Client, topic: str, group: str, tmp_path: Path) -> Iterator[GroupUnderTest]:
    admin.create_topic(topic, partitions=PARTITIONS)
    with GroupUnderTest(broker.bootstrap, topic, group, tmp_path) as members:
        yield members


@WITH_GROUPS
def test_partitions_are_shared_anew_when_a_member_joins_and_when_it_leaves(
    client: Client, members: GroupUnderTest
) -> None:
    first = members.start(client.name, session_timeout_ms=LONG_SESSION_MS)
    members.wait_until_shared(PARTITIONS, first)
    second = members.start(client.name, session_timeout_ms=LONG_SESSION_MS)
    members.wait_until_shared(PARTITIONS, first, second)
    second.leave()
    members.wait_until_shared(PARTITIONS, first, seconds=LEFT_SECONDS)


@WITH_GROUPS
def test_the_partitions_of_a_killed_member_go_to_the_others(client: Client, members: GroupUnderTest) -> None:
    all_three = [members.start(client.name, session_timeout_ms=SHORT_SESSION_MS) for _ in range(3)]
    members.wait_until_shared(PARTITIONS, *all_three)
    all_three.pop().kill()
    members.wait_until_shared(PARTITIONS, *all_three)


@WITH_GROUPS
def test_a_new_member_goes_on_where_the_last_has_committed(
    client: Client, members: GroupUnderTest, topic: str, group: str, admin: Client
) -> None:
    admin.produce(topic, [Record(b"k", b"before %d" % n) for n in range(5)])
    first = members.start(client.name)
    members.wait_until_read(5, first)
    first.tell("commit")
    members.wait_until(lambda: first.commits == 1, "a commit")
    first.leave()
    assert client.committed(group, topic) == 5

    admin.produce(topic, [Record(b"k", b"after %d" % n) for n in range(3)])
    second = members.start(client.name)
    members.wait_until_read(3, second)
    assert [(offset, value) for _, offset, value in second.records] == [(5 + n, f"after {n}") for n in range(3)]


@WITH_GROUPS
def test_groups_are_listed_and_described(
    client: Client, members: GroupUnderTest, admin: Client, topic: str, group: str
) -> None:
    admin.produce(topic, [Record(b"k", b"v")])
    member = members.start(client.name)
    members.wait_until_shared(PARTITIONS, member)
    members.wait_until_read(1, member)
    assert group in client.group_names()
    assert client.group_state(group) == ("Stable", 1)
    member.tell("commit")
    members.wait_until(lambda: member.commits == 1, "a commit")
    member.leave()
    assert client.group_state(group) == ("Empty", 0)


@WITH_GROUPS
def test_a_group_is_deleted_once_it_has_no_members(
    client: Client, members: GroupUnderTest, admin: Client, topic: str, group: str
) -> None:
    admin.produce(topic, [Record(b"k", b"v")])
    member = members.start("confluent-kafka")
    members.wait_until_read(1, member)
    member.tell("commit")
    members.wait_until(lambda: member.commits == 1, "a commit")
    with pytest.raises(Refused) as refused:
        client.delete_group(group)
    assert refused.value.code == 68
    member.leave()
    client.delete_group(group)
    assert group not in client.group_names()
    assert client.committed(group, topic) is None


def test_members_of_different_clients_share_one_group(members: GroupUnderTest, admin: Client, topic: str) -> None:
    shared = [members.start(name) for name in ("confluent-kafka", "kafka-python", "aiokafka")]
    members.wait_until_shared(PARTITIONS, *shared)
    admin.produce(topic, [Record(b"k", b"%d" % n) for n in range(10)])
    members.wait_until_read(10, *shared)


def test_cooperative_members_keep_what_they_have_while_others_join(members: GroupUnderTest) -> None:
    first = members.start("confluent-kafka", strategy="cooperative-sticky")
    members.wait_until_shared(PARTITIONS, first)
    second = members.start("confluent-kafka", strategy="cooperative-sticky")
    members.wait_until_shared(PARTITIONS, first, second)
    assert first.assigned is not None
    assert len(first.assigned) == PARTITIONS // 2
    second.leave()
    members.wait_until_shared(PARTITIONS, first)
    assert first.revocations == 1, "only the half for the second member was taken from the first"


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_a_static_member_that_comes_back_in_time_finds_its_partitions_and_disturbs_nobody(
    members: GroupUnderTest, name: str
) -> None:
    first = members.start(name, instance_id="one", session_timeout_ms=LONG_SESSION_MS)
    members.wait_until_shared(PARTITIONS, first)
    second = members.start(name, instance_id="two", session_timeout_ms=LONG_SESSION_MS)
    members.wait_until_shared(PARTITIONS, first, second)
    before, revocations = second.assigned, first.revocations
    second.kill()
    again = members.start(name, instance_id="two", session_timeout_ms=LONG_SESSION_MS)
    members.wait_until_shared(PARTITIONS, first, again)
    assert again.assigned == before
    assert first.revocations == revocations


def test_a_static_member_is_fenced_by_a_second_one_of_its_name(members: GroupUnderTest) -> None:
    first = members.start("confluent-kafka", instance_id="one")
    members.wait_until_shared(PARTITIONS, first)
    second = members.start("confluent-kafka", instance_id="one")
    members.wait_until_shared(PARTITIONS, second)
    members.wait_until(lambda: first.has_ended, "the end of the first")
    assert "Static consumer fenced" in repr(first)


def test_records_are_read_once_per_group_and_again_by_another(
    broker: EmbeddedBroker,
    members: GroupUnderTest,
    client_named: Callable[[str], Client],
    admin: Client,
    topic: str,
    tmp_path: Path,
) -> None:
    admin.produce(topic, [Record(b"k", b"%d" % n) for n in range(10)])
    pair = [members.start("confluent-kafka") for _ in range(2)]
    members.wait_until_shared(PARTITIONS, *pair)
    members.wait_until_read(10, *pair)
    (tmp_path / "other").mkdir()
    with GroupUnderTest(broker.bootstrap, topic, f"other-{topic}", tmp_path / "other") as others:
        other = others.start("aiokafka")
        others.wait_until_read(10, other)
