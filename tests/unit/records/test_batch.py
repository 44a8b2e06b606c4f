"""The batch header: every rule of `check_produced` with its code, fields set in place, and the splitting of buffers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError
from kafkalite.records.batch import (
    HEADER_SIZE,
    RecordBatch,
    TimestampType,
    build_batch,
    check_produced,
    check_timestamps,
    next_sequence,
    split_batches,
)
from kafkalite.records.compression import Codec
from kafkalite.records.control import ControlType, control_batch
from kafkalite.records.rows import encode_rows
from tests.unit.records.samples import NOW_MS, plain_rows, rows_by_oracle

GOOD = bytes(encode_rows(plain_rows(3)))


def changed(position: int, layout: str, value: int, *, fix_crc: bool = True) -> bytes:
    """The good batch with one header field replaced."""
    buffer = bytearray(GOOD)
    struct.pack_into(layout, buffer, position, value)
    if fix_crc:
        struct.pack_into(">I", buffer, 17, crc32c(bytes(buffer[21:])))
    return bytes(buffer)


def damaged() -> bytes:
    return GOOD[:-1] + bytes([GOOD[-1] ^ 1])


@pytest.mark.parametrize(
    ("buffer", "options", "code"),
    [
        pytest.param(b"", {}, ErrorCode.INVALID_RECORD, id="no batch"),
        pytest.param(GOOD[: HEADER_SIZE - 1], {}, ErrorCode.INVALID_RECORD, id="less than a header"),
        pytest.param(GOOD + GOOD, {}, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(GOOD[:-1], {}, ErrorCode.INVALID_RECORD, id="cut off"),
        pytest.param(GOOD + b"\x00", {}, ErrorCode.INVALID_RECORD, id="a byte too many"),
        pytest.param(changed(16, "b", 1), {}, ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(changed(16, "b", 3), {}, ErrorCode.INVALID_RECORD, id="magic 3"),
        pytest.param(changed(21, ">h", 4), {"zstd_allowed": False}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="zstd"),
        pytest.param(changed(21, ">h", 5), {}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec 5"),
        pytest.param(changed(0, ">q", 1), {}, ErrorCode.INVALID_RECORD, id="base offset"),
        pytest.param(GOOD, {"max_message_bytes": len(GOOD) - 1}, ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(damaged(), {}, ErrorCode.CORRUPT_MESSAGE, id="damaged"),
        pytest.param(changed(17, ">I", 0, fix_crc=False), {}, ErrorCode.CORRUPT_MESSAGE, id="CRC"),
        pytest.param(changed(57, ">i", 2), {}, ErrorCode.INVALID_RECORD, id="count below the last delta"),
        pytest.param(changed(23, ">i", 3), {}, ErrorCode.INVALID_RECORD, id="last delta above the count"),
        pytest.param(changed(57, ">i", 0), {}, ErrorCode.INVALID_RECORD, id="count 0"),
        pytest.param(changed(57, ">i", -1), {}, ErrorCode.INVALID_RECORD, id="count -1"),
        pytest.param(changed(21, ">h", 0x20), {}, ErrorCode.INVALID_RECORD, id="control"),
        pytest.param(changed(43, ">q", 7), {}, ErrorCode.INVALID_RECORD, id="producer id without a sequence"),
    ],
)
def test_a_produced_batch_that_breaks_a_rule_is_refused_with_kafkas_code(
    buffer: bytes, options: dict[str, Any], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        check_produced(buffer, **{"max_message_bytes": 1 << 20, **options})
    assert caught.value.code is code
    assert isinstance(caught.value, CorruptBatch) == (code is ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize(
    "buffer",
    [GOOD, changed(21, ">h", 4), bytearray(GOOD), memoryview(GOOD)],
    ids=["plain", "zstd", "bytearray", "view"],
)
def test_a_good_batch_is_accepted(buffer: bytes) -> None:
    batch = check_produced(buffer, max_message_bytes=len(buffer))
    assert (batch.count, batch.last_offset, batch.next_offset, batch.size) == (3, 2, 3, len(GOOD))


@pytest.mark.parametrize("timestamp", [NOW_MS - 1_001, NOW_MS + 501])
def test_create_times_outside_of_the_window_are_refused(timestamp: int) -> None:
    batch = RecordBatch(
        memoryview(build_batch(b"", count=0, last_offset_delta=0, base_timestamp=timestamp, max_timestamp=timestamp))
    )
    with pytest.raises(KafkaError) as caught:
        check_timestamps(batch, NOW_MS - 1_000, NOW_MS + 500)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("timestamp", [NOW_MS - 1_000, NOW_MS + 500, -1])
def test_create_times_within_the_window_and_none_at_all_are_accepted(timestamp: int) -> None:
    batch = RecordBatch(
        memoryview(build_batch(b"", count=0, last_offset_delta=0, base_timestamp=timestamp, max_timestamp=timestamp))
    )
    check_timestamps(batch, NOW_MS - 1_000, NOW_MS + 500)


def test_a_producer_must_not_set_the_log_append_time_bit() -> None:
    with pytest.raises(KafkaError) as caught:
        check_produced(changed(21, ">h", 0x08), max_message_bytes=1 << 20)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_base_offset_and_leader_epoch_are_set_in_place_and_leave_the_crc_valid() -> None:
    buffer = bytearray(GOOD)
    batch = RecordBatch(memoryview(buffer))
    batch.assign(1 << 40, 77)
    again = RecordBatch(memoryview(buffer))
    assert again.crc_is_valid()
    assert (again.base_offset, again.last_offset, again.leader_epoch) == (1 << 40, (1 << 40) + 2, 77)
    assert buffer[16:] == GOOD[16:]


def test_log_append_time_sets_the_bit_the_time_and_the_crc() -> None:
    buffer = bytearray(GOOD)
    batch = RecordBatch(memoryview(buffer))
    batch.set_log_append_time(NOW_MS + 5_000)
    again = RecordBatch(memoryview(buffer))
    assert again.crc_is_valid()
    assert again.crc == batch.crc != RecordBatch(memoryview(GOOD)).crc
    assert again.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {row.timestamp for row in rows_by_oracle(buffer)} == {NOW_MS + 5_000}


def test_every_field_is_read_where_it_was_written() -> None:
    buffer = build_batch(
        b"records",
        count=5,
        last_offset_delta=9,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 3,
        base_offset=11,
        leader_epoch=4,
        codec=Codec.LZ4,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=1 << 40,
        producer_epoch=6,
        base_sequence=(1 << 31) - 2,
        is_transactional=True,
        is_control=True,
        has_delete_horizon=True,
    )
    batch = RecordBatch(memoryview(buffer))
    assert batch.crc_is_valid()
    assert (batch.base_offset, batch.length, batch.leader_epoch, batch.magic) == (11, len(buffer) - 12, 4, 2)
    assert batch.attributes == 0x7B
    assert (batch.count, batch.last_offset, batch.base_timestamp, batch.max_timestamp) == (5, 20, NOW_MS, NOW_MS + 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (
        1 << 40,
        6,
        (1 << 31) - 2,
        7,
    )
    assert (batch.is_transactional, batch.is_control, batch.delete_horizon_ms) == (True, True, NOW_MS)
    assert bytes(batch.records) == b"records"


def test_sequences_wrap_to_0() -> None:
    assert next_sequence((1 << 31) - 1) == 0
    assert next_sequence(5, 3) == 8


def test_splitting_leaves_out_a_batch_that_is_cut_off() -> None:
    marker = bytes(control_batch(ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0))
    whole = GOOD + marker + GOOD
    for cut in range(len(whole) + 1):
        sizes = [batch.size for batch in split_batches(whole[:cut])]
        assert sizes == [len(GOOD), len(marker), len(GOOD)][: len(sizes)]
        assert sum(sizes) <= cut < sum([*sizes, len(GOOD), len(marker)])


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(lambda: bytes(HEADER_SIZE), id="zeros"),
        pytest.param(lambda: changed(16, "b", 1), id="magic"),
        pytest.param(lambda: changed(8, ">i", 48), id="length below a header"),
        pytest.param(lambda: changed(8, ">i", -12), id="length that would loop for ever"),
    ],
)
def test_splitting_refuses_what_cannot_be_a_batch(garbage: Callable[[], bytes]) -> None:
    batches = split_batches(GOOD + garbage())
    assert next(batches).size == len(GOOD)
    with pytest.raises(CorruptBatch, match=f"at byte {len(GOOD)}"):
        next(batches)
