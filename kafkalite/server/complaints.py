"""Log lines about peers, at most one per cause and interval: a hostile or broken client must not fill the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 10.0


class Complaints:
    """What peers do wrong, by cause."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def note(self, cause: str, detail: str, error: BaseException | None = None) -> None:
        """Log it, unless the same cause was logged just now; then it is counted, and told with the next.

        With an `error` the fault is ours: it is logged as one, with where it happened.
        """
        now = self._monotonic()
        if now - self._last.get(cause, -_INTERVAL_SECONDS) < _INTERVAL_SECONDS:
            self._suppressed[cause] = self._suppressed.get(cause, 0) + 1
            return
        self._last[cause] = now
        more = self._suppressed.pop(cause, 0)
        level = logging.WARNING if error is None else logging.ERROR
        suffix = f" (and {more} more since the last such line)" if more else ""
        logger.log(level, "%s: %s%s", cause, detail, suffix, exc_info=error)
