"""What the internal topic `__consumer_offsets` holds, in Kafka's own formats: committed positions and groups. Pure.

    key     version int16 | group, topic, partition   0, 1: a committed position
                          | group                     2: a group's generation and members
    value   version int16 | the message; null is a tombstone

Values are written in version 3 and read in 0 to 4. A key of another version is one of Kafka's newer kinds of group, and
is passed over by whoever reads.

Invariant: whatever bytes a record has, reading it gives a row, None, or `MalformedMessage`; nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from kafkalite.errors import MalformedMessage
from kafkalite.model import TopicPartition
from kafkalite.protocol.schema import BytesLike, Int32, Int64, Message, Struct, field

_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""A record of the internal topic; a null value is a tombstone."""


class CommittedOffset(NamedTuple):
    """A group's position in one partition: the next offset that it wants to read."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int


class OffsetKey(Message, versions=(0, 1), flexible_from=None):
    group: str
    topic: str
    partition: Int32


class GroupKey(Message, versions=(2, 2), flexible_from=None):
    group: str


class OffsetValue(Message, versions=(0, 4), flexible_from=4):
    offset: Int64
    leader_epoch: Int32 = field(since=3, default=-1)
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(since=1, until=1, default=-1)


class StoredMember(Struct):
    member_id: str
    group_instance_id: str | None = field(since=3, default=None)
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = field(since=1, default=-1)
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


class GroupMetadata(Message, versions=(0, 4), flexible_from=4):
    """A group as it is stored: in its generation all members have their assignments, or there is no member."""

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = field(since=2, default=-1)
    members: Sequence[StoredMember]


class OffsetRow(NamedTuple):
    """A record about one committed position; None removes it."""

    group: str
    partition: TopicPartition
    committed: CommittedOffset | None


class GroupRow(NamedTuple):
    """A record about one group; None removes it."""

    group: str
    metadata: GroupMetadata | None


Row: TypeAlias = OffsetRow | GroupRow


def encode_row(row: Row) -> KeyValue:
    """The key and value of a row."""
    if isinstance(row, GroupRow):
        key = _versioned(GroupKey(group=row.group), _GROUP_KEY_VERSION)
        return key, None if row.metadata is None else _versioned(row.metadata, _VALUE_VERSION)
    topic, partition = row.partition
    key = _versioned(OffsetKey(group=row.group, topic=topic, partition=partition), _OFFSET_KEY_VERSION)
    if row.committed is None:
        return key, None
    offset, leader_epoch, metadata, timestamp = row.committed
    value = OffsetValue(offset=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp=timestamp)
    return key, _versioned(value, _VALUE_VERSION)


def decode_row(key: BytesLike, value: BytesLike | None) -> Row | None:
    """The row of a record; None if it is of a kind that only newer brokers know."""
    version = _version_of(key)
    if version == _GROUP_KEY_VERSION:
        group = GroupKey.decode(key, version, start=2).group
        return GroupRow(group, None if value is None else GroupMetadata.decode(value, _value_version(value), start=2))
    if not 0 <= version <= _OFFSET_KEY_VERSION:
        return None
    offset_key = OffsetKey.decode(key, version, start=2)
    partition = TopicPartition(offset_key.topic, offset_key.partition)
    if value is None:
        return OffsetRow(offset_key.group, partition, None)
    stored = OffsetValue.decode(value, _value_version(value), start=2)
    committed = CommittedOffset(stored.offset, stored.leader_epoch, stored.metadata, stored.commit_timestamp)
    return OffsetRow(offset_key.group, partition, committed)


def _versioned(message: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + message.encode(version)


def _version_of(data: BytesLike) -> int:
    if len(data) < 2:
        raise MalformedMessage(f"a key or value of {len(data)} bytes has no version")
    return int.from_bytes(data[:2], "big", signed=True)


def _value_version(value: BytesLike) -> int:
    version = _version_of(value)
    first, last = OffsetValue.versions
    if not first <= version <= last:
        raise MalformedMessage(f"a value of version {version}; known are {first} to {last}")
    return version
