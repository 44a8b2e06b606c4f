"""A group under random events of random members, with a store that may fail: what must hold whatever happens."""

from __future__ import annotations

import random

from kafkalite.errors import ErrorCode
from kafkalite.groups.group import Group, GroupState
from kafkalite.groups.member import JoinResult, SyncResult
from tests.conftest import Trials
from tests.unit.groups.group_driver import Driver

PROTOCOLS = (
    (("range", b""), ("sticky", b"")),
    (("sticky", b"1"), ("range", b"1")),
    (("range", b"2"),),
)
EVENTS = ("new",) * 2 + ("join",) * 3 + ("sync",) * 4 + ("leave", "commit", "wait", "heartbeat")
STEPS = 300


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        delay_ms = self.random.choice([0, 0, 2_000])
        self.driver = Driver(Group("g", initial_rebalance_delay_ms=delay_ms, max_size=self.random.choice([3, 1_000])))
        self.parked: set[int] = set()
        self.generation_id = 0
        self.names = 0
        self.owner_of: dict[int, str] = {}

    def step(self) -> None:
        driver, pick = self.driver, self.random
        driver.store_error = ErrorCode.NOT_COORDINATOR if pick.random() < 0.05 else ErrorCode.NONE
        members = list(driver.group.members)
        some = pick.choice(members) if members and pick.random() < 0.95 else "stranger"
        instance = driver.group.members[some].instance_id if some in driver.group.members else None
        kind = pick.choice(EVENTS)
        if kind == "new":
            self.names += 1
            changes: dict[str, object] = {
                "must_know_id": pick.random() < 0.5,
                "instance_id": pick.choice([None, None, "i", "j"]),
                "protocols": pick.choice(PROTOCOLS),
            }
            ticket = driver.new(f"m{self.names}", **changes)
            self.parked.add(ticket)
            answer = driver.answers.get(ticket)
            if answer is not None and answer.error is ErrorCode.MEMBER_ID_REQUIRED and pick.random() < 0.8:
                self.parked.add(driver.join(f"m{self.names}", **(changes | {"instance_id": None})))
        elif kind == "join":
            self.parked.add(driver.join(some, instance_id=instance, protocols=pick.choice(PROTOCOLS)))
        elif kind == "sync":
            self.parked.add(
                driver.sync(
                    some,
                    {each: f"{each} in {driver.group.generation_id}".encode() for each in members},
                    instance_id=instance,
                )
            )
        elif kind == "leave":
            driver.leave(some, instance)
        elif kind == "commit":
            driver.commit(some, instance_id=instance)
        elif kind == "wait":
            driver.wait(pick.choice([1, 1_000, 9_000, 70_000]))
        else:
            driver.heartbeat(some, instance_id=instance)

    def check(self) -> None:
        driver, group = self.driver, self.driver.group
        assert group.generation_id >= self.generation_id
        self.generation_id = group.generation_id
        waiting = {
            ticket
            for member in group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        }
        # A request is answered (the driver refuses a second time) or it is parked with a member, never neither.
        assert waiting == self.parked - driver.answers.keys()
        if group.members:
            assert group.leader_id in group.members
            assert group.state is not GroupState.EMPTY
            assert set.intersection(*({name for name, _ in m.protocols} for m in group.members.values()))
        else:
            assert group.leader_id is None
        assert group.member_of_instance == {
            m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None
        }
        for member in group.members.values():
            if member.join_ticket is not None:
                assert group.state is GroupState.PREPARING_REBALANCE
            if member.sync_ticket is not None:
                assert group.state is GroupState.COMPLETING_REBALANCE
        if group.state is GroupState.STABLE:
            assigned = [member.assignment for member in group.members.values()]
            assert len(set(assigned)) == len(assigned)
            stored = driver.stored[-1]
            assert stored.generation == group.generation_id
            assert {m.member_id: m.assignment for m in stored.members} == {
                m.member_id: m.assignment for m in group.members.values()
            }

    def check_answers(self) -> None:
        """Of one generation, all members were told the same leader and protocol, and one of them the members."""
        told: dict[int, set[tuple[str, str | None]]] = {}
        for answer in self.driver.answers.values():
            if isinstance(answer, JoinResult) and answer.error is ErrorCode.NONE:
                told.setdefault(answer.generation_id, set()).add((answer.leader_id, answer.protocol_name))
                if answer.members:
                    assert answer.member_id == answer.leader_id
            if isinstance(answer, SyncResult) and answer.error is not ErrorCode.NONE:
                assert answer.assignment == b""
        for generation_id, leaders in told.items():
            assert len({protocol for _, protocol in leaders}) == 1, f"generation {generation_id}: {leaders}"

    def end(self) -> None:
        """Nobody does anything any more: everything that waits is answered, and the group becomes empty."""
        self.driver.store_error = ErrorCode.NONE
        self.driver.wait(1_000_000)
        self.check()
        assert self.driver.group.state is GroupState.EMPTY
        assert self.parked <= self.driver.answers.keys()
        assert self.driver.group.next_deadline_ms is None


def test_random_events_keep_the_invariants(trials: Trials) -> None:
    def trial(seed: int) -> None:
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
            walk.check()
        walk.check_answers()
        walk.end()

    trials(trial, small=60, large=5_000)


def test_random_walks_reach_every_state_and_many_generations() -> None:
    seen: set[GroupState] = set()
    generations = 0
    stable_with_many = 0
    for seed in range(20):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
            seen.add(walk.driver.group.state)
            if walk.driver.group.state is GroupState.STABLE and len(walk.driver.group.members) > 1:
                stable_with_many += 1
        generations += walk.generation_id or walk.driver.group.generation_id
    assert seen == set(GroupState) - {GroupState.DEAD}
    assert generations > 200
    assert stable_with_many > 50
