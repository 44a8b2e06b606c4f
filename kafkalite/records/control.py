"""Control batches: the marks by which a transaction ends in a partition's log.

Only a broker writes them. A marker is a transactional control batch (attributes 0x30) of one record:

    key    +-------------+----------+      value  +-------------+---------------------+
           | version = 0 | type     |             | version = 0 | coordinator epoch   |
           | 2 bytes     | 2 bytes  |             | 2 bytes     | 4 bytes             |
           +-------------+----------+             +-------------+---------------------+
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from kafkalite.errors import CorruptBatch
from kafkalite.records.batch import RecordBatch
from kafkalite.records.rows import Row, encode_rows, iter_rows

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
_MARKER_LIMIT_BYTES: Final = 4096
"""Far above any marker, so that no control batch can ask for memory."""


class ControlType(IntEnum):
    """How a transaction ended; Kafka has further kinds (Raft's), which are not told apart here."""

    ABORT = 0
    COMMIT = 1


def control_batch(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    key = _KEY.pack(_VERSION, kind)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return encode_rows(
        [Row(base_offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def control_type(batch: RecordBatch) -> ControlType | None:
    """What a control batch says, or None for a kind that this version does not know and a reader should pass over."""
    row = next(iter_rows(batch, limit=_MARKER_LIMIT_BYTES), None)
    if row is None or row.key is None or len(row.key) < _KEY.size:
        raise CorruptBatch(f"the control batch at offset {batch.base_offset} has no control record")
    _, kind = _KEY.unpack_from(row.key)
    return ControlType(kind) if kind in ControlType.__members__.values() else None
