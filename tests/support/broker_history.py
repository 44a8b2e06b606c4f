"""The history checker of the broker's campaigns: what clients sent, were told and have read, and nothing else.

    I1  no acknowledged record is lost           I5  nothing is read at or past the high watermark that was reported
    I2  one value per offset, over all readers   I6  no value that has definitely failed is visible
    I3  offsets rise, without gaps               I7  a send begun after another's acknowledgement has the higher offset
    I4  no value twice, as every producer is idempotent; and never a value that nobody sent

A send has three outcomes: ok (acknowledged, with its offset), fail (certainly not written), and unknown, which may be
read once or not at all. Every value of a history is sent only once, so a value names its send.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Send:
    """One value on its way to a partition; the producer that sends it changes the rest."""

    partition: int
    value: bytes
    begun: int
    outcome: Outcome = Outcome.UNKNOWN
    ended: int = -1
    offset: int = -1

    def acknowledged(self, offset: int) -> None:
        self.ended = time.monotonic_ns()
        self.offset = offset
        self.outcome = Outcome.OK

    def refused(self) -> None:
        self.ended = time.monotonic_ns()
        self.outcome = Outcome.FAIL

    def __str__(self) -> str:
        return f"{self.value!r} ({self.outcome.value}, partition {self.partition}, offset {self.offset})"


class Seen(NamedTuple):
    """A record as a reader has got it."""

    offset: int
    value: bytes


class Read(NamedTuple):
    """One answer to a reader: what came from `position` on, and the high watermark that was reported, or -1."""

    reader: str
    partition: int
    position: int
    records: Sequence[Seen]
    high_watermark: int = -1


class BrokerHistory:
    """What all clients of a broker have done; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sends: list[Send] = []
        self.reads: list[Read] = []
        self._complete: list[tuple[str, int, int]] = []

    def begin(self, partition: int, value: bytes) -> Send:
        """A value is about to be sent."""
        send = Send(partition, value, time.monotonic_ns())
        with self._lock:
            self.sends.append(send)
        return send

    def read(self, read: Read) -> None:
        """A reader has got an answer. It must go on where this one ends."""
        with self._lock:
            self.reads.append(read)

    def has_read_all(self, reader: str, partition: int, end_offset: int) -> None:
        """After every send has ended, this reader has read the partition from its start to its end."""
        with self._lock:
            self._complete.append((reader, partition, end_offset))

    def count(self, outcome: Outcome) -> int:
        return sum(send.outcome is outcome for send in self.sends)

    def violations(self) -> list[str]:
        """What must not be; empty if all is well."""
        return [*self._of_order(), *self._of_values(), *self._of_completeness(), *self._of_real_time()]

    def _of_order(self) -> Iterator[str]:
        """I3 and I5: each reader by itself."""
        expected: dict[tuple[str, int], int] = {}
        for read in self.reads:
            place = (read.reader, read.partition)
            who = f"reader {read.reader} of partition {read.partition}"
            at = expected.get(place, read.position)
            if read.position != at:
                yield f"I3: {who} went on at {read.position}, not at {at}"
                at = read.position
            for record in read.records:
                if record.offset != at:
                    yield f"I3: {who} got offset {record.offset}, not {at}"
                if 0 <= read.high_watermark <= record.offset:
                    yield f"I5: {who} got offset {record.offset}; the high watermark is {read.high_watermark}"
                at = record.offset + 1
            expected[place] = at

    def _of_values(self) -> Iterator[str]:
        """I2, I4 and I6, and that values are those that were sent, where they were sent to."""
        sends = {send.value: send for send in self.sends}
        assert len(sends) == len(self.sends), "a value was used for two sends"
        at_offset = {(send.partition, send.offset): send.value for send in self._acknowledged()}
        if len(at_offset) != self.count(Outcome.OK):
            yield from self._acknowledged_twice()
        places: dict[bytes, tuple[int, int]] = {}
        for read in self.reads:
            for offset, value in read.records:
                place = (read.partition, offset)
                if at_offset.setdefault(place, value) != value:
                    yield f"I2: {read.reader} got {value!r} at {place}, where {at_offset[place]!r} is as well"
                if places.setdefault(value, place) != place:
                    yield f"I4: {value!r} is at {places[value]} and again at {place}"
                send = sends.get(value)
                if send is None or send.partition != read.partition:
                    yield f"nobody sent {value!r}, which {read.reader} got at {place}"
                elif send.outcome is Outcome.FAIL:
                    yield f"I6: {value!r}, whose send has failed, was read at {place}"
                elif send.outcome is Outcome.OK and send.offset != offset:
                    yield f"I2: {send} was read at offset {offset}"

    def _acknowledged_twice(self) -> Iterator[str]:
        first: dict[tuple[int, int], Send] = {}
        for send in self._acknowledged():
            if first.setdefault((send.partition, send.offset), send) is not send:
                yield f"I2: {first[send.partition, send.offset]} and {send} have the same offset"

    def _of_completeness(self) -> Iterator[str]:
        """I1: each reader that has read everything has got everything that was acknowledged."""
        acknowledged: defaultdict[int, list[Send]] = defaultdict(list)
        for send in self._acknowledged():
            acknowledged[send.partition].append(send)
        checked = {partition for _, partition, _ in self._complete}
        for partition in acknowledged.keys() - checked:
            yield f"I1: nobody has read partition {partition} to its end"
        got: defaultdict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        for read in self.reads:
            got[read.reader, read.partition].update(read.records)
        for reader, partition, end in self._complete:
            values = got[reader, partition]
            if values.keys() != set(range(end)):
                yield f"I3: {reader} got {len(values)} of the {end} offsets of partition {partition}"
            for send in acknowledged[partition]:
                if values.get(send.offset) != send.value:
                    yield f"I1: {send} is lost: {reader} got {values.get(send.offset)!r} there"

    def _of_real_time(self) -> Iterator[str]:
        """I7: from the highest offset down, nobody begins after one that lies higher was acknowledged."""
        offsets = {send: send.offset for send in self._acknowledged()}
        unknown = {send.value: send for send in self.sends if send.outcome is Outcome.UNKNOWN}
        for read in self.reads:
            offsets |= {unknown[seen.value]: seen.offset for seen in read.records if seen.value in unknown}
        by_offset = sorted(offsets, key=lambda send: offsets[send], reverse=True)
        earliest: dict[int, Send] = {}
        for send in by_offset:
            above = earliest.get(send.partition)
            if above is not None and send.begun > above.ended:
                yield f"I7: {send} at {offsets[send]} was begun after {above} was acknowledged"
            if send.outcome is Outcome.OK and (above is None or send.ended < above.ended):
                earliest[send.partition] = send

    def _acknowledged(self) -> Iterable[Send]:
        return (send for send in self.sends if send.outcome is Outcome.OK)
