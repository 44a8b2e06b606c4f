from __future__ import annotations

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.groups import group as group_module
from kafkalite.groups.group import NEW_MEMBER_JOIN_TIMEOUT_MS, Group, GroupState
from kafkalite.groups.member import JoinedMember
from tests.unit.groups.group_driver import REBALANCE_MS, SESSION_MS, Driver, join_of, stable


def test_the_first_member_of_a_group_leads_generation_1_at_once() -> None:
    driver = Driver()
    result = driver.joined(driver.new("a"))
    assert result.error is ErrorCode.NONE
    assert (result.member_id, result.leader_id, result.generation_id) == ("a", "a", 1)
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert result.members == (JoinedMember("a", None, b"r"),)
    assert driver.group.state is GroupState.COMPLETING_REBALANCE


def test_a_member_without_id_is_given_one_without_a_rebalance_and_may_join_with_it() -> None:
    driver = stable("a")
    result = driver.joined(driver.new("b", must_know_id=True))
    assert (result.error, result.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "b")
    assert result.protocol_name is None
    assert driver.heartbeat("a") is ErrorCode.NONE
    assert driver.heartbeat("b") is ErrorCode.UNKNOWN_MEMBER_ID
    ticket = driver.join("b", must_know_id=True)
    assert ticket not in driver.answers
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_given_id_that_is_not_used_expires_after_the_session_timeout() -> None:
    driver = stable("a")
    driver.new("b", must_know_id=True)
    driver.wait(SESSION_MS - 1)
    assert driver.group.has_pending_members
    driver.wait(1)
    assert not driver.group.has_pending_members
    driver = stable("a")
    driver.new("b", must_know_id=True)
    driver.wait(SESSION_MS // 2)
    driver.heartbeat("a")
    driver.wait(SESSION_MS // 2)
    assert driver.joined(driver.join("b")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_that_were_given_out_expire_one_after_the_other() -> None:
    driver = Driver()
    driver.new("a", must_know_id=True)
    driver.wait(1_000)
    driver.new("b", must_know_id=True)
    driver.wait(SESSION_MS - 1_000)
    assert driver.group.next_deadline_ms == driver.now_ms + 1_000
    driver.wait(1_000)
    assert not driver.group.has_pending_members


def test_a_rebalance_waits_for_an_id_that_was_given_out() -> None:
    driver = stable("a")
    driver.new("b", must_know_id=True)
    waiting = driver.join("a")
    assert waiting not in driver.answers
    driver.join("b")
    assert driver.joined(waiting).generation_id == 2
    assert set(driver.group.members) == {"a", "b"}


def test_a_static_member_needs_no_second_join() -> None:
    driver = Driver()
    assert driver.joined(driver.new("a", must_know_id=True, instance_id="i")).error is ErrorCode.NONE


def test_ids_given_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "MAX_PENDING_MEMBERS", 2)
    driver = Driver()
    for member_id in ("a", "b"):
        assert driver.joined(driver.new(member_id, must_know_id=True)).error is ErrorCode.MEMBER_ID_REQUIRED
    assert driver.joined(driver.new("c", must_know_id=True)).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_joins_are_parked_until_every_member_has_joined_again_and_only_the_leader_sees_the_members() -> None:
    driver = stable("a", "b")
    waiting = driver.new("c", protocols=(("range", b"from c"),))
    assert waiting not in driver.answers
    driver.join("b")
    assert waiting not in driver.answers
    leader = driver.join("a")
    assert {driver.joined(waiting).generation_id, driver.joined(leader).generation_id} == {driver.group.generation_id}
    assert driver.joined(waiting).members == ()
    assert set(driver.joined(leader).members) == {
        JoinedMember("a", None, b"r"),
        JoinedMember("b", None, b"r"),
        JoinedMember("c", None, b"from c"),
    }


def test_the_initial_delay_lets_more_members_into_the_first_generation() -> None:
    driver = Driver(Group("g", initial_rebalance_delay_ms=3_000))
    first = driver.new("a")
    driver.wait(2_999)
    assert first not in driver.answers
    second = driver.new("b")
    driver.wait(1)
    assert first not in driver.answers  # somebody came late: one more delay
    driver.wait(3_000)
    assert driver.joined(first).generation_id == driver.joined(second).generation_id == 1


def test_the_initial_delay_is_not_longer_than_the_rebalance_timeout() -> None:
    driver = Driver(Group("g", initial_rebalance_delay_ms=3_000))
    first = driver.new("m0", rebalance_timeout_ms=7_000)
    for index in range(1, 7):
        driver.wait(1_000)
        driver.new(f"m{index}", rebalance_timeout_ms=7_000)
    assert first not in driver.answers
    driver.wait(1_000)
    assert driver.joined(first).generation_id == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocols": (("roundrobin", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "a", "instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_does_not_fit_is_refused_and_disturbs_nobody(changes: dict[str, object], error: ErrorCode) -> None:
    driver = stable("a")
    ticket = driver.ticket()
    driver.run(driver.group.join(join_of(**{"member_id": "", **changes}), ticket, driver.now_ms))  # type: ignore[arg-type]
    assert driver.joined(ticket).error is error
    assert driver.group.state is GroupState.STABLE


@pytest.mark.parametrize("changes", [{"protocols": ()}, {"protocol_type": ""}])
def test_an_empty_group_also_needs_a_protocol(changes: dict[str, object]) -> None:
    driver = Driver()
    assert driver.joined(driver.new("a", **changes)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group.state is GroupState.EMPTY


def test_the_protocol_with_most_votes_among_those_that_all_know_is_selected() -> None:
    driver = Driver(Group("g", initial_rebalance_delay_ms=10))
    driver.new("a", protocols=(("own", b""), ("x", b""), ("y", b"")))
    driver.new("b", protocols=(("y", b""), ("x", b"")))
    last = driver.new("c", protocols=(("y", b""), ("x", b"")))
    driver.wait(100)
    assert driver.joined(last).protocol_name == "y"


def test_a_group_may_not_grow_above_its_limit() -> None:
    driver = stable("a", "b", driver=Driver(Group("g", max_size=2)))
    result = driver.joined(driver.new("c"))
    assert (result.error, result.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.group.state is GroupState.STABLE
    assert driver.joined(driver.join("b")).error is ErrorCode.NONE


def test_a_follower_that_joins_again_unchanged_gets_the_current_generation() -> None:
    driver = stable("a", "b")
    result = driver.joined(driver.join("b"))
    assert (result.error, result.generation_id, result.leader_id, result.members) == (ErrorCode.NONE, 2, "a", ())
    assert driver.group.state is GroupState.STABLE


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    driver = stable("a", "b")
    assert driver.join("a") not in driver.answers
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_follower_with_changed_metadata_begins_a_rebalance_while_others_are_stable() -> None:
    driver = stable("a", "b")
    ticket = driver.join("b", protocols=(("range", b"owns other partitions now"),))
    assert ticket not in driver.answers
    assert driver.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    leader = driver.join("a")
    assert JoinedMember("b", None, b"owns other partitions now") in driver.joined(leader).members


def test_a_member_that_missed_its_answer_gets_it_again_while_the_group_waits_for_the_leader() -> None:
    driver = Driver()
    driver.new("a")
    again = driver.joined(driver.join("a"))
    assert (again.generation_id, again.leader_id) == (1, "a")
    assert again.members == (JoinedMember("a", None, b"r"),)


def test_changed_metadata_during_the_sync_makes_all_join_again() -> None:
    driver = stable("a", "b")
    driver.join("a")
    driver.join("b")
    parked = driver.sync("b")
    driver.join("a", protocols=(("range", b"new"),))
    assert driver.synced(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_second_join_of_the_same_member_answers_the_first_one_too() -> None:
    driver = stable("a", "b")
    first = driver.join("a")
    second = driver.join("a")
    assert driver.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join("b")
    assert driver.joined(second).error is ErrorCode.NONE


def test_members_that_do_not_join_again_are_out_when_the_rebalance_timeout_is_up() -> None:
    driver = stable("a", "b", "c", session_timeout_ms=10 * REBALANCE_MS)
    ticket = driver.join("a", session_timeout_ms=10 * REBALANCE_MS)
    driver.wait(REBALANCE_MS - 1)
    assert ticket not in driver.answers
    driver.wait(1)
    assert [member.member_id for member in driver.joined(ticket).members] == ["a"]


def test_static_members_too_are_out_when_the_rebalance_timeout_is_up() -> None:
    driver = stable("a", session_timeout_ms=10 * REBALANCE_MS)
    driver.new("s", instance_id="i", session_timeout_ms=10 * REBALANCE_MS)
    driver.join("a", session_timeout_ms=10 * REBALANCE_MS)
    driver.sync("a")
    ticket = driver.join("a", session_timeout_ms=10 * REBALANCE_MS)
    driver.wait(REBALANCE_MS)
    assert [member.member_id for member in driver.joined(ticket).members] == ["a"]


def test_a_new_member_whose_first_join_is_never_answered_is_given_up() -> None:
    long_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    driver = stable("a", session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    ticket = driver.new("b")
    driver.wait(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert driver.joined(ticket).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert "b" not in driver.group.members


def test_a_new_member_that_repeats_its_first_join_is_not_held_to_its_session() -> None:
    long_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    driver = stable("a", session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    driver.new("b")
    driver.join("b")
    driver.wait(2 * SESSION_MS)
    assert "b" in driver.group.members


def test_the_leader_is_replaced_by_a_member_when_it_does_not_join_again() -> None:
    driver = stable("a", "b")
    driver.leave("a")
    result = driver.joined(driver.join("b"))
    assert result.leader_id == "b"
    assert result.members


def test_a_dead_group_sends_members_away() -> None:
    driver = Driver()
    driver.group.kill()
    assert driver.joined(driver.new("a")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.heartbeat("a") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.leave("a") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.synced(driver.sync("a")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.commit("", -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
