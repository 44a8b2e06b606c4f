"""The record batch v2: its header as a view on a buffer, and every rule that a produced batch must keep.

Records stay opaque bytes here; this is all that the broker's hot path needs, so neither numpy nor pyarrow
is imported. The CRC-32C covers everything from `attributes` to the end: `base_offset` and `leader_epoch`
are set in place without a new CRC, whatever else changes needs one.

     0        8        12             16      17    21           23                  27
    +--------+--------+--------------+-------+-----+------------+-------------------+
    | base   | length | leader epoch | magic | crc | attributes | last offset delta |
    | offset |        |              |  = 2  |     |            |                   |
    +--------+--------+------+-------+-------+-----+------+-----+--------+----------+
    | base timestamp | max timestamp | producer id | producer epoch | base sequence | count | records ...
    +----------------+---------------+-------------+----------------+---------------+-------+
     27               35              43            51               53              57      61

Attributes: bits 0–2 codec, 3 log-append time, 4 transactional, 5 control, 6 delete horizon (KIP-534).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NotRequired, TypedDict, Unpack

from crc32c import crc32c

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch
from kafkalite.records.compression import Codec

Buffer = bytes | bytearray | memoryview

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
"""61: a batch without records is this long."""

LENGTH_PREFIX: Final = 12
"""`length` counts the bytes after itself, so a batch is this much longer."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1

_PLACE: Final = struct.Struct(">qii")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_CRC_AT: Final = 17
_CRC_COVERS_FROM: Final = 21
_MAX_TIMESTAMP_AT: Final = 35

_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
_DELETE_HORIZON_BIT: Final = 0x40


