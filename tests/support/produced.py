"""Batches as producers send them, and the shortest way to append one."""

from __future__ import annotations

from typing import Any

from kafkalite.records.rows import Row, encode_rows
from kafkalite.storage.log import Appended, PartitionLog


def produced(*values: bytes | None, key: bytes | None = b"k", timestamp: int = 0, **header: Any) -> bytearray:
    """One batch, a record per value, all with one key and time; `header` goes to the batch's header."""
    return encode_rows([Row(at, timestamp, key, value) for at, value in enumerate(values)], **header)


def append(log: PartitionLog, *values: bytes | None, epoch: int = 0, now_ms: int = 0, **batch: Any) -> Appended:
    return log.append_as_leader(produced(*values, **batch), leader_epoch=epoch, now_ms=now_ms)
