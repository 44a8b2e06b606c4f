"""Lets a process end itself, as `kill -9` would, before, within or after a chosen change to the file system.

Everything that storage does to files goes through `kafkalite.storage.disk`, so its functions are replaced by ones that
count the calls whose path matches. `half` writes half of the bytes first: a torn write.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kafkalite.storage import disk

FUNCTIONS = ("write_at", "truncate", "sync_data", "sync_folder", "rename", "remove")


class KillPoint(NamedTuple):
    """The `nth` call of a function (of any, if it is "any") on a path that matches, and when in it the end comes."""

    function: str
    path: str
    nth: int = 1
    when: str = "before"

    def __str__(self) -> str:
        return f"{self.when} {self.function} number {self.nth} of {self.path}"


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: KillPoint) -> None:
    """From now on this process is doomed."""
    pattern = re.compile(point.path)
    calls = 0

    def wrap(name: str, function: Callable[..., None]) -> Callable[..., None]:
        def deadly(*arguments: Any) -> None:
            nonlocal calls
            if pattern.search(_path_of(name, arguments)):
                calls += 1
                if calls == point.nth:
                    if name == "write_at" and point.when == "half":
                        file, data, position = arguments
                        function(file, data[: len(data) // 2], position)
                    elif point.when == "after":
                        function(*arguments)
                    kill_self()
            function(*arguments)

        return deadly

    for name in FUNCTIONS:
        if point.function in (name, "any"):
            setattr(disk, name, wrap(name, getattr(disk, name)))


def _path_of(name: str, arguments: tuple[Any, ...]) -> str:
    """The path that a call changes; for a rename the new one."""
    subject = arguments[1] if name == "rename" else arguments[0]
    path: Path = subject if isinstance(subject, Path) else subject.path
    return path.name


NAMED_POINTS = [
    *(KillPoint("write_at", r"\.log$", 7, when) for when in ("before", "half", "after")),
    *(KillPoint("write_at", r"[1-9]\d*\.log$", 1, when) for when in ("before", "half")),  # the first one after a roll
    *(KillPoint("sync_data", r"\.log$", 2, when) for when in ("before", "after")),
    KillPoint("sync_folder", ".", 4, "after"),
    *(KillPoint("write_at", r"\.index\.tmp$", 2, when) for when in ("before", "half", "after")),
    *(KillPoint("rename", r"\.(time)?index$", 3, when) for when in ("before", "after")),
    *(KillPoint("write_at", r"\.snapshot\.tmp$", 1, when) for when in ("before", "half")),
    *(KillPoint("rename", r"\.snapshot$", 1, when) for when in ("before", "after")),
    *(KillPoint("write_at", r"checkpoint\.tmp$", 2, when) for when in ("before", "half", "after")),
    *(KillPoint("rename", r"checkpoint$", 2, when) for when in ("before", "after")),
    *(KillPoint("rename", r"\.deleted$", nth, when) for nth in (1, 2, 4) for when in ("before", "after")),
    KillPoint("remove", r"\.deleted$", 1, "after"),
]
"""Reached by any log that rolls, flushes, saves checkpoints, and deletes from its start."""

TRUNCATION_POINTS = [
    *(KillPoint("truncate", r"\.log$", 1, when) for when in ("before", "after")),
    *(KillPoint("remove", r"\.(time)?index$", nth, when) for nth in (1, 2) for when in ("before", "after")),
    *(KillPoint("rename", r"\.log\.deleted$", 1, when) for when in ("before", "after")),
    *(KillPoint("remove", r"\.snapshot$", 1, when) for when in ("before", "after")),
]
"""Reached by a log that is truncated; only the first one of these belongs to truncation alone."""

COMPACTION_POINTS = [
    *(KillPoint("write_at", r"\.cleaned$", nth, when) for nth in (1, 4) for when in ("before", "half", "after")),
    *(KillPoint("sync_data", r"\.cleaned$", 1, when) for when in ("before", "after")),
    *(KillPoint("rename", r"\.swap$", nth, when) for nth in (1, 2) for when in ("before", "after")),
    *(KillPoint("remove", r"\d\.(index|timeindex|snapshot|log)$", nth, "after") for nth in range(1, 7)),
    KillPoint("remove", r"\d\.log$", 1, "after"),
    *(KillPoint("rename", r"\.log$", nth, when) for nth in (1, 2) for when in ("before", "after")),
    *(KillPoint("write_at", r"\.timeindex\.tmp$", 5, when) for when in ("before", "half")),
]
"""Reached by a log that is compacted: every step of writing the result and of putting it in place."""
