"""The end of a process, without one: from a chosen change to the file system on, nothing reaches the disk any more.

Cheaper than a real `kill -9` (see `kill_points`) by a factor of a hundred, so every single step can be tried. Whatever
the code does on its way out (handlers, `finally`) finds a dead disk, as it would not run at all in a killed process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from kafkalite.storage import disk
from tests.support.kill_points import FUNCTIONS


class Crash(BaseException):
    """Not an `Exception`: no handler may take it for a failure of the disk."""


class CrashPoint:
    """The `nth` change to the file system, whichever it is; for `half`, the nth write."""

    def __init__(self, nth: int, when: str) -> None:
        self._left = nth
        self._when = when
        self.is_reached = False

    def wrap(self, name: str, function: Callable[..., None]) -> Callable[..., None]:
        def deadly(*arguments: Any) -> None:
            if self.is_reached:
                raise Crash
            if self._when != "half" or name == "write_at":
                self._left -= 1
            if self._left:
                function(*arguments)
                return
            self.is_reached = True
            if self._when == "half":
                file, data, position = arguments
                function(file, data[: len(data) // 2], position)
            elif self._when == "after":
                function(*arguments)
            raise Crash

        return deadly


@contextmanager
def crashing(nth: int, when: str) -> Iterator[CrashPoint]:
    """What runs within ends at its nth step; ask the result whether there were that many."""
    point = CrashPoint(nth, when)
    with pytest.MonkeyPatch.context() as patch:
        for name in FUNCTIONS:
            patch.setattr(disk, name, point.wrap(name, getattr(disk, name)))
        with suppress(Crash):
            yield point
