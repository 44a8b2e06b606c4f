"""The history checker of the storage campaigns: what was acknowledged, against what a reopened log serves.

    I1  no acknowledged record is lost         I3  offsets rise, without gaps on a log that is not compacted
    I2  one value per offset                   I4  no record twice, as every producer is idempotent
    and never a record that nobody sent, or with other content than its sender gave it

A send has three outcomes: acknowledged, certainly not written, or unknown, which may appear once or not at all. What
deletion or truncation may have taken is unknown too, from the moment at which it was asked for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import pairwise

from kafkalite.records.rows import Row
from tests.support.content import Sent, batch_records, claimed_identity, row_of
from tests.support.reading import Reading


class History:
    """What a log was told and what it promised."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.acknowledged: dict[int, Sent] = {}
        self.flushed: set[int] = set()
        """The acknowledged offsets that were on disk for certain when they were acknowledged."""
        self.attempted: set[Sent] = set()
        self.deletable_before = 0
        self.deleted_before = 0
        self.uncertain_from: int | None = None

    def attempt(self, producer: int, first_sequence: int) -> None:
        """A batch is about to be appended."""
        self.attempted.update(batch_records(self.seed, producer, first_sequence))

    def acknowledge(self, base_offset: int, producer: int, first_sequence: int, *, is_flushed: bool = False) -> None:
        """An append of an attempted batch has returned (or its flush, if the producer waits for that)."""
        for offset, sent in enumerate(batch_records(self.seed, producer, first_sequence), base_offset):
            known = self.acknowledged.setdefault(offset, sent)
            assert known == sent, f"I2: offset {offset} was given to {known} and to {sent}"
            if is_flushed:
                self.flushed.add(offset)

    def may_delete_before(self, offset: int) -> None:
        """Retention was asked to delete what lies below an offset; it may have done a part of it."""
        self.deletable_before = max(self.deletable_before, offset)

    def deleted(self, before_offset: int) -> None:
        """A deletion is complete: what it took must not come back."""
        self.deleted_before = max(self.deleted_before, before_offset)

    def truncating(self, end_offset: int) -> None:
        """A truncation is about to begin."""
        self.uncertain_from = end_offset

    def truncated(self, end_offset: int) -> None:
        """A truncation is complete: what it cut must not come back."""
        self.uncertain_from = None
        for offset in [offset for offset in self.acknowledged if offset >= end_offset]:
            self.attempted.discard(self.acknowledged.pop(offset))
            self.flushed.discard(offset)

    def settle(self, reading: Reading) -> None:
        """After a crash and a check: what is in the log now is what later readings must show."""
        if self.uncertain_from is not None:
            self.truncated(max(self.uncertain_from, reading.log_end_offset))
            self.uncertain_from = None
        for row in reading.rows:
            sent = claimed_identity(row)
            if sent is not None:
                self.acknowledged.setdefault(row.offset, sent)
        self.attempted = set(self.acknowledged.values())

    def next_sequence(self, producer: int) -> int:
        """Where a producer goes on after `settle`."""
        return max((sent.sequence + 1 for sent in self.acknowledged.values() if sent.producer == producer), default=0)

    @property
    def next_offset(self) -> int:
        return max(self.acknowledged, default=-1) + 1

    def violations(
        self,
        reading: Reading,
        *,
        is_compacted: bool = False,
        may_refuse: Container[int] = (),
        may_lose_from: int | None = None,
        only_flushed: bool = False,
    ) -> list[str]:
        """What a reading shows that must not be; empty if all is well.

        `may_refuse`: the offsets that damage has hit. `may_lose_from`: where a torn log may end. `only_flushed`: the
        power went, so what was acknowledged before its flush may be gone.
        """
        required_end = max(self.flushed, default=-1) + 1 if only_flushed else self.next_offset
        required_end = min(end for end in (required_end, may_lose_from, self.uncertain_from) if end is not None)
        found = [
            f"offset {offset} was refused, and is not damaged" for offset in reading.refused if offset not in may_refuse
        ]
        if reading.log_end_offset < required_end:
            found.append(f"I1: the log ends at {reading.log_end_offset}, not at or after {required_end}")
        if reading.log_start_offset > self.deletable_before:
            found.append(f"I1: the log starts at {reading.log_start_offset}, not at most at {self.deletable_before}")
        if reading.log_start_offset < self.deleted_before:
            found.append(f"the log starts at {reading.log_start_offset}, deleted was all before {self.deleted_before}")
        found += _order_violations(reading, is_compacted)
        found += self._content_violations(reading.rows)
        missing = {offset for offset in self.acknowledged if reading.log_start_offset <= offset < required_end}
        served = {row.offset for row in reading.rows}
        missing -= served
        missing -= set(reading.refused)
        if only_flushed:
            missing &= self.flushed
        if is_compacted:
            missing -= self._superseded(
                offset for offset in self.acknowledged if offset < required_end or offset in served
            )
        found += [f"I1: offset {offset}, {self.acknowledged[offset]}, is lost" for offset in sorted(missing)]
        return found

    def _content_violations(self, rows: Iterable[Row]) -> list[str]:
        found = []
        seen: dict[Sent, int] = {}
        for row in rows:
            sent = claimed_identity(row)
            if sent is None or sent not in self.attempted:
                found.append(f"offset {row.offset}: nobody sent {row}")
                continue
            if row != row_of(self.seed, sent, row.offset):
                found.append(f"offset {row.offset}: wrong content {row} of {sent}")
            if seen.setdefault(sent, row.offset) != row.offset:
                found.append(f"I4: {sent} is at offset {seen[sent]} and again at {row.offset}")
            acknowledged = self.acknowledged.get(row.offset, sent)
            if acknowledged != sent:
                found.append(f"I2: offset {row.offset} holds {sent}, {acknowledged} was acknowledged there")
        return found

    def _superseded(self, offsets: Iterable[int]) -> set[int]:
        """What compaction may drop of these: a record with a later one of its key; and in time a tombstone, too."""
        last: dict[bytes | None, int] = {}
        droppable = set()
        for offset in sorted(offsets):
            row = row_of(self.seed, self.acknowledged[offset], offset)
            droppable.add(last.pop(row.key, -1))
            if row.value is None:
                droppable.add(offset)
            last[row.key] = offset
        return droppable


def _order_violations(reading: Reading, is_compacted: bool) -> list[str]:
    offsets = [row.offset for row in reading.rows]
    found = []
    for before, after in pairwise([reading.log_start_offset - 1, *offsets]):
        if after <= before:
            found.append(f"I2/I3: offset {after} was served after {before}")
        elif not is_compacted and not set(range(before + 1, after)) <= set(reading.refused):
            found.append(f"I3: nothing between the offsets {before} and {after}")
    if not is_compacted:
        last = offsets[-1] if offsets else reading.log_start_offset - 1
        if not set(range(last + 1, reading.log_end_offset)) <= set(reading.refused):
            found.append(f"I1/I3: the log ends at {reading.log_end_offset}, reading it ended after {last}")
    return found