class TimestampType(IntEnum):
    """Kafka's ids for what a record's timestamp means."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordBatch:
    """One batch: the header's fields, read once, and the buffer they came from.

    `view` may hold the header alone (a log walk reads no more); then `records` and the CRC are not to be asked for.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "size",
        "view",
    )

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, view: memoryview) -> None:
        self.view = view
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(view)
        self.size = self.length + LENGTH_PREFIX

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec_id(self) -> int:
        return self.attributes & _CODEC_BITS

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & _LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones in this batch may go; `base_timestamp` holds it once a cleaner has set the bit."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON_BIT else None

    @property
    def records(self) -> memoryview:
        """The records section, still compressed if the batch is."""
        return self.view[HEADER_SIZE : self.size]

    def crc_is_valid(self) -> bool:
        return bool(crc32c(self.view[_CRC_COVERS_FROM : self.size]) == self.crc)

    def assign(self, base_offset: int, leader_epoch: int) -> None:
        """Give the batch its place in a log, in the buffer itself; the CRC covers neither field."""
        _PLACE.pack_into(self.view, 0, base_offset, self.length, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def set_log_append_time(self, now_ms: int) -> None:
        """Stamp the whole batch with the broker's time; readers then give it to every record."""
        self.attributes |= _LOG_APPEND_TIME_BIT
        self.max_timestamp = now_ms
        _ATTRIBUTES.pack_into(self.view, _CRC_COVERS_FROM, self.attributes)
        _MAX_TIMESTAMP.pack_into(self.view, _MAX_TIMESTAMP_AT, now_ms)
        self.crc = _write_crc(self.view[: self.size])

    def __repr__(self) -> str:
        return f"RecordBatch(offsets {self.base_offset}–{self.last_offset}, {self.count} records, {self.size} bytes)"


def next_sequence(sequence: int, step: int = 1) -> int:
    """Producer sequences wrap from 2³¹−1 to 0."""
    return (sequence + step) & 0x7FFFFFFF


def _write_crc(batch: bytearray | memoryview) -> int:
    crc: int = crc32c(memoryview(batch)[_CRC_COVERS_FROM:])
    _CRC.pack_into(batch, _CRC_AT, crc)
    return crc


def seal_batch(
    batch: bytearray,
    *,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> None:
    """Write the header, with its CRC, into the first `HEADER_SIZE` bytes, which are room left before the records."""
    attributes = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= _LOG_APPEND_TIME_BIT
    if is_transactional:
        attributes |= _TRANSACTIONAL_BIT
    if is_control:
        attributes |= _CONTROL_BIT
    if has_delete_horizon:
        attributes |= _DELETE_HORIZON_BIT
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_PREFIX,
        leader_epoch,
        2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    _write_crc(batch)


class HeaderFields(TypedDict):
    """The arguments of `seal_batch`."""

    count: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    base_offset: NotRequired[int]
    leader_epoch: NotRequired[int]
    codec: NotRequired[Codec]
    timestamp_type: NotRequired[TimestampType]
    producer_id: NotRequired[int]
    producer_epoch: NotRequired[int]
    base_sequence: NotRequired[int]
    is_transactional: NotRequired[bool]
    is_control: NotRequired[bool]
    has_delete_horizon: NotRequired[bool]


def build_batch(records: Buffer, **header: Unpack[HeaderFields]) -> bytearray:
    """Put a header with its CRC before a records section that is already compressed with the header's codec."""
    batch = bytearray(HEADER_SIZE)
    batch += records  # a slice assignment would copy the records twice
    seal_batch(batch, **header)
    return batch


def split_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """The whole batches of a buffer, in order; a batch cut off at the end is left out, as Kafka's fetches may have one.

    Raises `CorruptBatch` where a header cannot be one. CRCs are the caller's to check.
    """
    view = memoryview(buffer)
    position = 0
    while position + HEADER_SIZE <= len(view):
        batch = RecordBatch(view[position:])
        if batch.magic != 2 or batch.length < HEADER_SIZE - LENGTH_PREFIX:
            raise CorruptBatch(
                f"no record batch v2 at byte {position}: magic {batch.magic}, length {batch.length} "
                f"(expected magic 2 and a length of at least {HEADER_SIZE - LENGTH_PREFIX})"
            )
        end = position + batch.size
        if end > len(view):
            return
        batch.view = view[position:end]
        yield batch
        position = end


def check_produced(buffer: Buffer, max_message_bytes: int, zstd_allowed: bool = True) -> RecordBatch:
    """The one batch that a producer sent for a partition, or `InvalidBatch`/`CorruptBatch` with Kafka's code.

    Everything that the header and the CRC can tell is checked; `rows.check_records` looks at the records themselves.
    `zstd_allowed` is False for Produce requests below version 7, whose clients could not read it back.
    """
    view = memoryview(buffer)
    size = len(view)
    if size < HEADER_SIZE:
        raise _invalid(f"expected one record batch, found {size} bytes, less than a batch header ({HEADER_SIZE})")
    batch = RecordBatch(view)
    if batch.magic != 2:
        raise _invalid(f"message format magic {batch.magic} is not accepted; send record batches v2 (magic 2)")
    if batch.size != size:
        raise _invalid(f"expected exactly one record batch of {size} bytes, its header says {batch.size}")
    if size > max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {size} bytes, max.message.bytes is {max_message_bytes}"
        )
    if crc32c(view[_CRC_COVERS_FROM:]) != batch.crc:
        raise CorruptBatch(f"the CRC of {batch!r} does not match its bytes")
    if batch.base_offset != 0:
        raise _invalid(f"base offset is {batch.base_offset}; a producer must send 0, the broker assigns offsets")
    if batch.count != batch.last_offset_delta + 1 or batch.count <= 0:
        raise _invalid(f"record count {batch.count} does not fit the last offset delta {batch.last_offset_delta}")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise _invalid(f"producer id {batch.producer_id} came with the base sequence {batch.base_sequence}")
    if batch.attributes:
        _check_attributes(batch.attributes, zstd_allowed)
    return batch


def _check_attributes(attributes: int, zstd_allowed: bool) -> None:
    codec_id = attributes & _CODEC_BITS
    if codec_id > Codec.ZSTD or (codec_id == Codec.ZSTD and not zstd_allowed):
        raise InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression codec {codec_id} is not accepted here (zstd needs Produce version 7 or above)",
        )
    if attributes & _CONTROL_BIT:
        raise _invalid("control batches are written by the broker only")
    if attributes & _LOG_APPEND_TIME_BIT:
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "a producer must not set the log-append-time bit")


def is_transactional(buffer: Buffer) -> bool:
    """Whether what claims to be a batch also claims to be part of a transaction; nothing else of it is looked at."""
    return len(buffer) > _CRC_COVERS_FROM + 1 and bool(buffer[_CRC_COVERS_FROM + 1] & _TRANSACTIONAL_BIT)


def check_timestamps(batch: RecordBatch, earliest: int, latest: int) -> None:
    """Create times must lie in [earliest, latest], as far as the header shows them (base and max)."""
    if earliest <= batch.base_timestamp <= latest and earliest <= batch.max_timestamp <= latest:
        return
    for timestamp in (batch.base_timestamp, batch.max_timestamp):
        if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
            raise InvalidBatch(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is not within [{earliest}, {latest}]; see "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
            )


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message)
