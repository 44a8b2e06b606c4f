"""The members of one group, each in a process of its own, and waiting for what they come to agree on."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, Self

from tests.compat.clients.kafkajs import DRIVER, ENVIRONMENT
from tests.compat.member import Task

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 40.0


class Member:
    """One process; what it has said so far is in its fields. They change only while the group waits."""

    def __init__(self, task: Task, stderr: Path, said: queue.Queue[tuple[Member, dict[str, Any]]]) -> None:
        self.task = task
        self.assigned: list[int] | None = None
        self.revocations = 0
        self.records: list[tuple[int, int, str]] = []
        self.commits = 0
        self.has_ended = False
        self._stderr = stderr
        program = ["node", str(DRIVER)] if task.client == "kafkajs" else [sys.executable, "-m", "tests.compat.member"]
        with stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
            )
        threading.Thread(target=self._read, args=[said], daemon=True).start()
        self.tell(json.dumps(vars(task)))

    def _read(self, said: queue.Queue[tuple[Member, dict[str, Any]]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said.put((self, json.loads(line)))
        said.put((self, {"ended": True}))

    def take(self, event: dict[str, Any]) -> None:
        match event:
            case {"assigned": partitions}:
                self.assigned = partitions
            case {"revoked": _}:
                self.revocations += 1
            case {"record": [partition, offset, value]}:
                self.records.append((partition, offset, value))
            case {"committed": _}:
                self.commits += 1
            case {"ended": _}:
                self.has_ended = True
                self.assigned = None

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def leave(self) -> None:
        self.tell("close")
        assert self.process.wait(TIMEOUT_SECONDS) == 0, self._stderr.read_text()
        self.assigned = None

    def kill(self) -> None:
        """The process is gone without a word to the broker."""
        self.process.kill()
        self.process.wait()
        self.assigned = None

    def __repr__(self) -> str:
        errors = self._stderr.read_text()[-2_000:]
        return f"<{self.task.client}: {self.assigned}, {len(self.records)} records, {self.process.returncode} {errors}>"


class GroupUnderTest:
    """Starts members; `wait_until` lets them speak until something holds."""

    def __init__(self, bootstrap: str, topic: str, group: str, folder: Path) -> None:
        self.members: list[Member] = []
        self._bootstrap, self._topic, self._group = bootstrap, topic, group
        self._folder = folder
        self._said: queue.Queue[tuple[Member, dict[str, Any]]] = queue.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.process.kill()
            with member.process:
                pass

    def start(self, client: str, **options: Any) -> Member:
        task = Task(client, self._bootstrap, self._topic, self._group, **options)
        member = Member(task, self._folder / f"member-{len(self.members)}.log", self._said)
        self.members.append(member)
        return member

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float = TIMEOUT_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            try:
                member, event = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"not within {seconds:g} s: {what}; {self.members}") from None
            member.take(event)

    def wait_until_shared(self, partitions: int, *members: Member, seconds: float = TIMEOUT_SECONDS) -> None:
        """Until every partition has one of these members, and every member has a partition."""

        def is_shared() -> bool:
            shares = [member.assigned or [] for member in members]
            return all(shares) and sorted(chain.from_iterable(shares)) == list(range(partitions))

        self.wait_until(is_shared, f"{partitions} partitions shared by {len(members)} members", seconds)

    def wait_until_read(self, count: int, *members: Member) -> None:
        self.wait_until(
            lambda: len({place[:2] for member in members for place in member.records}) >= count, f"{count} records read"
        )
