"""Runs the command `kafkalite` as a user does: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "kafkalite")


Process = subprocess.Popen[bytes]


class Ended(NamedTuple):
    """What a command left behind."""

    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()


def environment(bootstrap: str = "") -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "KAFKALITE_BOOTSTRAP": bootstrap or "127.0.0.1:1", "COLUMNS": "200"}


def kafkalite(*arguments: str, bootstrap: str = "", stdin: bytes = b"", timeout: float = 60) -> Ended:
    """Runs a command to its end. A traceback is never a good answer to a user."""
    ended = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        env=environment(bootstrap),
        timeout=timeout,
        check=False,
    )
    stderr = ended.stderr.decode()
    assert "Traceback" not in stderr, stderr
    return Ended(ended.returncode, ended.stdout, stderr)


@contextmanager
def running(*arguments: str, bootstrap: str, stdout: int | None = None, stdin: int | None = None) -> Iterator[Process]:
    """A command that goes on while the test does something else; it does not outlive the test."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment(bootstrap)
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
