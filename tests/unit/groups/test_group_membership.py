from __future__ import annotations

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.groups.group import Group, GroupState
from kafkalite.groups.member import Store
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.unit.groups.group_driver import REBALANCE_MS, SESSION_MS, Driver, stable

# ---------------------------------------------------------------- sync


def test_syncs_are_parked_until_the_leaders_assignment_is_stored() -> None:
    driver = stable("a", "b")
    driver.join("a")
    driver.join("b")
    follower = driver.sync("b")
    assert follower not in driver.answers
    leader = driver.sync("a", {"a": b"one", "b": b"two"})
    assert driver.synced(leader).assignment == b"one"
    assert driver.synced(follower).assignment == b"two"
    assert (driver.synced(follower).protocol_type, driver.synced(follower).protocol_name) == ("consumer", "range")
    assert driver.group.state is GroupState.STABLE
    stored = driver.stored[-1]
    assert {each.member_id: each.assignment for each in stored.members} == {"a": b"one", "b": b"two"}
    assert (stored.generation, stored.leader, stored.protocol) == (driver.group.generation_id, "a", "range")


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    driver = stable("a", "b")
    driver.join("a")
    driver.join("b")
    driver.sync("a", {"a": b"all", "stranger": b"none"})
    assert driver.synced(driver.sync("b")).assignment == b""


def test_a_sync_in_a_stable_group_gets_the_assignment_again() -> None:
    driver = stable("a", "b")
    assert driver.synced(driver.sync("b")).assignment == b"for b"


def test_an_assignment_that_cannot_be_stored_does_not_take_effect() -> None:
    driver = Driver(store_error=ErrorCode.NOT_COORDINATOR)
    driver.new("a")
    assert driver.synced(driver.sync("a", {"a": b"x"})).error is ErrorCode.NOT_COORDINATOR
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    assert driver.group.members["a"].assignment == b""


def test_an_assignment_that_is_stored_too_late_does_not_reach_the_next_generation() -> None:
    driver = Driver()
    driver.new("a")
    (late,) = driver.group.sync(100, driver.now_ms, generation_id=1, member_id="a", assignments={"a": b"old"})
    assert isinstance(late, Store)
    driver.join("a", protocols=(("range", b"new"),))
    assert driver.synced(100).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (driver.group.generation_id, driver.group.state) == (2, GroupState.COMPLETING_REBALANCE)
    assert driver.group.stored(late, ErrorCode.NONE, driver.now_ms) == []
    assert driver.group.state is GroupState.COMPLETING_REBALANCE
    assert driver.group.members["a"].assignment == b""


