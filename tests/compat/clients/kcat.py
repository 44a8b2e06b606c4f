"""kcat: what its command line can do. Keys, values and headers must be text without its separators."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence

from tests.compat.clients.client import TIMEOUT_SECONDS, Client, Received, Record, Refused, nothing

_BETWEEN_KEY_AND_VALUE = "|"


def missing() -> str | None:
    """Why kcat cannot be used here."""
    return None if shutil.which("kcat") else "kcat is not installed"


class KcatClient(Client):
    name = "kcat"
    reset_policies = ("earliest", "error")

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
        max_request_bytes: int = 1_000_000,
    ) -> list[int]:
        """Headers are those of a whole call, so records that differ in them go one by one."""
        offsets: list[int] = []
        for headers in dict.fromkeys(record.headers for record in records):
            share = [record for record in records if record.headers == headers]
            lines = b"".join(
                (record.key or b"") + _BETWEEN_KEY_AND_VALUE.encode() + (record.value or b"") + b"\n"
                for record in share
            )
            options = ["-z", codec, "-K", _BETWEEN_KEY_AND_VALUE, "-Z", "-p", "0"]
            options += ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
            options += ["-X", f"message.max.bytes={max_request_bytes}"]
            for name, content in headers:
                options += ["-H", name if content is None else f"{name}={content.decode()}"]
            self._run(["-P", "-t", topic, *options], lines)
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        start: int | None = None,
        reset: str = "earliest",
        while_waiting: Callable[[], object] = nothing,
    ) -> list[Received]:
        offset = "beginning" if start is None else str(start)
        options = ["-p", "0", "-o", offset, "-c", str(count), "-q", "-J", "-X", f"auto.offset.reset={reset}"]
        said = self._run(["-C", "-t", topic, *options])
        return [_received(line) for line in said.splitlines()]

    def topic_names(self) -> set[str]:
        return {topic["topic"] for topic in json.loads(self._run(["-L", "-J"]))["topics"]}

    def partition_count(self, topic: str) -> int:
        return len(json.loads(self._run(["-L", "-J", "-t", topic]))["topics"][0]["partitions"])

    def offset_at(self, topic: str, timestamp: int) -> int | None:
        # "topic [0] offset 3"
        offset = int(self._run(["-Q", "-t", f"{topic}:0:{timestamp}"]).split()[-1])
        return None if offset < 0 else offset

    def offset_range(self, topic: str) -> tuple[int, int]:
        first, end = (int(self._run(["-Q", "-t", f"{topic}:0:{time}"]).split()[-1]) for time in (-2, -1))
        return first, end

    def _run(self, arguments: Sequence[str], given: bytes = b"") -> str:
        run = subprocess.run(
            ["kcat", "-b", self.bootstrap, *arguments],
            input=given,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if run.returncode:
            raise Refused(_code(run.stderr.decode()), run.stderr.decode())
        return run.stdout.decode()


def _code(said: str) -> int:
    """kcat has words only."""
    if "Message size too large" in said:
        return 10
    return 1 if "out of range" in said else -1


def _received(line: str) -> Received:
    row = json.loads(line)
    flat = row.get("headers", [])
    headers = tuple((name, _bytes(content)) for name, content in zip(flat[::2], flat[1::2], strict=True))
    return Received(row["offset"], Record(_bytes(row["key"]), _bytes(row["payload"]), headers, row["ts"]))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
