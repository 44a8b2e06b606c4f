"""One consumer group: its members, its generation, and the two-step rebalance between generations. Pure.

    Empty ──join──► PreparingRebalance ──all have joined, or time is up──► CompletingRebalance ──leader's sync──► Stable
      ▲                 │      ▲                                                │                                  │
      └─ nobody is left ┘      └────── a member joins, changes, leaves or dies ─┴──────────────────────────────────┘
    Dead: deleted; nobody may use this object any more.

A method takes `now_ms` (any monotonic clock) and gives back effects in the order in which they are to happen: answers
to parked requests, and writes. The owner calls `on_time` at `next_deadline_ms` at the latest; there is no other timer.

Invariants: a generation only ever rises; the leader is a member of it; a parked request gets one answer; members of a
group share a protocol; what `Store` announces takes effect only after it was written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.groups.member import (
    Answer,
    Assigned,
    Effect,
    Join,
    JoinResult,
    Member,
    Replaced,
    Store,
    SyncResult,
)
from kafkalite.groups.records import GroupMetadata
from kafkalite.groups.roster import Roster, select_protocol

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member's first join may stay parked. It cannot heartbeat yet, so its session does not count."""

MAX_PENDING_MEMBERS: Final = 10_000
"""Ids given out and not used yet, per group: asking for ids in a loop must not fill the memory."""


