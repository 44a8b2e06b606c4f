"""Who is in a group and what they have agreed on: members, leader, protocol, generation; to and from storage. Pure.

`Group` adds the states, the waiting and the time. Nothing here decides when something happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kafkalite.errors import ErrorCode, MalformedMessage
from kafkalite.groups.member import Join, JoinedMember, JoinResult, Member, SyncResult
from kafkalite.groups.records import GroupMetadata, StoredMember
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class Roster:
    """The members of a group, in the order in which they came."""

    def __init__(self) -> None:
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.member_of_instance: dict[str, str] = {}

    # ---------------------------------------------------------------- who is in

    def add(self, member: Member) -> None:
        """The first member becomes the leader."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.member_of_instance[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def take_out(self, member: Member) -> None:
        """If it was the leader, the one who is there longest follows."""
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.member_of_instance[member.instance_id]
        if member.member_id == self.leader_id:
            self.leader_id = next(iter(self.members), None)

    def put_in_place_of(self, old: Member, member: Member) -> None:
        """A static member under its new id, in its old place."""
        members = [member if each is old else each for each in self.members.values()]
        self.members = {each.member_id: each for each in members}
        if member.instance_id is not None:
            self.member_of_instance[member.instance_id] = member.member_id
        if self.leader_id == old.member_id:
            self.leader_id = member.member_id

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member, and the one that its instance id stands for."""
        if instance_id is not None:
            current = self.member_of_instance.get(instance_id)
            if current is not None and current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # ---------------------------------------------------------------- what they agree on

    def shares_a_protocol(self, join: Join) -> bool:
        """Whether all members can do one of the protocols of somebody who joins."""
        return join.protocol_type == self.protocol_type and any(
            all(member.supports(name) for member in self.members.values()) for name, _ in join.protocols
        )

    def subscribed_topics(self) -> set[str] | None:
        """The topics that members of a consumer group subscribe to; None if that cannot be told."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            for _, subscription in member.protocols:
                try:
                    topics.update(ConsumerProtocolSubscription.from_bytes(subscription).topics)
                except MalformedMessage:
                    return None
        return topics

    # ---------------------------------------------------------------- what members are told

    def join_result(self, member: Member) -> JoinResult:
        """The current generation, as this member sees it."""
        members: tuple[JoinedMember, ...] = ()
        if member.member_id == self.leader_id:
            members = tuple(
                JoinedMember(each.member_id, each.instance_id, each.metadata_for(self.protocol_name))
                for each in self.members.values()
            )
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader_id or "",
            members,
        )

    def sync_result(self, member: Member) -> SyncResult:
        """The member's part of the assignment."""
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    # ---------------------------------------------------------------- storage

    def metadata(
        self, members: Iterable[Member], leader_id: str | None, assignments: Mapping[str, bytes] | None = None
    ) -> GroupMetadata:
        """The generation to be stored, with these members; without `assignments` they keep those that they have."""
        return GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=leader_id,
            members=[
                StoredMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata_for(self.protocol_name),
                    assignment=member.assignment if assignments is None else assignments[member.member_id],
                )
                for member in members
            ],
        )

    def load(self, stored: GroupMetadata) -> None:
        """What `metadata` has put down."""
        self.generation_id = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol
        for each in stored.members:
            self.add(
                Member(
                    member_id=each.member_id,
                    instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    session_timeout_ms=each.session_timeout,
                    rebalance_timeout_ms=each.session_timeout if each.rebalance_timeout < 0 else each.rebalance_timeout,
                    protocols=((stored.protocol or "", each.subscription),),
                    assignment=each.assignment,
                )
            )
        if stored.leader in self.members:
            self.leader_id = stored.leader


def select_protocol(members: Iterable[Member]) -> str | None:
    """Each member votes for the first of its protocols that all can do; the first one with the most votes is taken."""
    voters = list(members)
    common = set.intersection(*({name for name, _ in member.protocols} for member in voters))
    votes = Counter(next(name for name, _ in member.protocols if name in common) for member in voters if common)
    return votes.most_common(1)[0][0] if votes else None
