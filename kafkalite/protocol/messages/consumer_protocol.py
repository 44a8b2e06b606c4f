"""What consumers exchange inside of JoinGroup and SyncGroup; to the broker these are opaque bytes.

    version int16 | Subscription or Assignment of that version

v1  the partitions that the member owns, for cooperative rebalance (KIP-429).
v2  the generation in which it owned them (KIP-792).
v3  rack (KIP-881).

Invariant: a payload of a later version than ours is read as our last one and what follows is ignored, because later
versions only append fields. The embedded formats are never flexible.
"""

from collections.abc import Sequence
from typing import Self

from kafkalite.errors import MalformedMessage
from kafkalite.protocol.schema import BytesLike, Int32, Message, Struct, field


class TopicPartitions(Struct):
    topic: str
    partitions: Sequence[Int32]


class _Payload(Message):
    """A message that is preceded by its own version."""

    def to_bytes(self, version: int | None = None) -> bytes:
        """The version, by default the last one, and the message."""
        chosen = self.versions[1] if version is None else version
        return chosen.to_bytes(2, "big") + self.encode(chosen)

    @classmethod
    def from_bytes(cls, payload: BytesLike) -> Self:
        """Reads the version, and the message as the nearest version that we know."""
        version = int.from_bytes(payload[:2], "big", signed=True)
        if len(payload) < 2 or version < 0:
            raise MalformedMessage(f"{cls.__name__}: no version that can be, in a payload of {len(payload)} bytes")
        return cls.decode(payload, min(version, cls.versions[1]), start=2, exact=version <= cls.versions[1])


class ConsumerProtocolSubscription(_Payload, versions=(0, 3), flexible_from=None):
    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartitions] = field(since=1, default=())
    generation_id: Int32 = field(since=2, default=-1)
    rack_id: str | None = field(since=3, default=None)


class ConsumerProtocolAssignment(_Payload, versions=(0, 3), flexible_from=None):
    assigned_partitions: Sequence[TopicPartitions]
    user_data: bytes | None = None