class GroupState(Enum):
    """Kafka's names, as DescribeGroups and ListGroups show them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Group(Roster):
    """The state machine of one group."""

    def __init__(self, group_id: str, *, initial_rebalance_delay_ms: int = 0, max_size: int = 2**31 - 1) -> None:
        super().__init__()
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.next_deadline_ms: int | None = None
        """`on_time` has nothing to do before this; it may have nothing to do then either."""
        self._initial_delay_ms = initial_rebalance_delay_ms
        self._max_size = max_size
        self._pending_ids: dict[str, int] = {}  # given out with MEMBER_ID_REQUIRED, until their deadline
        self._not_synced: set[str] = set()
        self._rebalance_deadline_ms = 0  # of the joins in PreparingRebalance, of the syncs after it
        self._initial_wait_left_ms: int | None = None  # in the first rebalance of an empty group only
        self._came_late = False
        self._effects: list[Effect] = []

    @classmethod
    def restore(cls, group_id: str, stored: GroupMetadata, now_ms: int, **settings: int) -> Group:
        """The group as it was last written; its members get a whole session to show up."""
        group = cls(group_id, **settings)
        group.load(stored)
        for member in group.members.values():
            group._touch(member, now_ms)
        if group.members:
            group.state = GroupState.STABLE
        return group

    @property
    def has_pending_members(self) -> bool:
        """Whether somebody was given a member id and has not come back with it yet."""
        return bool(self._pending_ids)

    def forget_pending_members(self) -> None:
        """Whoever was given an id has to ask again."""
        self._pending_ids.clear()

    # ---------------------------------------------------------------- joining

    def join(self, join: Join, ticket: int, now_ms: int) -> list[Effect]:
        """JoinGroup: answered at once or when the next generation is complete."""
        error = self._refusal(join)
        if error is not None:
            self._effects.append(Answer(ticket, error))
        elif not join.member_id:
            self._join_without_id(join, ticket, now_ms)
        elif self._pending_ids.pop(join.member_id, None) is not None:
            self._join_as_new(join, join.member_id, ticket, now_ms)
        else:
            self._rejoin(self.members[join.member_id], join, ticket, now_ms)
        self._maybe_complete_join(now_ms)
        return self._take_effects()

    def _refusal(self, join: Join) -> JoinResult | None:
        if self.state is GroupState.DEAD:
            return JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, join.member_id)
        if not self._has_room_for(join.member_id):
            if join.member_id in self.members:
                self._remove(self.members[join.member_id], ErrorCode.GROUP_MAX_SIZE_REACHED)
            self._pending_ids.pop(join.member_id, None)
            return JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        can_agree = self.state is GroupState.EMPTY or self.shares_a_protocol(join)
        if not (join.protocol_type and join.protocols and can_agree):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
        if join.member_id and (join.member_id not in self._pending_ids or join.instance_id is not None):
            error = self.check_member(join.member_id, join.instance_id)
            return None if error is ErrorCode.NONE else JoinResult(error, join.member_id)
        return None

    def _has_room_for(self, member_id: str) -> bool:
        if not member_id and len(self._pending_ids) >= MAX_PENDING_MEMBERS:
            return False
        if self.state is GroupState.EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            # Counts who has joined again, so that a group above a lowered limit shrinks to it in the next rebalance.
            joined = sum(each.join_ticket is not None for each in self.members.values())
            return joined < self._max_size or (member is not None and member.join_ticket is not None)
        return member is not None or len(self.members) < self._max_size

    def _join_without_id(self, join: Join, ticket: int, now_ms: int) -> None:
        if join.instance_id is not None:
            old_member_id = self.member_of_instance.get(join.instance_id)
            if old_member_id is None:
                self._join_as_new(join, join.new_member_id, ticket, now_ms)
            else:
                self._rejoin_static(self.members[old_member_id], join, ticket, now_ms)
        elif join.must_know_id:
            self._pending_ids[join.new_member_id] = self._armed(now_ms + join.session_timeout_ms)
            self._effects.append(Answer(ticket, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id)))
        else:
            self._join_as_new(join, join.new_member_id, ticket, now_ms)

    def _join_as_new(self, join: Join, member_id: str, ticket: int, now_ms: int) -> None:
        member = Member.from_join(join, member_id)
        member.join_ticket = ticket
        member.is_new = True
        member.deadline_ms = self._armed(now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        if not self.members:
            self.protocol_type = join.protocol_type
        self.add(member)
        self._came_late = self.state is GroupState.PREPARING_REBALANCE
        self._begin_rebalance(f"{member_id!r} joins", now_ms)

    def _rejoin(self, member: Member, join: Join, ticket: int, now_ms: int) -> None:
        is_leader = member.member_id == self.leader_id
        changed = member.protocols != join.protocols
        if not changed and (
            self.state is GroupState.COMPLETING_REBALANCE or (self.state is GroupState.STABLE and not is_leader)
        ):
            # It may have missed its answer. A leader in a stable group, though, wants its topics assigned anew.
            self._touch(member, now_ms)
            self._effects.append(Answer(ticket, self.join_result(member)))
            return
        self._answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), now_ms)
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_ticket = ticket
        self._begin_rebalance(f"{member.member_id!r} joins again", now_ms)

    def _rejoin_static(self, old: Member, join: Join, ticket: int, now_ms: int) -> None:
        """A process with a known instance id has restarted: it gets the old member's place and assignment (KIP-345)."""
        member = Member.from_join(join, join.new_member_id)
        member.assignment = old.assignment
        if self.state is GroupState.STABLE:
            members = [member if each is old else each for each in self.members.values()]
            if select_protocol(members) == self.protocol_name:
                leader_id = member.member_id if old.member_id == self.leader_id else self.leader_id
                metadata = self.metadata(members, leader_id)
                self._effects.append(Store(metadata, Replaced(ticket, old.member_id, member)))
                return
        self._replace(old, member, now_ms)
        member.join_ticket = ticket
        self._begin_rebalance(f"static member {join.instance_id!r} joins again", now_ms)

    def _replace(self, old: Member, member: Member, now_ms: int) -> None:
        self._answer_join(old, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old.member_id), now_ms)
        self._answer_sync(old, SyncResult(ErrorCode.FENCED_INSTANCE_ID), now_ms)
        self._not_synced.discard(old.member_id)
        self.put_in_place_of(old, member)
        self._touch(member, now_ms)

    # ---------------------------------------------------------------- from one generation to the next

    def _begin_rebalance(self, reason: str, now_ms: int) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
                self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        timeout_ms = self.rebalance_timeout_ms()
        wait_ms, self._initial_wait_left_ms = timeout_ms, None
        if self.state is GroupState.EMPTY:
            wait_ms = self._initial_delay_ms
            self._initial_wait_left_ms = max(timeout_ms - wait_ms, 0)
        self._not_synced.clear()
        self._rebalance_deadline_ms = self._armed(now_ms + wait_ms)
        self.state = GroupState.PREPARING_REBALANCE
        logger.info("group %r rebalances after generation %d: %s", self.group_id, self.generation_id, reason)

    def _maybe_complete_join(self, now_ms: int) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        is_time_up = now_ms >= self._rebalance_deadline_ms
        if self._initial_wait_left_ms is not None:
            if not is_time_up:
                return
            if self._came_late and self._initial_wait_left_ms > 0:
                wait_ms = min(self._initial_delay_ms, self._initial_wait_left_ms)
                self._initial_wait_left_ms -= wait_ms
                self._came_late = False
                self._rebalance_deadline_ms = self._armed(now_ms + wait_ms)
                return
        have_all_joined = not self._pending_ids and all(m.join_ticket is not None for m in self.members.values())
        if have_all_joined or is_time_up:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        for member in [each for each in self.members.values() if each.join_ticket is None]:
            logger.info("group %r: %r did not join in time and is out", self.group_id, member.member_id)
            self._remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.generation_id += 1
        if not self.members:
            self.state = GroupState.EMPTY
            self.protocol_name = None
            self._effects.append(Store(self.metadata((), None)))
            logger.info("group %r is empty in generation %d", self.group_id, self.generation_id)
            return
        self.protocol_name = select_protocol(self.members.values())
        self.state = GroupState.COMPLETING_REBALANCE
        self._not_synced = set(self.members)
        self._rebalance_deadline_ms = self._armed(now_ms + self.rebalance_timeout_ms())
        for member in self.members.values():
            member.is_new = False
            self._answer_join(member, self.join_result(member), now_ms)

    def sync(
        self,
        ticket: int,
        now_ms: int,
        *,
        generation_id: int,
        member_id: str,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Mapping[str, bytes],
    ) -> list[Effect]:
        """SyncGroup: answered when the leader's assignment is stored."""
        error = self._check_generation(member_id, instance_id, generation_id)
        if error is ErrorCode.NONE and (
            protocol_type not in (None, self.protocol_type) or protocol_name not in (None, self.protocol_name)
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            self._effects.append(Answer(ticket, SyncResult(error)))
            return self._take_effects()
        member = self.members[member_id]
        self._not_synced.discard(member_id)
        self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        member.sync_ticket = ticket
        if self.state is GroupState.STABLE:
            self._answer_sync(member, self.sync_result(member), now_ms)
        elif member_id == self.leader_id:
            given = {each: bytes(assignments.get(each, b"")) for each in self.members}
            metadata = self.metadata(self.members.values(), self.leader_id, given)
            self._effects.append(Store(metadata, Assigned(self.generation_id, given)))
        return self._take_effects()

    def stored(self, store: Store, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The outcome of a `Store`; the group may have moved on meanwhile."""
        done = store.then
        if isinstance(done, Replaced):
            self._static_replacement_stored(done, error, now_ms)
        elif (
            isinstance(done, Assigned)
            and self.state is GroupState.COMPLETING_REBALANCE
            and self.generation_id == done.generation_id
        ):
            if error is ErrorCode.NONE:
                self.state = GroupState.STABLE
                for member in self.members.values():
                    member.assignment = done.assignments[member.member_id]
                    self._answer_sync(member, self.sync_result(member), now_ms)
                logger.info("group %r is stable in generation %d", self.group_id, self.generation_id)
            else:
                for member in self.members.values():
                    self._answer_sync(member, SyncResult(error), now_ms)
                self._begin_rebalance(f"its assignment could not be stored: {error.name}", now_ms)
        return self._take_effects()

    def _static_replacement_stored(self, done: Replaced, error: ErrorCode, now_ms: int) -> None:
        old = self.members.get(done.old_member_id)
        if error is ErrorCode.NONE and (self.state is not GroupState.STABLE or old is None):
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE or old is None:
            self._effects.append(Answer(done.ticket, JoinResult(error, "")))
            return
        # The leader's id from before: a static leader must not take itself for the leader and assign, because a stable
        # group hands out no new assignment (KIP-345; KIP-814 needs a later version of JoinGroup).
        leader_id = self.leader_id or ""
        self._replace(old, done.member, now_ms)
        self._effects.append(
            Answer(done.ticket, replace(self.join_result(done.member), leader_id=leader_id, members=()))
        )

    # ---------------------------------------------------------------- members that stay, leave or die

    def heartbeat(self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Heartbeat: keeps the member's session."""
        error = self._check_generation(member_id, instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        self._touch(self.members[member_id], now_ms)
        is_preparing = self.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def check_commit(self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Whether this member may commit offsets now; a commit also counts as a heartbeat.

        A generation below 0 is an administrator, or a consumer without group management: fine while nobody is in.
        """
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        error = self._check_generation(member_id, instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        # While a rebalance is prepared, members hand in where they are before they give partitions away.
        self._touch(self.members[member_id], now_ms)
        return ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        """LeaveGroup for one member; a static one may be named by its instance id alone."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        if not member_id and instance_id is not None:
            member_id = self.member_of_instance.get(instance_id, "")
        if self._pending_ids.pop(member_id, None) is None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error, []
            self._remove_and_rebalance(self.members[member_id], "leaves", now_ms)
        self._maybe_complete_join(now_ms)
        return ErrorCode.NONE, self._take_effects()

    def on_time(self, now_ms: int) -> list[Effect]:
        """Does what time has made necessary: sessions, ids that were not used, joins and syncs that did not come."""
        for member_id in [each for each, deadline_ms in self._pending_ids.items() if now_ms >= deadline_ms]:
            del self._pending_ids[member_id]
        for member in [each for each in self.members.values() if each.has_expired(now_ms)]:
            self._remove_and_rebalance(member, "was not heard of within its session", now_ms)
        if self._waits_for_syncs and now_ms >= self._rebalance_deadline_ms:
            for member in [self.members[each] for each in sorted(self._not_synced)]:
                self._remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
            self._begin_rebalance("members that had joined did not sync in time", now_ms)
        self._maybe_complete_join(now_ms)
        self._rearm()
        return self._take_effects()

    def kill(self) -> None:
        """Delete the empty group."""
        assert self.state is GroupState.EMPTY, (
            f"group {self.group_id!r} is {self.state.value}, only an empty one can go"
        )
        self.state = GroupState.DEAD

    # ---------------------------------------------------------------- checks

    def _check_generation(self, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # ---------------------------------------------------------------- small steps

    def _remove(self, member: Member, error: ErrorCode) -> None:
        """Takes the member out; a request of it that is parked gets the error."""
        if member.join_ticket is not None:
            self._effects.append(Answer(member.join_ticket, JoinResult(error, "")))
        if member.sync_ticket is not None:
            self._effects.append(Answer(member.sync_ticket, SyncResult(error)))
        self._not_synced.discard(member.member_id)
        self.take_out(member)

    def _remove_and_rebalance(self, member: Member, reason: str, now_ms: int) -> None:
        self._remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._begin_rebalance(f"{member.member_id!r} {reason}", now_ms)

    def _answer_join(self, member: Member, result: JoinResult, now_ms: int) -> None:
        if member.join_ticket is not None:
            self._effects.append(Answer(member.join_ticket, result))
            member.join_ticket = None
            self._touch(member, now_ms)

    def _answer_sync(self, member: Member, result: SyncResult, now_ms: int) -> None:
        if member.sync_ticket is not None:
            self._effects.append(Answer(member.sync_ticket, result))
            member.sync_ticket = None
            self._touch(member, now_ms)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # ---------------------------------------------------------------- time

    @property
    def _waits_for_syncs(self) -> bool:
        return bool(self._not_synced) and self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)

    def _touch(self, member: Member, now_ms: int) -> None:
        # A new member stays on its longer deadline until its first generation.
        if not member.is_new:
            member.deadline_ms = self._armed(now_ms + member.session_timeout_ms)

    def _armed(self, deadline_ms: int) -> int:
        if self.next_deadline_ms is None or deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = deadline_ms
        return deadline_ms

    def _rearm(self) -> None:
        """The exact next deadline; between two calls it is only known not to be later than what is armed."""
        deadlines = [member.deadline_ms for member in self.members.values() if member.is_new or not member.is_parked]
        deadlines += self._pending_ids.values()
        if self.state is GroupState.PREPARING_REBALANCE or self._waits_for_syncs:
            deadlines.append(self._rebalance_deadline_ms)
        self.next_deadline_ms = min(deadlines, default=None)
