"""Batches into whole columns: the same rows as the oracle and the other clients read, ranges, limits, damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch
from kafkalite.records import chain
from kafkalite.records.batch import RecordBatch, TimestampType, build_batch, split_batches
from kafkalite.records.columns import SCHEMA, decode_columns
from kafkalite.records.compression import Codec
from kafkalite.records.control import ControlType, control_batch
from kafkalite.records.rows import Row, encode_rows
from kafkalite.records.varint_columns import Varints, read_varints
from tests.unit.records.samples import (
    DAMAGED_RECORDS,
    LIMIT,
    NOW_MS,
    batch_of,
    batch_with,
    encode_by_aiokafka,
    encode_by_columns,
    plain_rows,
    row_lists,
    rows_by_aiokafka,
    rows_by_columns,
    rows_by_kafka_python,
    rows_by_oracle,
    to_rows,
    varint,
)


@given(rows=row_lists(max_gap=1_000), codec=st.sampled_from(Codec))
def test_decoding_gives_what_the_oracle_and_the_other_clients_read(rows: list[Row], codec: Codec) -> None:
    buffer = bytes(encode_rows(rows, codec=codec))
    assert rows_by_columns(buffer) == rows
    assert rows_by_aiokafka(buffer) == rows
    if codec is Codec.NONE:
        assert rows_by_kafka_python(buffer) == rows


@given(
    lists=st.lists(st.tuples(row_lists(max_size=6, max_gap=5), st.sampled_from(Codec)), max_size=8),
    cut=st.integers(0, 60),
)
def test_many_batches_are_decoded_at_once_and_a_cut_off_one_is_left_out(
    lists: list[tuple[list[Row], Codec]], cut: int
) -> None:
    whole = b"".join(encode_rows(rows, codec=codec) for rows, codec in lists)
    tail = bytes(encode_rows(plain_rows(3)))[:cut]
    expected = [row for rows, _ in lists for row in rows]
    assert rows_by_columns(whole + tail) == expected
    assert to_rows(decode_columns(split_batches(whole), limit=LIMIT)) == expected


@pytest.mark.parametrize("count", [1, 2, 50, 64, 65, 300, 9_000])
@pytest.mark.parametrize("sizes", [(20,), (20, 21), tuple(range(0, 300, 7)), (20,) * 500 + (7,) * 20 + (300,) * 400])
def test_every_way_to_find_the_records_finds_them(count: int, sizes: tuple[int, ...]) -> None:
    rows = [Row(index, NOW_MS + index // 3, None, bytes(sizes[index % len(sizes)])) for index in range(count)]
    assert rows_by_columns(encode_rows(rows)) == rows


@pytest.mark.parametrize("copies", [2, 63, 200])
@pytest.mark.parametrize("sizes", [(20,), (20, 21, 22), (0, 5_000)])
def test_many_small_batches_of_several_counts(copies: int, sizes: tuple[int, ...]) -> None:
    buffer = bytearray()
    expected = []
    for copy in range(copies):
        rows = [Row(1_000 * copy + i, NOW_MS, b"", bytes(sizes[i % len(sizes)])) for i in range(1 + copy % 5)]
        buffer += encode_rows(rows)
        expected += rows
    assert rows_by_columns(buffer) == expected


def test_records_that_only_look_like_one_size_are_walked() -> None:
    """Three records whose sizes add up to three times the first: the guess holds, but for what lies at its places."""
    for filler in (b"\x00", b"\xff", b"\x0e"):
        rows = [Row(index, 0, None, filler * size) for index, size in enumerate((10, 5, 15))]
        assert rows_by_columns(encode_rows(rows)) == rows
        whole = b"".join(encode_rows(rows) + encode_rows(plain_rows(3)) for _ in range(2))
        assert rows_by_columns(whole) == (rows + plain_rows(3)) * 2


def test_the_schema_and_the_timestamp_type() -> None:
    buffer = bytearray(encode_rows(plain_rows(2)))
    stamped = bytearray(encode_rows(plain_rows(2, offset=2), codec=Codec.SNAPPY))
    RecordBatch(memoryview(stamped)).set_log_append_time(NOW_MS + 99)
    records = decode_columns(buffer + stamped, limit=LIMIT)
    assert records.schema == SCHEMA
    assert records.column("timestamp_type").to_pylist() == [0, 0, 1, 1]
    assert records.column("timestamp").cast(pa.int64()).to_pylist() == [NOW_MS, NOW_MS + 1, NOW_MS + 99, NOW_MS + 99]
    assert records.column("headers").null_count == 4


def test_nothing_gives_an_empty_record_batch() -> None:
    empty = build_batch(b"", count=0, last_offset_delta=4, base_timestamp=-1, max_timestamp=-1, codec=Codec.ZSTD)
    sources: list[Any] = [b"", bytes(empty), bytes(60), []]
    for source in sources:
        records = decode_columns(source, limit=LIMIT)
        assert (records.num_rows, records.schema) == (0, SCHEMA)
    assert rows_by_columns(bytes(empty) + encode_rows(plain_rows(2))) == plain_rows(2)


def test_a_delete_horizon_is_a_base_timestamp_like_any_other() -> None:
    records = bytes(batch_of(encode_rows(plain_rows(3))).records)
    buffer = build_batch(
        records, count=3, last_offset_delta=2, base_timestamp=50, max_timestamp=60, has_delete_horizon=True
    )
    assert [row.timestamp for row in rows_by_columns(buffer)] == [50, 51, 52]


@example(times=[0, (1 << 63) - 1, -1, -(1 << 63)])
@example(times=[-(1 << 62), (1 << 62) - 1])
@given(times=st.lists(st.integers(-(1 << 62), (1 << 62) - 1), min_size=1, max_size=5))
def test_times_may_be_as_far_apart_as_64_bits_allow(times: list[int]) -> None:
    rows = [Row(index, time, None, None) for index, time in enumerate(times)]
    assert encode_by_columns(rows) == encode_rows(rows)
    assert rows_by_columns(encode_rows(rows)) == rows


@pytest.mark.parametrize("headers_per_record", [1, 64, 65, 500])
def test_any_number_of_headers(headers_per_record: int) -> None:
    headers = tuple((f"h{index}", None if index % 3 else b"x" * (index % 70)) for index in range(headers_per_record))
    rows = [Row(index, 0, None, b"v", headers[: headers_per_record * (index % 3) // 2]) for index in range(6)]
    assert rows_by_columns(encode_rows(rows)) == rows
    assert encode_by_columns(rows) == encode_by_aiokafka(rows)


def test_header_keys_that_are_not_utf8_are_replaced_as_the_oracle_does() -> None:
    records = b"\x14\x00\x00\x00\x01\x01\x02\x02\xff\x02v"
    buffer = build_batch(records, count=1, last_offset_delta=0, base_timestamp=0, max_timestamp=0)
    assert rows_by_columns(buffer) == rows_by_oracle(buffer)
    assert rows_by_columns(buffer)[0].headers == (("\N{REPLACEMENT CHARACTER}", b"v"),)


@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (0, 30), (5, 25), (10, 20), (11, 12), (29, None), (None, 1), (30, 40)]
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_offset_ranges_are_cut_out(start: int | None, end: int | None, codec: Codec) -> None:
    buffer = b"".join(encode_rows(plain_rows(10, offset=offset), codec=codec) for offset in (0, 10, 20))
    offsets = [row.offset for row in rows_by_columns(buffer, start_offset=start, end_offset=end)]
    assert offsets == [o for o in range(30) if (start is None or o >= start) and (end is None or o < end)]


@pytest.mark.parametrize(("records", "count"), DAMAGED_RECORDS)
def test_damage_in_any_field_is_corrupt(records: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        decode_columns([batch_with(records, count=count)], limit=LIMIT)
    several = encode_rows(plain_rows(3)) + batch_with(records, count=count).view + encode_rows(plain_rows(3))
    with pytest.raises(CorruptBatch):
        decode_columns(several, limit=LIMIT)


@pytest.mark.parametrize(("base", "delta"), [((1 << 63) - 1, 1), (-(1 << 63), -1)])
def test_times_and_offsets_beyond_64_bits_are_corrupt(base: int, delta: int) -> None:
    for body in (b"\x00" + varint(delta) + b"\x00\x01\x01\x00", b"\x00\x00" + varint(delta) + b"\x01\x01\x00"):
        record = varint(len(body)) + body
        at_the_edge = batch_with(record, base_timestamp=base, base_offset=base)
        with pytest.raises(CorruptBatch, match="64 bits"):
            decode_columns([at_the_edge], limit=LIMIT)
        with pytest.raises(CorruptBatch, match="64 bits"):
            rows_by_oracle(bytes(at_the_edge.view))
        assert decode_columns([batch_with(record)], limit=LIMIT).num_rows == 1


def test_batches_outside_of_the_range_are_not_decompressed() -> None:
    bomb = encode_rows([Row(0, 0, None, bytes(1 << 20))], codec=Codec.ZSTD)
    wanted = encode_rows(plain_rows(3, offset=1))
    assert to_rows(decode_columns(bomb + wanted, limit=1_000, start_offset=1)) == plain_rows(3, offset=1)


def test_control_batches_are_passed_over_unless_asked_for() -> None:
    marker = control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=3
    )
    buffer = encode_rows(plain_rows(3)) + marker + encode_rows(plain_rows(2, offset=4))
    assert [row.offset for row in rows_by_columns(buffer)] == [0, 1, 2, 4, 5]
    assert [row.offset for row in rows_by_columns(buffer, skip_control=False)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_on_all_batches_together(codec: Codec) -> None:
    buffer = encode_rows([Row(0, 0, None, bytes(1_000))], codec=codec) * 5
    assert decode_columns(bytes(buffer), limit=6_000).num_rows == 5
    with pytest.raises(InvalidBatch) as caught:
        decode_columns(bytes(buffer), limit=4_000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_the_crc_is_checked_before_anything_is_read() -> None:
    good = bytes(encode_rows(plain_rows(3)))
    for position in range(17, len(good)):
        if not 8 <= position < 12 and position != 16:
            damaged = bytearray(good)
            damaged[position] ^= 0x40
            with pytest.raises(CorruptBatch, match="CRC"):
                decode_columns(damaged, limit=LIMIT)
    wrong_crc = bytearray(good)
    wrong_crc[17] ^= 1
    assert rows_by_columns(wrong_crc, check_crc=False) == plain_rows(3)


def test_nothing_of_the_source_is_kept_alive() -> None:
    source = bytearray(encode_rows([Row(0, 0, b"key", b"value", (("h", b"x"),))]))
    records = decode_columns(source, limit=LIMIT)
    source[61:] = bytes(len(source) - 61)
    source.clear()  # fails if a view of it were left
    assert to_rows(records) == [Row(0, 0, b"key", b"value", (("h", b"x"),))]


def test_rows_keep_the_time_type_that_they_were_written_with() -> None:
    records = bytes(batch_of(encode_rows(plain_rows(3))).records)
    buffer = build_batch(
        records,
        count=3,
        last_offset_delta=2,
        base_timestamp=(1 << 63) - 1,
        max_timestamp=9,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    assert (
        [row.timestamp for row in rows_by_columns(buffer)] == [9, 9, 9] == [r.timestamp for r in rows_by_oracle(buffer)]
    )


# Kernels


@given(values=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_varint_columns_are_written_and_read(values: list[int]) -> None:
    numbers = Varints(np.array(values, np.int64))
    ends = np.cumsum(numbers.sizes)
    output = np.zeros(ends[-1], np.uint8)
    assert numbers.write(output, ends - numbers.sizes).tolist() == ends.tolist()
    read, after = read_varints(output, ends - numbers.sizes, bits=64)
    assert (read.tolist(), after.tolist()) == (values, ends.tolist())


@pytest.mark.parametrize("encoded", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00", b"\x80" * 20])
def test_varints_of_more_than_32_bits_are_corrupt(encoded: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_varints(np.frombuffer(encoded, np.uint8), np.array([0]), bits=32)


def test_a_count_that_cannot_fit_is_refused_before_memory_is_asked_for() -> None:
    buffer = build_batch(bytes(70), count=(1 << 31) - 1, last_offset_delta=0, base_timestamp=0, max_timestamp=0)
    with pytest.raises(CorruptBatch, match="record count"):
        decode_columns(buffer, limit=LIMIT)
    assert chain._SMALLEST_RECORD_BYTES * 10 == 70
