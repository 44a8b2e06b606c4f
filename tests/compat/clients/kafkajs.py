"""kafkajs, through the node program tests/compat/kafkajs/driver.js: one process per call."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.compat.clients.client import TIMEOUT_SECONDS, Client, Received, Record, Refused, nothing

DRIVER = Path(__file__).parents[1] / "kafkajs" / "driver.js"
ENVIRONMENT = {**os.environ, "KAFKAJS_NO_PARTITIONER_WARNING": "1", "NODE_NO_WARNINGS": "1"}


def missing() -> str | None:
    """Why kafkajs cannot be used here."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not (DRIVER.parent / "node_modules" / "kafkajs").is_dir():
        return "kafkajs is not installed: run `make setup` where npm is, or tools/install_test_clients.py"
    return None


class KafkajsClient(Client):
    name = "kafkajs"
    codecs = ("none", "gzip", "snappy")  # the rest needs native packages
    reset_policies = ("earliest",)

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
        max_request_bytes: int = 1_000_000,  # kafkajs has no limit of its own
    ) -> list[int]:
        encoded = [
            (_text(key), _text(value), [(name, _text(content)) for name, content in headers], timestamp)
            for key, value, headers, timestamp in records
        ]
        offsets: list[int] = self._call(
            "produce", topic=topic, records=encoded, codec=codec, acks=acks, idempotent=idempotent
        )
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
        group = f"kafkajs-{uuid.uuid4()}"
        rows = self._call("consume", topic=topic, count=count, start=start, reset=reset, group=group)
        return [
            Received(
                offset,
                Record(
                    _bytes(key),
                    _bytes(value),
                    tuple((name, _bytes(content)) for name, content in headers),
                    timestamp,
                ),
            )
            for offset, key, value, headers, timestamp in rows
        ]

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        if self._call("create_topic", topic=topic, partitions=partitions, configs=configs or {}) is False:
            raise Refused(36, "kafkajs gives false where a topic exists")

    def topic_names(self) -> set[str]:
        return set(self._call("topic_names"))

    def partition_count(self, topic: str) -> int:
        return int(self._call("partition_count", topic=topic))

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("add_partitions", topic=topic, total=total)

    def topic_config(self, topic: str) -> dict[str, str]:
        return dict(self._call("topic_config", topic=topic))

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        self._call("set_topic_config", topic=topic, name=name, value=value)

    def delete_topic(self, topic: str) -> None:
        self._call("delete_topic", topic=topic)

    def delete_records(self, topic: str, before: int) -> None:
        self._call("delete_records", topic=topic, before=before)

    def offset_range(self, topic: str) -> tuple[int, int]:
        first, end = self._call("offset_range", topic=topic)
        return first, end

    def offset_at(self, topic: str, timestamp: int) -> int | None:
        # kafkajs answers with the end of the log where no record is that late.
        offset: int = self._call("offset_at", topic=topic, timestamp=timestamp)
        return None if offset == self.offset_range(topic)[1] else offset

    def group_names(self) -> set[str]:
        return set(self._call("group_names"))

    def group_state(self, group: str) -> tuple[str, int]:
        state, members = self._call("group_state", group=group)
        return state, members

    def committed(self, group: str, topic: str) -> int | None:
        offset = int(self._call("committed", group=group, topic=topic))
        return None if offset < 0 else offset

    def delete_group(self, group: str) -> None:
        self._call("delete_group", group=group)

    def _call(self, operation: str, **arguments: Any) -> Any:
        request = json.dumps({"operation": operation, "bootstrap": self.bootstrap, **arguments})
        run = subprocess.run(
            ["node", str(DRIVER)],
            input=request + "\n",
            capture_output=True,
            text=True,
            timeout=2 * TIMEOUT_SECONDS,
            env=ENVIRONMENT,
            check=False,
        )
        if run.returncode:
            raise AssertionError(f"kafkajs, {operation}: {run.stderr}")
        answer = json.loads(run.stdout)
        if refused := answer.get("refused"):
            raise Refused(refused["code"] if refused["code"] is not None else -1, refused["message"])
        return answer["result"]


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