@pytest.mark.parametrize(
    ("member_id", "changes", "error"),
    [
        ("nobody", {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", {"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ("a", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("a", {"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("a", {"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        ("a", {"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_what_a_sync_says_must_fit_the_group(member_id: str, changes: dict[str, object], error: ErrorCode) -> None:
    driver = stable("a")
    assert driver.synced(driver.sync(member_id, **changes)).error is error  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_is_sent_back_to_join() -> None:
    driver = stable("a", "b")
    driver.join("a")
    assert driver.synced(driver.sync("b")).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_sync_of_the_same_member_answers_the_first_one_too() -> None:
    driver = stable("a", "b")
    driver.join("a")
    driver.join("b")
    first = driver.sync("b")
    second = driver.sync("b")
    driver.sync("a", {"b": b"x"})
    assert driver.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.synced(second).assignment == b"x"


def test_members_that_joined_and_do_not_sync_are_out_after_the_rebalance_timeout() -> None:
    long_ms = 10 * REBALANCE_MS
    driver = stable("a", "b", session_timeout_ms=long_ms)
    driver.join("a", session_timeout_ms=long_ms)
    driver.join("b", session_timeout_ms=long_ms)
    parked = driver.sync("b")
    driver.wait(REBALANCE_MS)
    assert driver.synced(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(driver.group.members) == ["b"]
    assert driver.joined(driver.join("b", session_timeout_ms=long_ms)).leader_id == "b"


# ---------------------------------------------------------------- heartbeats and commits


def test_a_heartbeat_keeps_the_session_and_silence_ends_it() -> None:
    driver = stable("a", "b")
    for _ in range(5):
        driver.wait(SESSION_MS - 1)
        assert driver.heartbeat("a") is ErrorCode.NONE
        assert driver.heartbeat("b") is ErrorCode.NONE
    driver.wait(SESSION_MS - 1)
    driver.heartbeat("a")
    driver.wait(1)
    assert set(driver.group.members) == {"a"}
    assert driver.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat("b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_with_a_parked_join_does_not_run_out_of_its_session() -> None:
    driver = stable("a", "b", rebalance_timeout_ms=10 * SESSION_MS)
    ticket = driver.join("a", rebalance_timeout_ms=10 * SESSION_MS)
    for _ in range(4):
        driver.wait(SESSION_MS - 1)
        driver.heartbeat("b")
    assert ticket not in driver.answers
    driver.join("b", rebalance_timeout_ms=10 * SESSION_MS)
    assert driver.joined(ticket).error is ErrorCode.NONE
    driver.wait(SESSION_MS - 1)
    assert set(driver.group.members) == {"a", "b"}
    driver.wait(1)
    assert not driver.group.members


def test_heartbeats_of_the_past_and_of_strangers_are_told_apart() -> None:
    driver = stable("a")
    assert driver.heartbeat("a", generation_id=0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("a", generation_id=2) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_between_join_and_sync_is_fine() -> None:
    driver = Driver()
    driver.new("a")
    assert driver.heartbeat("a") is ErrorCode.NONE


def test_the_last_member_gone_leaves_an_empty_group_that_is_stored() -> None:
    driver = stable("a")
    driver.wait(SESSION_MS)
    assert driver.group.state is GroupState.EMPTY
    assert (driver.stored[-1].generation, driver.stored[-1].protocol, driver.stored[-1].members) == (2, None, [])
    assert driver.group.next_deadline_ms is None


def test_who_may_commit() -> None:
    driver = Driver()
    assert driver.commit("", -1) is ErrorCode.NONE
    assert driver.commit("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.new("a")
    assert driver.commit("a", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync("a")
    assert driver.commit("a", 1) is ErrorCode.NONE
    assert driver.commit("a", 0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit("a", -1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.new("b")
    assert driver.commit("a", 1) is ErrorCode.NONE  # before its partitions go to somebody else


def test_a_commit_keeps_the_session() -> None:
    driver = stable("a")
    driver.wait(SESSION_MS - 1)
    driver.commit("a")
    driver.wait(SESSION_MS - 1)
    assert "a" in driver.group.members


# ---------------------------------------------------------------- leaving


def test_leaving_makes_the_others_join_again() -> None:
    driver = stable("a", "b")
    assert driver.leave("b") is ErrorCode.NONE
    assert driver.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.leave("b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_completes_a_rebalance_that_waited_for_the_member() -> None:
    driver = stable("a", "b")
    ticket = driver.join("a")
    driver.leave("b")
    assert driver.joined(ticket).generation_id == 3


def test_who_leaves_gets_an_answer_to_what_it_has_parked() -> None:
    driver = stable("a", "b")
    join = driver.join("b", protocols=(("range", b"new"),))
    driver.leave("b")
    assert driver.joined(join).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver = stable("a", "b")
    driver.join("a")
    driver.join("b")
    sync = driver.sync("b")
    driver.leave("b")
    assert driver.synced(sync).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_only_given_out_can_leave() -> None:
    driver = Driver()
    driver.new("a", must_know_id=True)
    assert driver.leave("a") is ErrorCode.NONE
    assert not driver.group.has_pending_members


def test_a_static_member_leaves_by_its_instance_id_alone() -> None:
    driver = stable("a", instance_id="i")
    assert driver.leave("", "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("wrong", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave("", "i") is ErrorCode.NONE
    assert driver.group.state is GroupState.EMPTY


# ---------------------------------------------------------------- static members


def static_pair() -> Driver:
    """A stable group of the dynamic leader "a" and the static member "s" with the instance id "i"."""
    driver = Driver()
    driver.new("a")
    driver.new("s", instance_id="i")
    driver.join("a")
    driver.sync("a", {"a": b"for a", "s": b"for s"})
    driver.sync("s", instance_id="i")
    return driver


def test_a_static_member_that_comes_back_gets_its_place_without_a_rebalance_and_fences_its_old_self() -> None:
    driver = static_pair()
    result = driver.joined(driver.new("s2", instance_id="i"))
    assert (result.error, result.member_id, result.generation_id) == (ErrorCode.NONE, "s2", 2)
    assert (result.leader_id, result.members) == ("a", ())
    assert driver.group.state is GroupState.STABLE
    assert driver.synced(driver.sync("s2", instance_id="i")).assignment == b"for s"
    assert driver.heartbeat("s", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat("s") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("s2", instance_id="i") is ErrorCode.NONE
    assert driver.heartbeat("a") is ErrorCode.NONE
    assert driver.commit("s", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.synced(driver.sync("s", instance_id="i")).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.joined(driver.join("s", instance_id="i")).error is ErrorCode.FENCED_INSTANCE_ID
    stored = driver.stored[-1]
    assert {each.member_id: each.assignment for each in stored.members} == {"a": b"for a", "s2": b"for s"}


def test_a_static_leader_that_comes_back_is_not_told_that_it_leads() -> None:
    driver = stable("a", instance_id="i")
    result = driver.joined(driver.new("a2", instance_id="i"))
    assert (result.leader_id, result.members) == ("a", ())
    assert driver.group.leader_id == "a2"
    assert driver.stored[-1].leader == "a2"


def test_a_static_member_whose_return_cannot_be_stored_is_not_replaced() -> None:
    driver = static_pair()
    driver.store_error = ErrorCode.NOT_COORDINATOR
    assert driver.joined(driver.new("s2", instance_id="i")).error is ErrorCode.NOT_COORDINATOR
    assert driver.heartbeat("s", instance_id="i") is ErrorCode.NONE
    assert set(driver.group.members) == {"a", "s"}


def test_a_static_member_that_changes_the_selected_protocol_begins_a_rebalance() -> None:
    both = (("range", b""), ("sticky", b""))
    driver = stable("a", instance_id="i", protocols=both)
    driver.new("b", protocols=both)
    driver.join("a", instance_id="i", protocols=both)
    driver.sync("a")
    assert driver.group.protocol_name == "range"
    ticket = driver.new("a2", instance_id="i", protocols=(("sticky", b""),))
    assert ticket not in driver.answers
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.join("b", protocols=both)
    assert driver.joined(ticket).protocol_name == "sticky"


def test_a_static_member_that_comes_back_during_the_sync_begins_a_rebalance() -> None:
    driver = static_pair()
    driver.join("a")
    driver.join("s", instance_id="i")
    parked = driver.sync("s", instance_id="i")
    ticket = driver.new("s2", instance_id="i")
    assert driver.synced(parked).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.join("a")
    assert driver.joined(ticket).member_id == "s2"


def test_a_static_member_that_comes_back_during_the_join_fences_the_parked_one() -> None:
    driver = static_pair()
    parked = driver.join("s", instance_id="i", protocols=(("range", b"new"),))
    ticket = driver.new("s2", instance_id="i")
    assert driver.joined(parked).error is ErrorCode.FENCED_INSTANCE_ID
    driver.join("a")
    assert driver.joined(ticket).error is ErrorCode.NONE
    assert set(driver.group.members) == {"a", "s2"}


def test_a_static_member_is_out_when_its_session_ends() -> None:
    driver = static_pair()
    driver.wait(SESSION_MS - 1)
    driver.heartbeat("a")
    driver.wait(1)
    assert set(driver.group.members) == {"a"}
    assert driver.leave("", "i") is ErrorCode.UNKNOWN_MEMBER_ID


# ---------------------------------------------------------------- storage and subscriptions


def test_a_restored_group_goes_on_without_a_rebalance() -> None:
    before = static_pair()
    group = Group.restore("g", before.stored[-1], 500_000)
    driver = Driver(group, now_ms=500_000)
    assert (group.state, group.generation_id, group.leader_id) == (GroupState.STABLE, 2, "a")
    assert driver.heartbeat("a") is ErrorCode.NONE
    assert driver.synced(driver.sync("s", instance_id="i")).assignment == b"for s"
    assert driver.joined(driver.new("s2", instance_id="i")).generation_id == 2
    assert driver.heartbeat("a") is ErrorCode.NONE
    driver.wait(SESSION_MS)
    assert not group.members


def test_a_restored_empty_group_keeps_its_generation() -> None:
    before = stable("a")
    before.leave("a")
    driver = Driver(Group.restore("g", before.stored[-1], 0))
    assert driver.group.state is GroupState.EMPTY
    assert driver.joined(driver.new("b")).generation_id == 3


def test_the_topics_of_consumers_are_read_from_their_subscriptions() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t", "u"]).to_bytes()
    assert stable("a", protocols=(("range", subscription),)).group.subscribed_topics() == {"t", "u"}
    assert stable("a", protocols=(("range", b"\xff"),)).group.subscribed_topics() is None
    assert stable("a", protocol_type="connect").group.subscribed_topics() is None
