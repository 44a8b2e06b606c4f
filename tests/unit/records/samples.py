"""Records for the tests of this folder: strategies, columns ↔ rows, and the other clients' views of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import kafka.record.memory_records
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import strategies as st
from kio.records.readers import read_batch

from kafkalite.records.batch import RecordBatch, build_batch, split_batches
from kafkalite.records.columns import decode_columns, encode_columns
from kafkalite.records.compression import Codec
from kafkalite.records.header_columns import HEADERS_TYPE
from kafkalite.records.rows import Row, iter_rows
from kafkalite.records.varints import append_varint

LIMIT: Final = 1 << 24
"""Decompressed bytes that no sample reaches."""

NOW_MS: Final = 1_700_000_000_000

_blobs = st.none() | st.binary(max_size=20) | st.sampled_from([b"", bytes(63), bytes(64), bytes(8_191), bytes(8_192)])
_headers = st.lists(st.tuples(st.text(max_size=8), _blobs), max_size=4).map(tuple)
# Not −1: aiokafka's builder takes that first timestamp for one that is still to come.
_times = st.integers(0, 1 << 41) | st.integers(NOW_MS, NOW_MS + 200)


@st.composite
def row_lists(draw: st.DrawFn, *, max_size: int = 30, max_gap: int = 0, with_headers: bool = True) -> list[Row]:
    """Rows whose offsets begin anywhere up to 2⁴⁰, with gaps as compaction leaves them."""
    first = 0 if max_gap == 0 else draw(st.integers(0, 1 << 40))
    parts = draw(
        st.lists(
            st.tuples(st.integers(0, max_gap), _times, _blobs, _blobs, _headers if with_headers else st.just(())),
            min_size=1,
            max_size=max_size,
        )
    )
    rows = []
    offset = first
    for gap, timestamp, key, value, headers in parts:
        rows.append(Row(offset + gap, timestamp, key, value, headers))
        offset += gap + 1
    return rows


def plain_rows(count: int, *, size: int = 20, offset: int = 0) -> list[Row]:
    return [Row(offset + index, NOW_MS + index, b"k%d" % index, bytes(size)) for index in range(count)]


def batch_of(buffer: bytes | bytearray) -> RecordBatch:
    (batch,) = split_batches(buffer)
    return batch


def rows_by_oracle(buffer: bytes | bytearray) -> list[Row]:
    return [row for batch in split_batches(buffer) for row in iter_rows(batch, limit=LIMIT)]


def rows_by_columns(buffer: bytes | bytearray, **options: Any) -> list[Row]:
    return to_rows(decode_columns(buffer, limit=LIMIT, **options))


def to_rows(records: Any) -> list[Row]:
    """A decoded Arrow batch, every buffer of which is checked first."""
    records.validate(full=True)
    columns = [records.column(name) for name in ("offset", "timestamp", "key", "value", "headers")]
    columns[1] = columns[1].cast(pa.int64())
    return [
        Row(offset, timestamp, key, value, tuple((header["key"], header["value"]) for header in headers or ()))
        for offset, timestamp, key, value, headers in zip(*(column.to_pylist() for column in columns), strict=True)
    ]


def to_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """The keyword arguments of `encode_columns` for these rows."""
    headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    return {
        "value": pa.array([row.value for row in rows], pa.binary()),
        "key": pa.array([row.key for row in rows], pa.binary()),
        "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
        "headers": pa.array(headers, HEADERS_TYPE),
    }


def encode_by_columns(rows: Sequence[Row], codec: Codec = Codec.NONE) -> bytearray:
    return encode_columns(**to_columns(rows), codec=codec)


def encode_by_aiokafka(rows: Sequence[Row], codec: Codec = Codec.NONE) -> bytes:
    """aiokafka's compiled builder; it numbers offsets from 0."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for offset, row in enumerate(rows):
        builder.append(offset, row.timestamp, row.key, row.value, list(row.headers))
    return bytes(builder.build())


def rows_by_aiokafka(buffer: bytes) -> list[Row]:
    return _rows_by_iteration(MemoryRecords(buffer))


def rows_by_kafka_python(buffer: bytes) -> list[Row]:
    return _rows_by_iteration(kafka.record.memory_records.MemoryRecords(buffer))


def _rows_by_iteration(records: Any) -> list[Row]:
    rows = []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        rows += [Row(r.offset, r.timestamp, r.key, r.value, tuple(tuple(h) for h in r.headers)) for r in batch]
    return rows


def rows_by_kio(buffer: bytes) -> list[Row]:
    """kio reads single uncompressed batches, and cuts times to whole seconds."""
    batch, size = read_batch(buffer, 0)
    assert size == len(buffer)
    return [
        Row(
            record.offset,
            round(record.timestamp.timestamp()) * 1_000,
            record.key,
            record.value,
            tuple(((header.key or b"").decode(), header.value) for header in record.headers),
        )
        for record in batch.records
    ]


