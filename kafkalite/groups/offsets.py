"""The committed positions of all groups, which of them have expired, and all of it made anew from records. Pure.

Times are the wall clock's, because they outlive the process.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkalite.errors import MalformedMessage
from kafkalite.groups.records import CommittedOffset, GroupMetadata, GroupRow, decode_row
from kafkalite.model import TopicPartition

logger = logging.getLogger(__name__)

_NONE: Mapping[TopicPartition, CommittedOffset] = {}


class OffsetTable:
    """{group: {partition: position}}; a group without positions takes no room."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All positions of a group; to be read only, and not across a change."""
        return self._groups.get(group_id, _NONE)

    def groups(self) -> Collection[str]:
        """The groups that have any position."""
        return self._groups.keys()

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        self._groups.setdefault(group_id, {})[partition] = committed

    def remove(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget these positions, where there are any."""
        offsets = self._groups.get(group_id)
        if offsets is None:
            return
        for partition in partitions:
            offsets.pop(partition, None)
        if not offsets:
            del self._groups[group_id]

    def of_topic(self, topic: str) -> Iterator[tuple[str, list[TopicPartition]]]:
        """Each group with positions in a topic, and the partitions; the table may change between two of them."""
        for group_id, offsets in list(self._groups.items()):
            partitions = [partition for partition in offsets if partition.topic == topic]
            if partitions:
                yield group_id, partitions


def expired_offsets(
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    now_ms: int,
    retention_ms: int,
    empty_since_ms: int = -1,
    keep_topics: Collection[str] = (),
) -> list[TopicPartition]:
    """The positions that nobody has used for the retention time.

    The time counts from the commit, or from when the group became empty if that is later (-1: not known, or it never
    had members). A group with members keeps the topics that it subscribes to, however old the commits are.
    """
    kept_since_ms = now_ms - retention_ms
    if empty_since_ms > kept_since_ms:
        return []
    return [
        partition
        for partition, committed in offsets.items()
        if committed.commit_timestamp_ms <= kept_since_ms and partition.topic not in keep_topics
    ]


@dataclass(slots=True)
class Replayed:
    """What all records of the internal topic say together."""

    groups: dict[str, GroupMetadata] = field(default_factory=dict)
    offsets: OffsetTable = field(default_factory=OffsetTable)
    skipped: int = 0
    """Records that could not be read."""

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """The next records, in the order of their writing; what cannot be understood is logged and skipped."""
        for key, value in records:
            try:
                row = None if key is None else decode_row(key, value)
            except MalformedMessage as error:
                self.skipped += 1
                logger.warning("skipped a record of the offsets topic: %s (key %r)", error, (key or b"")[:200])
                continue
            if isinstance(row, GroupRow):
                if row.metadata is None:
                    self.groups.pop(row.group, None)
                else:
                    self.groups[row.group] = row.metadata
            elif row is not None:
                if row.committed is None:
                    self.offsets.remove(row.group, [row.partition])
                else:
                    self.offsets.put(row.group, row.partition, row.committed)
