"""What goes into the state machine of a group and what comes out of it: joins, members, answers, writes. Values only.

A request that cannot be answered at once is parked under a `ticket`, a number that its caller chose; the answer
names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kafkalite.errors import ErrorCode
from kafkalite.groups.records import GroupMetadata

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""What a member can do, best first: names of assignment strategies, each with what the member says to the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request. `new_member_id` is for a member that comes without one."""

    member_id: str
    new_member_id: str
    instance_id: str | None = None
    must_know_id: bool
    """Version 4 on: a member without id must come back with the one that it is given (KIP-394)."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The answer to a join; `members` is for the leader only."""

    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to a sync."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. While a request of it is parked it is alive, and its session does not run out."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    is_new: bool = False
    """It waits for its first generation: a join that was given up is not noticed, so even a parked one runs out."""
    deadline_ms: int = 0

    @classmethod
    def from_join(cls, join: Join, member_id: str) -> Member:
        """The member that a join asks for."""
        return cls(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocols=join.protocols,
        )

    @property
    def is_parked(self) -> bool:
        return self.join_ticket is not None or self.sync_ticket is not None

    def has_expired(self, now_ms: int) -> bool:
        return now_ms >= self.deadline_ms and (self.is_new or not self.is_parked)

    def supports(self, protocol_name: str) -> bool:
        return any(name == protocol_name for name, _ in self.protocols)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """What the member said for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the parked request."""

    ticket: int
    result: JoinResult | SyncResult


@dataclass(frozen=True, slots=True)
class Assigned:
    """The leader's assignment takes effect, if the group is still in that generation."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A static member came back under a new id, if it is still the old one that is in the group."""

    ticket: int
    old_member_id: str
    member: Member


@dataclass(frozen=True, slots=True)
class Store:
    """Write the group to the journal and tell it the outcome (`Group.stored`); only then `then` takes effect."""

    metadata: GroupMetadata
    then: Assigned | Replaced | None = None


Effect: TypeAlias = Answer | Store
