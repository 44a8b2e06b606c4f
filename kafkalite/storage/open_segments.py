"""A bound on what closed segments hold open: the least recently read one lets go of its file and indexes."""

from __future__ import annotations

from collections import OrderedDict

from kafkalite.storage.segment import Segment


class OpenSegments:
    """Shared by all logs of a broker."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._segments: OrderedDict[int, Segment] = OrderedDict()

    def touch(self, segment: Segment) -> None:
        """A closed segment is about to be read."""
        self._segments[id(segment)] = segment
        self._segments.move_to_end(id(segment))
        if len(self._segments) > self._limit:
            _, oldest = self._segments.popitem(last=False)
            oldest.release()

    def forget(self, segment: Segment) -> None:
        """A segment is gone from its log."""
        self._segments.pop(id(segment), None)
