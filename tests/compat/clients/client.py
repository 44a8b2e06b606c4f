"""What the scenarios ask of every client: a record, a refusal, and the calls that each adapter gives its client's way.

All calls work on partition 0. A client that cannot do a thing raises `NotImplementedError`, and the test is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.2


class Record(NamedTuple):
    """One record, as it is sent or as it was received; a `timestamp` of None lets the client choose."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class Received(NamedTuple):
    """A record where it was found."""

    offset: int
    record: Record


class Refused(Exception):
    """The broker's answer was an error; `code` is Kafka's number for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def nothing() -> None:
    """Done while a consumer waits."""


class Client:
    """One client library, told where the broker is."""

    name: str
    codecs: tuple[str, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
    reset_policies: tuple[str, ...] = ("earliest", "latest", "error")

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    # Records

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
        """Sends the records and waits for their offsets (-1 with acks=0)."""
        raise NotImplementedError

    def consume(
        self,
        topic: str,
        count: int,
        *,
        start: int | None = None,
        reset: str = "earliest",
        while_waiting: Callable[[], object] = nothing,
    ) -> list[Received]:
        """The next `count` records at `start`, or from where `reset` says; fewer after a time-out."""
        raise NotImplementedError

    # Administration

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        raise NotImplementedError

    def topic_names(self) -> set[str]:
        raise NotImplementedError

    def partition_count(self, topic: str) -> int:
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def topic_config(self, topic: str) -> dict[str, str]:
        raise NotImplementedError

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def delete_records(self, topic: str, before: int) -> None:
        raise NotImplementedError

    def offset_range(self, topic: str) -> tuple[int, int]:
        """The earliest offset, and the one that the next record gets."""
        raise NotImplementedError

    def offset_at(self, topic: str, timestamp: int) -> int | None:
        """Where the first record at or after `timestamp` is; None if there is none."""
        raise NotImplementedError

    # Groups

    def group_names(self) -> set[str]:
        raise NotImplementedError

    def group_state(self, group: str) -> tuple[str, int]:
        """The group's state by Kafka's name, and how many members it has."""
        raise NotImplementedError

    def committed(self, group: str, topic: str) -> int | None:
        raise NotImplementedError

    def delete_group(self, group: str) -> None:
        raise NotImplementedError
