"""Whole columns into batches: byte-identical to aiokafka's builder, from whatever Arrow holds the columns in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from kafkalite.errors import ErrorCode, InvalidBatch
from kafkalite.records.columns import encode_columns
from kafkalite.records.compression import Codec, decompress
from kafkalite.records.header_columns import HEADERS_TYPE
from kafkalite.records.rows import Row
from tests.unit.records.samples import (
    LIMIT,
    NOW_MS,
    batch_of,
    encode_by_aiokafka,
    encode_by_columns,
    row_lists,
    rows_by_oracle,
    to_columns,
)


@given(rows=row_lists())
def test_encoding_is_byte_identical_to_aiokafkas_builder(rows: list[Row]) -> None:
    assert encode_by_columns(rows) == encode_by_aiokafka(rows)


@given(rows=row_lists(with_headers=False))
def test_encoding_without_headers_and_keys_is_byte_identical_too(rows: list[Row]) -> None:
    keyless = [row._replace(key=None) for row in rows]
    columns = to_columns(keyless)
    encoded = encode_columns(columns["value"], timestamp=columns["timestamp"])
    assert encoded == encode_by_aiokafka(keyless)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_192, 9_000])
@pytest.mark.parametrize("sizes", [(200,), (200, 201, 5), tuple(range(100)), (0,)])
def test_encoding_many_rows_is_byte_identical(count: int, sizes: tuple[int, ...]) -> None:
    rows = [Row(i, NOW_MS + i, b"key", bytes(sizes[i % len(sizes)]), (("h", b"x"),)) for i in range(count)]
    assert encode_by_columns(rows) == encode_by_aiokafka(rows)
    bare = [row._replace(key=None, headers=()) for row in rows]
    assert encode_columns(to_columns(bare)["value"], timestamp=to_columns(bare)["timestamp"]) == encode_by_aiokafka(
        bare
    )


@pytest.mark.parametrize("codec", Codec)
@given(rows=row_lists(max_size=10))
def test_compressed_encoding_has_the_same_header_and_payload(codec: Codec, rows: list[Row]) -> None:
    ours, theirs = batch_of(encode_by_columns(rows, codec)), batch_of(encode_by_aiokafka(rows, codec))
    assert ours.crc_is_valid()
    assert decompress(codec, ours.records, LIMIT) == decompress(codec, theirs.records, LIMIT)
    assert bytes(ours.view[21:61]) == bytes(theirs.view[21:61])


def test_every_header_field_is_passed_on() -> None:
    batch = batch_of(
        encode_columns(
            pa.array([b"a", b"b"]),
            default_timestamp=NOW_MS,
            codec=Codec.LZ4,
            base_offset=7,
            leader_epoch=3,
            producer_id=5,
            producer_epoch=2,
            base_sequence=11,
            is_transactional=True,
        )
    )
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.count) == (7, 8, 3, 2)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (5, 2, 11, 12)
    assert (batch.attributes, batch.base_timestamp, batch.max_timestamp) == (0x13, NOW_MS, NOW_MS)


def _variants(strings: list[str | None]) -> dict[str, Any]:
    binary = pa.array([None if text is None else text.encode() for text in strings], pa.binary())
    padded = pa.array([b"before", *binary.to_pylist(), None, b"after"], pa.binary())
    half = len(strings) // 2
    return {
        "binary": binary,
        "string": pa.array(strings, pa.string()),
        "large_binary": binary.cast(pa.large_binary()),
        "large_string": pa.array(strings, pa.large_string()),
        "dictionary": pa.array(strings, pa.string()).dictionary_encode(),
        "slice": padded.slice(1, len(strings)),
        "chunked": pa.chunked_array([binary.slice(0, half), binary.slice(half)]),
        "chunked slice": pa.chunked_array([padded, padded]).slice(1, len(strings)),
    }


STRINGS = ["one", None, "", "four", "fünf", None, "x" * 300, "8"]


@pytest.mark.parametrize("variant", _variants(STRINGS))
def test_values_and_keys_may_have_any_arrow_type_and_be_slices(variant: str) -> None:
    expected = [None if text is None else text.encode() for text in STRINGS]
    column = _variants(STRINGS)[variant]
    rows = rows_by_oracle(encode_columns(column, key=column, default_timestamp=5))
    assert rows == [Row(index, 5, text, text) for index, text in enumerate(expected)]


def test_views_and_strings_of_one_size_are_taken_too() -> None:
    fixed = pa.array([b"abcd", None, b"efgh"], pa.binary(4))
    view = pa.array([b"a string longer than a view holds in itself", None, b""], pa.binary_view())
    rows = rows_by_oracle(encode_columns(fixed, key=view))
    assert [(row.key, row.value) for row in rows] == list(zip(view.to_pylist(), fixed.to_pylist(), strict=True))


def test_what_lies_under_a_null_is_not_written() -> None:
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 3, 9, 12], np.int32)), pa.py_buffer(b"onesecrettwo")]
    column = pa.Array.from_buffers(pa.binary(), 3, buffers)
    encoded = encode_columns(column)
    assert b"secret" not in encoded
    assert [row.value for row in rows_by_oracle(encoded)] == [b"one", None, b"two"]


def test_a_column_of_arrows_null_type_is_null() -> None:
    assert rows_by_oracle(encode_columns(pa.nulls(2), key=pa.nulls(2))) == [
        Row(0, -1, None, None),
        Row(1, -1, None, None),
    ]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param(pa.array([1, None, 3]), [1, 77, 3], id="integers"),
        pytest.param(pa.array([1, 2, 3], pa.int32()), [1, 2, 3], id="int32"),
        pytest.param(pa.array([1, None, 3], pa.timestamp("s")), [1_000, 77, 3_000], id="seconds"),
        pytest.param(pa.array([1, None, 3], pa.timestamp("ms", "UTC")), [1, 77, 3], id="milliseconds"),
        pytest.param(pa.array([1_999, None, -1], pa.timestamp("us", "UTC")), [1, 77, -1], id="microseconds round down"),
        pytest.param(pa.array([1_999_999, None, -1], pa.timestamp("ns")), [1, 77, -1], id="nanoseconds"),
        pytest.param(pa.chunked_array([[0, 1], [None, 3, 4]]).slice(1, 3), [1, 77, 3], id="chunked slice"),
        pytest.param(None, [77, 77, 77], id="none"),
    ],
)
def test_timestamps_may_have_any_unit_and_nulls_get_the_default(column: Any, expected: list[int]) -> None:
    buffer = encode_columns(pa.array([b"", b"", b""]), timestamp=column, default_timestamp=77)
    assert [row.timestamp for row in rows_by_oracle(buffer)] == expected
    assert batch_of(buffer).max_timestamp == max(expected)


def test_headers_may_be_sliced_chunked_and_null() -> None:
    lists: list[list[tuple[str, bytes | None]] | None] = [
        [("before", b"")],
        [("a", b"1"), ("b", None)],
        None,
        [],
        [("c", b"")],
        [("after", b"")],
    ]
    column = pa.array(
        [None if pairs is None else [{"key": k, "value": v} for k, v in pairs] for pairs in lists], HEADERS_TYPE
    )
    expected = [(("a", b"1"), ("b", None)), (), (), (("c", b""),)]
    for headers in (column.slice(1, 4), pa.chunked_array([column.slice(1, 1), column.slice(2, 3)])):
        rows = rows_by_oracle(encode_columns(pa.array([b"", b"", b"", b""]), headers=headers))
        assert [row.headers for row in rows] == expected


def test_what_cannot_be_a_batch_is_refused() -> None:
    one = pa.array([b"x"])
    with pytest.raises(ValueError, match="at least one record"):
        encode_columns(one.slice(0, 0))
    with pytest.raises(ValueError, match="differ in length: 2 and 1"):
        encode_columns(one, key=pa.array([b"x", b"y"]))
    with pytest.raises(InvalidBatch, match="key is null"):
        encode_columns(one, headers=pa.array([[{"key": None, "value": b""}]], HEADERS_TYPE))
    with pytest.raises(InvalidBatch) as caught:
        encode_columns(pa.array([b"x", b"y"]), timestamp=pa.array([-(1 << 63), 1]))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
