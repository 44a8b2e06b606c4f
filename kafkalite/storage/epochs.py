"""Which leader wrote which offsets: (epoch, first offset) pairs, both rising.

A follower finds by them where its log and a new leader's part; a reader checks by them the epoch in a batch's header.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class EpochStart(NamedTuple):
    """`epoch` begins at `start_offset`."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log."""

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries = list(entries)
        self.latest = self._entries[-1].epoch if self._entries else -1
        """The epoch of the last batch; -1 while there is none."""

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that a batch of `epoch` begins at `start_offset`; known epochs change nothing."""
        if epoch > self.latest:
            self._entries.append(EpochStart(epoch, start_offset))
            self.latest = epoch

    def epoch_at(self, offset: int) -> int | None:
        """The epoch in which `offset` was written, if it is known: not so below the log's start."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[at].epoch if at >= 0 else None

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch`, and the offset where it ends; (-1, -1) if there is none."""
        at = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch) - 1
        if at < 0:
            return -1, -1
        is_last = at + 1 == len(self._entries)
        return self._entries[at].epoch, log_end_offset if is_last else self._entries[at + 1].start_offset

    def truncate_to(self, end_offset: int) -> None:
        """Forget the epochs that begin at or after the end of a shortened log."""
        self._entries = [entry for entry in self._entries if entry.start_offset < end_offset]
        self.latest = self._entries[-1].epoch if self._entries else -1

    def start_at(self, log_start_offset: int) -> None:
        """Forget the epochs that end at or before a log's new start."""
        first = bisect_right(self._entries, log_start_offset, key=lambda entry: entry.start_offset) - 1
        if first >= 0:
            epoch = self._entries[first].epoch
            self._entries[: first + 1] = [EpochStart(epoch, log_start_offset)]
