"""A clock that a test moves by hand."""

from __future__ import annotations


class ManualClock:
    """Stands still until told; sleeping moves it."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = float(now_ms)

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self._now_ms += seconds * 1000
