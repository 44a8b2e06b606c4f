"""What a broker counts, as plain numbers on the event loop; `exposition` turns them into Prometheus' text.

The hot path adds to attributes and imports nothing; names and units are given where they are shown.
"""

from __future__ import annotations

import selectors
from collections import Counter
from time import perf_counter

from kafkalite.protocol.api import APIS


class RequestTimes:
    """Where the time of one API's requests went, in seconds: K9's split."""

    __slots__ = ("count", "local", "queue", "remote", "send")

    def __init__(self) -> None:
        self.count = 0
        self.queue = 0.0
        """Between its arrival and its handler."""
        self.local = 0.0
        """In its handler."""
        self.remote = 0.0
        """Waiting for something: data, a flush, other members."""
        self.send = 0.0
        """Between its answer and the last byte that the peer has taken."""


class TimedSelector(selectors.DefaultSelector):
    """Knows how long the event loop had nothing to do."""

    idle_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begun = perf_counter()
        ready = super().select(timeout)
        self.idle_seconds += perf_counter() - begun
        return ready


class Metrics:
    """The counts of one broker since its start."""

    def __init__(self) -> None:
        self.started_at = perf_counter()
        self.requests = {key: RequestTimes() for key in APIS}
        self.records_in: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        self.failed_produces: Counter[str] = Counter()
        """By error, not by topic: a client can name as many topics as it likes."""
        self.failed_fetches: Counter[str] = Counter()
        self.connections_accepted = 0
        self.connections_closed: Counter[str] = Counter()
        """By cause: those that the broker itself has closed."""
