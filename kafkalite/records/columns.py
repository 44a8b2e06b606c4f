"""Record batches to Arrow columns and back, by whole columns: no Python object per record on either way.

`decode_columns` takes what a fetch brought, any number of batches, and runs its kernels once over all of
their records; `encode_columns` makes one batch, byte for byte as the other clients do. `rows` draws the record
and is the oracle of both. What is malformed is `CorruptBatch` or `InvalidBatch`: every length is checked against
its record before it is used to look into memory.

The timestamp column is milliseconds with a time zone, as on the wire: to Spark's microseconds it is one vector
multiplication, to Kafka's plain integers a cast without a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch
from kafkalite.records.batch import (
    HEADER_SIZE,
    LENGTH_PREFIX,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
    RecordBatch,
    seal_batch,
)
from kafkalite.records.chain import Sections, find_records
from kafkalite.records.compression import Codec, compress, decompress
from kafkalite.records.header_columns import HEADERS_TYPE, header_fields, read_headers
from kafkalite.records.ragged import Column, cut, from_arrow, row_sizes, weave
from kafkalite.records.varint_columns import Bytes, Ints, Varints, read_varints

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)

_MOST_BYTES: Final = (1 << 31) - 1
"""Arrow's binary offsets, and a batch's length, have 32 bits."""

_ATTRIBUTES: Final = 0
_NULL: Final = 1
"""The varint of −1, the length of what is null."""

_LENGTH_MAGIC_CRC: Final = struct.Struct(">i4xbI")
_LENGTH_AT: Final = 8
_CRC_COVERS_FROM: Final = 21

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_PER_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_CONTROL_BIT: Final = 0x20


# Encoding


def encode_columns(
    value: Any,
    *,
    key: Any = None,
    timestamp: Any = None,
    headers: Any = None,
    default_timestamp: int = NO_TIMESTAMP,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytearray:
    """One batch of all rows of the given Arrow columns, of which there is at least one.

    Each column is an Array or ChunkedArray, or None for all null: `value` and `key` of bytes or strings of any
    Arrow type, `timestamp` of integers (milliseconds) or timestamps, where null means `default_timestamp`, and
    `headers` of lists of structs with `key` and `value`.
    """
    rows = len(value)
    if not rows:
        raise ValueError("a batch needs at least one record")
    for column in (key, timestamp, headers):
        if column is not None and len(column) != rows:
            raise ValueError(f"columns differ in length: {len(column)} and {rows}")
    times = _milliseconds(timestamp, rows, default_timestamp)
    deltas = times - times[0]
    if _overflows(times[0], deltas, times):
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "two timestamps of a batch are more than 2⁶³ ms apart")
    fields: list[Column] = [_ATTRIBUTES, Varints(deltas), Varints(np.arange(rows))]
    for column in (key, value):
        if column is None:
            fields.append(_NULL)
        else:
            strings, lengths = from_arrow(column)
            fields += Varints(lengths), strings
    fields += header_fields(headers, rows)
    sizes = row_sizes(fields, rows)
    length_field = Varints(sizes)
    if (sizes + length_field.sizes).sum() + HEADER_SIZE > _MOST_BYTES:
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"{rows} records make a batch of more than {_MOST_BYTES} bytes")
    batch = weave([length_field, *fields], room=HEADER_SIZE)
    if codec is not Codec.NONE:
        batch[HEADER_SIZE:] = bytes(compress(codec, memoryview(batch)[HEADER_SIZE:]))
    seal_batch(
        batch,
        count=rows,
        last_offset_delta=rows - 1,
        base_timestamp=int(times[0]),
        max_timestamp=int(times.max()),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    return batch


def _milliseconds(column: Any, rows: int, default: int) -> Ints:
    if column is None:
        return np.full(rows, default, np.int64)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_timestamp(column.type) and column.type.unit == "s":
        column = column.cast(pa.timestamp("ms", column.type.tz))
    per_ms = _PER_MS[column.type.unit] if pa.types.is_timestamp(column.type) else 1
    ticks = column.cast(pa.int64())
    # Rounds down, before 1970 too, as Spark's own sink does.
    times: Ints = (ticks.fill_null(0) if ticks.null_count else ticks).to_numpy()
    if per_ms > 1:
        times = times // per_ms
    return np.where(np.asarray(ticks.is_null()), default, times) if ticks.null_count else times


# Decoding


def decode_columns(
    source: Buffer | Iterable[RecordBatch],
    *,
    limit: int,
    start_offset: int | None = None,
    end_offset: int | None = None,
    skip_control: bool = True,
    check_crc: bool = True,
) -> Any:
    """All records of the batches as one `pa.RecordBatch` of `SCHEMA`, with nothing of `source` kept alive.

    `source` is a buffer of batches, whose last may be cut off and is then left out, or batches that the caller has
    chosen. `limit` bounds the decompressed bytes of them all together. Records outside of
    [`start_offset`, `end_offset`) are left out; batches wholly outside are not decompressed.
    """
    if not isinstance(source, bytes | bytearray | memoryview):
        source = b"".join(batch.view[: batch.size] for batch in source)
    view = memoryview(source)
    headers, begins = _batch_headers(view, check_crc)
    wanted = _within(
        headers["base_offset"], headers["base_offset"] + headers["last_offset_delta"], start_offset, end_offset
    )
    if skip_control:
        wanted &= headers["attributes"] & _CONTROL_BIT == 0
    data, headers, begins, ends = _records_sections(view, headers[wanted], begins[wanted], min(limit, _MOST_BYTES))
    if not len(headers):
        return pa.RecordBatch.from_pylist([], SCHEMA)
    counts = headers["count"].astype(np.int64)
    records = _decode_records(headers, Sections(data, begins, ends, counts))
    offsets = records.column("offset").to_numpy()
    inside = _within(offsets, offsets, start_offset, end_offset)
    return records if inside.all() else records.filter(pa.array(inside))


def _within(first: Ints, last: Ints, start: int | None, end: int | None) -> NDArray[np.bool_]:
    """Which of the offset ranges [first, last] have something in [start, end)."""
    within = np.ones(len(first), np.bool_)
    if start is not None:
        within &= last >= start
    if end is not None:
        within &= first < end
    return within


def _decode_records(headers: NDArray[Any], sections: Sections) -> Any:
    data, counts = sections.data, sections.counts
    bodies, record_ends = find_records(sections)
    timestamp_deltas, at = read_varints(data, bodies + 1, bits=64)
    offset_deltas, at = read_varints(data, at, bits=32)
    key_lengths, keys_at = read_varints(data, at, bits=32)
    value_lengths, values_at = read_varints(data, keys_at + np.maximum(key_lengths, 0), bits=32)
    headers_at = values_at + np.maximum(value_lengths, 0)
    # Positions only grow, so this catches whatever led past a record's end; a header count must still follow.
    if (headers_at >= record_ends).any() or (key_lengths < -1).any() or (value_lengths < -1).any():
        raise CorruptBatch("a record's key and value do not fit into its length")

    stamped = headers["attributes"] & _LOG_APPEND_TIME_BIT != 0
    if stamped.any():
        timestamp_deltas[stamped.repeat(counts)] = 0
    base_timestamps = np.where(stamped, headers["max_timestamp"], headers["base_timestamp"]).astype(np.int64)
    timestamps = _sum(base_timestamps.repeat(counts), timestamp_deltas)
    offsets = _sum(headers["base_offset"].astype(np.int64).repeat(counts), offset_deltas)
    columns = [
        cut(data, keys_at, key_lengths),
        cut(data, values_at, value_lengths),
        pa.array(offsets),
        pa.array(timestamps).cast(SCHEMA.field("timestamp").type),
        pa.array(stamped.astype(np.int32).repeat(counts)),
        read_headers(data, headers_at, record_ends),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _sum(base: Ints, delta: Ints) -> Ints:
    total = base + delta
    if _overflows(base, delta, total):
        raise CorruptBatch("an offset or timestamp does not fit into 64 bits")
    return total


def _batch_headers(view: memoryview, check_crc: bool) -> tuple[NDArray[Any], Ints]:
    """The headers of all whole batches, as one table, and where each batch begins."""
    begins = []
    begin, size = 0, len(view)
    unpack = _LENGTH_MAGIC_CRC.unpack_from
    while begin + HEADER_SIZE <= size:
        length, magic, crc = unpack(view, begin + _LENGTH_AT)
        if magic != 2 or length < HEADER_SIZE - LENGTH_PREFIX:
            raise CorruptBatch(f"no record batch v2 at byte {begin}: magic {magic}, length {length}")
        end = begin + length + LENGTH_PREFIX
        if end > size:
            break
        if check_crc and crc32c(view[begin + _CRC_COVERS_FROM : end]) != crc:
            raise CorruptBatch(f"the CRC of the batch at byte {begin} does not match its bytes")
        begins.append(begin)
        begin = end
    at = np.array(begins, np.int64)
    header_at_every_byte = np.ndarray(max(size - HEADER_SIZE + 1, 0), _HEADER, view, strides=(1,))
    return header_at_every_byte[at], at


def _records_sections(
    view: memoryview, headers: NDArray[Any], begins: Ints, limit: int
) -> tuple[Bytes, NDArray[Any], Ints, Ints]:
    """One array with all records, decompressed, and, of the batches that have any, the headers and where they lie."""
    begins = begins + HEADER_SIZE
    ends = begins + headers["length"] - (HEADER_SIZE - LENGTH_PREFIX)
    codecs = headers["attributes"] & _CODEC_BITS
    if not codecs.any():
        data = decompress(Codec.NONE, view, limit)
    else:
        sections = []
        for begin, end, codec in zip(begins.tolist(), ends.tolist(), codecs.tolist(), strict=True):
            # A cleaner's empty batch has nothing that a codec could read, whatever its attributes say.
            sections.append(decompress(codec, view[begin:end], limit) if begin < end else view[:0])
            limit -= len(sections[-1])
        data = sections[0] if len(sections) == 1 else memoryview(b"".join(sections))
        sizes = np.array([*map(len, sections)], np.int64)
        ends = np.cumsum(sizes)
        begins = ends - sizes
    if ((headers["count"] <= 0) & ((headers["count"] < 0) | (begins < ends))).any():
        raise CorruptBatch("a batch's record count does not fit the size of its records")
    filled = headers["count"] > 0
    return np.frombuffer(data, np.uint8), headers[filled], begins[filled], ends[filled]


def _overflows(base: Any, delta: Ints, total: Ints) -> bool:
    """Whether `base + delta`, or `total - base`, has left 64 bits and come back with the other sign."""
    return bool(((total >= base) != (delta >= 0)).any())
