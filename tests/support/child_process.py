"""Runs a writing child, kills it if told to, and takes what it said into a history."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.history import History
from tests.support.writer_child import Task

ROOT = Path(__file__).parents[2]


class Outcome(NamedTuple):
    """What a child has said, and whether it was killed."""

    lines: list[str]
    was_killed: bool


def run_child(
    task: Task,
    errors: Path,
    *,
    kill_after: int | None = None,
    prefix: Iterable[str] = (),
    expected_error: str | None = None,
) -> Outcome:
    """Run a child to its end; after `kill_after` lines of it, kill it wherever it is.

    An error of its own is raised, unless it is the expected one.
    """
    command = [*prefix, sys.executable, "-m", "tests.support.writer_child", task.to_json()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    lines: list[str] = []
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=environment, text=True) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if len(lines) == kill_after:
                child.kill()
    said = errors.read_text()
    if expected_error is not None:
        assert child.returncode == 1, f"{task} ended with {child.returncode}:\n{said[-5000:]}"
        assert expected_error in said
    elif child.returncode not in (0, -signal.SIGKILL):
        raise AssertionError(f"{task} ended with {child.returncode}:\n{said[-5000:]}")
    return Outcome(lines, child.returncode == -signal.SIGKILL)


def take_note(history: History, lines: Iterable[str]) -> None:
    for line in lines:
        what, *numbers = line.split()
        match what, [int(number) for number in numbers]:
            case "S", [producer, sequence]:
                history.attempt(producer, sequence)
            case "A", [offset, producer, sequence, is_flushed]:
                history.acknowledge(offset, producer, sequence, is_flushed=bool(is_flushed))
            case "r", [offset]:
                history.may_delete_before(offset)
            case "R", [offset]:
                history.deleted(offset)
            case "t", [offset]:
                history.truncating(offset)
            case "T", [offset]:
                history.truncated(offset)
            case "O", []:
                pass
            case _:
                raise AssertionError(f"what does the child mean by {line!r}?")
