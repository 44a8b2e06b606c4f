"""Drives one `Group` by hand: a clock, tickets, and a store that can fail; notes every answer, each at most once."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalite.errors import ErrorCode
from kafkalite.groups.group import Group
from kafkalite.groups.member import Answer, Effect, Join, JoinResult, Store, SyncResult
from kafkalite.groups.records import GroupMetadata

RANGE = (("range", b"r"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def join_of(member_id: str = "", **changes: object) -> Join:
    values: dict[str, object] = {
        "member_id": member_id,
        "new_member_id": "generated",
        "instance_id": None,
        "must_know_id": False,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return Join(**(values | changes))  # type: ignore[arg-type]


@dataclass
class Driver:
    group: Group = field(default_factory=lambda: Group("g"))
    now_ms: int = 1_000
    store_error: ErrorCode = ErrorCode.NONE
    stored: list[GroupMetadata] = field(default_factory=list)
    answers: dict[int, JoinResult | SyncResult] = field(default_factory=dict)
    tickets: int = 0

    def ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers, f"ticket {effect.ticket} was answered twice"
                self.answers[effect.ticket] = effect.result
            else:
                assert isinstance(effect, Store)
                if self.store_error is ErrorCode.NONE:
                    self.stored.append(effect.metadata)
                self.run(self.group.stored(effect, self.store_error, self.now_ms))

    def join(self, member_id: str = "", **changes: object) -> int:
        """Sends a join; its ticket."""
        ticket = self.ticket()
        self.run(self.group.join(join_of(member_id, **changes), ticket, self.now_ms))
        return ticket

    def new(self, member_id: str, **changes: object) -> int:
        """A join without id, by a member that will get this one."""
        return self.join("", new_member_id=member_id, **changes)

    def sync(self, member_id: str, assignments: dict[str, bytes] | None = None, **changes: object) -> int:
        ticket = self.ticket()
        values: dict[str, object] = {
            "generation_id": self.group.generation_id,
            "member_id": member_id,
            "assignments": assignments or {},
        }
        self.run(self.group.sync(ticket, self.now_ms, **(values | changes)))  # type: ignore[arg-type]
        return ticket

    def heartbeat(self, member_id: str, generation_id: int | None = None, instance_id: str | None = None) -> ErrorCode:
        generation = self.group.generation_id if generation_id is None else generation_id
        return self.group.heartbeat(member_id, instance_id, generation, self.now_ms)

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        error, effects = self.group.leave(member_id, instance_id, self.now_ms)
        self.run(effects)
        return error

    def commit(self, member_id: str, generation_id: int | None = None, instance_id: str | None = None) -> ErrorCode:
        generation = self.group.generation_id if generation_id is None else generation_id
        return self.group.check_commit(member_id, instance_id, generation, self.now_ms)

    def wait(self, ms: int) -> None:
        """Lets time pass as the coordinator's timer sees it: from deadline to deadline."""
        end_ms = self.now_ms + ms
        while (deadline_ms := self.group.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.run(self.group.on_time(self.now_ms))
        self.now_ms = end_ms

    def joined(self, ticket: int) -> JoinResult:
        result = self.answers[ticket]
        assert isinstance(result, JoinResult)
        return result

    def synced(self, ticket: int) -> SyncResult:
        result = self.answers[ticket]
        assert isinstance(result, SyncResult)
        return result


def stable(*member_ids: str, driver: Driver | None = None, **changes: object) -> Driver:
    """A stable group of these members, the first one leading; member x has the assignment b"for x"."""
    driver = driver or Driver()
    driver.new(member_ids[0], **changes)
    for member_id in member_ids[1:]:
        driver.new(member_id, **changes)
    if len(member_ids) > 1:
        driver.join(member_ids[0], **changes)
    driver.sync(member_ids[0], {each: f"for {each}".encode() for each in member_ids})
    for member_id in member_ids[1:]:
        driver.sync(member_id)
    return driver
