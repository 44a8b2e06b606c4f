"""Row by row: against the other clients both ways, spans, per-record checks, and damage in every field."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch
from kafkalite.records.batch import TimestampType
from kafkalite.records.compression import Codec, compress, decompress
from kafkalite.records.rows import InvalidRecords, Row, check_records, encode_rows, iter_rows, iter_spans, retimestamp
from kafkalite.records.varints import varint32, varint64
from tests.unit.records.samples import (
    DAMAGED_RECORDS,
    GOOD_RECORD,
    LIMIT,
    NOW_MS,
    batch_of,
    batch_with,
    encode_by_aiokafka,
    plain_rows,
    row_lists,
    rows_by_aiokafka,
    rows_by_kafka_python,
    rows_by_kio,
    rows_by_oracle,
    varint,
)


@given(rows=row_lists(), codec=st.sampled_from(Codec))
def test_encoding_is_byte_identical_to_aiokafkas_builder(rows: list[Row], codec: Codec) -> None:
    ours, theirs = batch_of(encode_rows(rows, codec=codec)), batch_of(encode_by_aiokafka(rows, codec))
    # Compressors may choose other bytes for the same content, which length and CRC then follow.
    assert decompress(codec, ours.records, LIMIT) == decompress(codec, theirs.records, LIMIT)
    assert (bytes(ours.view[:8]), bytes(ours.view[12:17]), bytes(ours.view[21:61])) == (
        bytes(theirs.view[:8]),
        bytes(theirs.view[12:17]),
        bytes(theirs.view[21:61]),
    )
    if codec is Codec.NONE:
        assert ours.view == theirs.view


@given(rows=row_lists(max_gap=1_000), codec=st.sampled_from(Codec))
def test_rows_round_trip_with_gaps_and_every_codec(rows: list[Row], codec: Codec) -> None:
    assert rows_by_oracle(encode_rows(rows, codec=codec)) == rows


@given(rows=row_lists(max_gap=1_000))
def test_the_other_clients_read_the_same(rows: list[Row]) -> None:
    buffer = bytes(encode_rows(rows))
    assert rows_by_aiokafka(buffer) == rows
    assert rows_by_kafka_python(buffer) == rows
    assert rows_by_kio(buffer) == [row._replace(timestamp=row.timestamp // 1_000 * 1_000) for row in rows]


def test_log_append_time_is_every_records_time() -> None:
    batch = batch_of(encode_rows(plain_rows(3)))
    stamped = batch_with(bytes(batch.records), count=3, max_timestamp=99, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [row.timestamp for row in iter_rows(stamped, limit=LIMIT)] == [99, 99, 99]


def test_an_empty_batch_has_no_rows_whatever_its_codec() -> None:
    for codec in Codec:
        assert list(iter_rows(batch_with(b"", count=0, last_offset_delta=5, codec=codec), limit=LIMIT)) == []


def test_the_limit_holds_before_the_first_row() -> None:
    with pytest.raises(InvalidBatch) as caught:
        next(iter_rows(batch_of(encode_rows(plain_rows(100), codec=Codec.ZSTD)), limit=100))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@given(rows=row_lists(max_gap=100))
def test_spans_lie_end_to_end_and_say_what_the_rows_say(rows: list[Row]) -> None:
    batch = batch_of(encode_rows(rows))
    spans = list(iter_spans(batch.records, batch.count))
    assert [span.start for span in spans] == [0, *(span.end for span in spans[:-1])]
    assert spans[-1].end == len(batch.records)
    for span, row in zip(spans, rows, strict=True):
        assert batch.base_offset + span.offset_delta == row.offset
        assert batch.base_timestamp + span.timestamp_delta == row.timestamp
        assert (None if span.key is None else bytes(span.key)) == row.key
        assert span.has_value == (row.value is not None)


@given(rows=row_lists(), shift=st.integers(-(1 << 42), 1 << 42), data=st.data())
def test_retimestamping_changes_the_times_of_the_chosen_rows_and_nothing_else(
    rows: list[Row], shift: int, data: st.DataObject
) -> None:
    batch = batch_of(encode_rows(rows))
    spans = list(iter_spans(batch.records, batch.count))
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True).map(sorted))
    records = retimestamp(batch.records, [spans[index] for index in chosen], shift)
    shifted = batch_with(records, count=len(chosen), base_timestamp=batch.base_timestamp - shift)
    assert list(iter_rows(shifted, limit=LIMIT)) == [rows[index] for index in chosen]


def test_retimestamping_by_nothing_is_the_identity() -> None:
    batch = batch_of(encode_rows(plain_rows(200)))
    assert retimestamp(batch.records, iter_spans(batch.records, batch.count), 0) == batch.records


def test_retimestamping_beyond_64_bits_is_an_error() -> None:
    batch = batch_of(encode_rows(plain_rows(2)))
    with pytest.raises(CorruptBatch):
        retimestamp(batch.records, iter_spans(batch.records, batch.count), 1 << 63)


@pytest.mark.parametrize("codec", Codec)
def test_good_records_pass_the_checks(codec: Codec) -> None:
    check_records(batch_of(encode_rows(plain_rows(70), codec=codec)), limit=LIMIT, keys_required=True)


def test_records_without_keys_are_named_where_keys_are_required() -> None:
    rows = [row._replace(key=None) if row.offset in (1, 4) else row for row in plain_rows(6)]
    batch = batch_of(encode_rows(rows))
    check_records(batch, limit=LIMIT, keys_required=False)
    with pytest.raises(InvalidRecords, match="records 1, 4:") as caught:
        check_records(batch, limit=LIMIT, keys_required=True)
    assert (caught.value.code, caught.value.record_errors) == (ErrorCode.INVALID_RECORD, (1, 4))
    assert pickle.loads(pickle.dumps(caught.value)).code is ErrorCode.INVALID_RECORD


def test_offset_deltas_that_are_not_the_index_are_named() -> None:
    batch = batch_of(encode_rows([Row(0, 0, b"", b""), Row(2, 0, b"", b""), Row(2, 0, b"", b"")]))
    with pytest.raises(InvalidRecords) as caught:
        check_records(batch, limit=LIMIT, keys_required=False)
    assert caught.value.record_errors == (1,)


def test_only_the_first_of_many_wrong_records_are_reported() -> None:
    rows = [row._replace(key=None) for row in plain_rows(1_000)]
    with pytest.raises(InvalidRecords) as caught:
        check_records(batch_of(encode_rows(rows)), limit=LIMIT, keys_required=True)
    assert len(caught.value.message) < 300
    assert caught.value.record_errors == tuple(range(10))


def test_a_batch_of_too_many_records_is_refused_unopened() -> None:
    with pytest.raises(InvalidRecords, match="250001 records in one batch; at most 250000"):
        check_records(batch_with(b"not looked at", count=250_001), limit=LIMIT, keys_required=True)


@pytest.mark.parametrize(("records", "count"), DAMAGED_RECORDS)
def test_damage_in_any_field_is_corrupt(records: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        list(iter_rows(batch_with(records, count=count), limit=LIMIT))


@pytest.mark.parametrize(
    ("records", "count"),
    [
        pytest.param(GOOD_RECORD, 2, id="a record too few"),
        pytest.param(GOOD_RECORD + GOOD_RECORD, 1, id="a record too many"),
        pytest.param(b"\x0c" + GOOD_RECORD[1:-1], 1, id="no header count"),
        pytest.param(b"\x0c" + GOOD_RECORD[1:-1] + GOOD_RECORD, 2, id="a header count in the next record"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x04v\x00" + GOOD_RECORD, 2, id="value over the header count"),
        pytest.param(b"\x0e\x00\x00\x00\x06\x02v\x00" + GOOD_RECORD, 2, id="key into the next record"),
        pytest.param(b"\x0e\x00\x00\x00\x03\x02v\x00", 1, id="key length -2"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x03v\x00", 1, id="value length -2"),
    ],
)
def test_spans_and_checks_notice_damage_too_though_they_read_no_headers(records: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        list(iter_spans(memoryview(records), count))
    with pytest.raises(CorruptBatch):
        check_records(batch_with(records, count=count), limit=LIMIT, keys_required=False)


def test_what_the_damage_was_done_to_is_good() -> None:
    assert list(iter_rows(batch_with(GOOD_RECORD), limit=LIMIT)) == [Row(0, 0, None, b"v")]


@pytest.mark.parametrize(("base", "delta"), [((1 << 63) - 1, 1), (-(1 << 63), -1)])
def test_times_beyond_64_bits_are_corrupt(base: int, delta: int) -> None:
    body = b"\x00" + varint(delta) + b"\x00\x01\x01\x00"
    with pytest.raises(CorruptBatch):
        list(iter_rows(batch_with(varint(len(body)) + body, base_timestamp=base), limit=LIMIT))
    with pytest.raises(CorruptBatch):
        encode_rows([Row(0, base, None, None), Row(1, -base - 1, None, None)])


def test_header_keys_that_are_not_utf8_are_replaced_as_java_does() -> None:
    body = b"\x00\x00\x00\x01\x01\x02\x02\xff\x02v"
    (row,) = iter_rows(batch_with(varint(len(body)) + body), limit=LIMIT)
    assert row.headers == (("\N{REPLACEMENT CHARACTER}", b"v"),)


def test_records_may_be_compressed_in_any_way() -> None:
    batch = batch_of(encode_rows(plain_rows(5)))
    packed = bytes(compress(Codec.GZIP, batch.records))
    again = batch_with(packed, count=5, codec=Codec.GZIP, base_timestamp=NOW_MS)
    assert list(iter_rows(again, limit=LIMIT)) == plain_rows(5)


@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = varint(value)
    assert varint64(encoded, 0) == (value, len(encoded))
    if -(1 << 31) <= value < 1 << 31:
        assert varint32(encoded, 0) == (value, len(encoded))
    else:
        with pytest.raises(CorruptBatch):
            varint32(encoded, 0)