# Records by hand


def batch_with(records: bytes, *, count: int = 1, **fields: Any) -> RecordBatch:
    """A batch of any bytes as its records, with a valid header."""
    defaults = {"last_offset_delta": count - 1, "base_timestamp": 0, "max_timestamp": 0}
    return batch_of(build_batch(records, count=count, **{**defaults, **fields}))


def varint(value: int) -> bytes:
    output = bytearray()
    append_varint(output, value)
    return bytes(output)


def with_headers(good: int, last: bytes) -> bytes:
    """A record of some empty headers and then one that is given as bytes."""
    body = b"\x00\x00\x00\x01\x01" + varint(good + 1) + b"\x00\x00" * good + last
    return varint(len(body)) + body


GOOD_RECORD: Final = b"\x0e\x00\x00\x00\x01\x02v\x00"
"""length 7, attributes, deltas 0, null key, value "v", no headers."""

DAMAGED_RECORDS: Final = [
    pytest.param(GOOD_RECORD, 2, id="a record too few"),
    pytest.param(GOOD_RECORD + GOOD_RECORD, 1, id="a record too many"),
    pytest.param(GOOD_RECORD + b"\x00", 1, id="a byte too many"),
    pytest.param(GOOD_RECORD, 0, id="records but no count"),
    pytest.param(GOOD_RECORD, -1, id="negative count"),
    pytest.param(GOOD_RECORD[:-1], 1, id="cut off"),
    pytest.param(b"\x0c" + GOOD_RECORD[1:-1], 1, id="no header count"),
    pytest.param(b"\x10" + GOOD_RECORD[1:], 1, id="length past the end"),
    pytest.param(b"\x01" + GOOD_RECORD[1:], 1, id="negative length"),
    pytest.param(b"\x00", 1, id="length 0"),
    pytest.param(b"", 1, id="nothing"),
    pytest.param(b"\x0e\x00\x00\x00\x03\x02v\x00", 1, id="key length -2"),
    pytest.param(b"\x0e\x00\x00\x00\x01\x03v\x00", 1, id="value length -2"),
    pytest.param(b"\x0e\x00\x00\x00\x01\x04v\x00", 1, id="value over the header count"),
    pytest.param(b"\x0e\x00\x00\x00\x08\x02v\x00", 1, id="key past the end"),
    pytest.param(b"\x0e\x00\x00\x00\x01\x02v\x02", 1, id="a header but no bytes"),
    pytest.param(b"\x0e\x00\x00\x00\x01\x02v\x01", 1, id="negative header count"),
    pytest.param(b"\x0e\x00\x00\x00\x01\x02v\x80", 1, id="header count cut off"),
    pytest.param(b"\x0e\x00\x00\x00\x01\x00\x00\x00", 1, id="bytes after the headers"),
    pytest.param(b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01", 1, id="null header key"),
    pytest.param(b"\x16\x00\x00\x00\x01\x02v\x04\x01\x00\x02v", 1, id="null header key that takes no value"),
    pytest.param(b"\x12\x00\x00\x00\x01\x02v\x02\x00\x03", 1, id="header value length -2"),
    pytest.param(b"\x12\x00\x00\x00\x01\x02v\x02\x02k", 1, id="header without a value"),
    pytest.param(b"\xff\xff\xff\xff\x7f" + GOOD_RECORD[1:], 1, id="length of 35 bits"),
    pytest.param(b"\x80\x80\x80\x80\x80\x00" + GOOD_RECORD[1:], 1, id="length of six bytes"),
    pytest.param(b"\x22\x00" + b"\xff" * 9 + b"\x02\x00\x01\x02v\x00", 1, id="timestamp of 65 bits"),
    pytest.param(b"\x24\x00" + b"\x80" * 10 + b"\x00\x00\x01\x02v\x00", 1, id="timestamp of eleven bytes"),
    pytest.param(b"\x16\x00\x00\x00\x01\x02v\xfe\xff\xff\xff\x0f", 1, id="two thousand million headers"),
    pytest.param(with_headers(64, b"\x01\x01"), 1, id="null key of the 65th header"),
    pytest.param(with_headers(64, b"\x00\x03"), 1, id="value length -2 in the 65th header"),
    pytest.param(with_headers(64, b"\x00\x02"), 1, id="value past the end in the 65th header"),
    pytest.param(with_headers(64, b"\x02"), 1, id="key past the end in the 65th header"),
    pytest.param(with_headers(64, b"\x00\x00\x00"), 1, id="a byte after the 65th header"),
]
"""Records sections, each with a count, none of which a decoder may accept."""
