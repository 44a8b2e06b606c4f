"""One partition's log: what it accepts, what it gives back, and what survives a reopen."""

from __future__ import annotations

import pytest

from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError
from kafkalite.records.batch import RecordBatch, split_batches
from kafkalite.records.rows import Row
from kafkalite.storage.log import PartitionLog
from tests.support.produced import append, produced
from tests.support.reading import read_everything
from tests.unit.storage.conftest import OpenLog


def values(log: PartitionLog) -> list[bytes | None]:
    return [row.value for row in read_everything(log).rows]


def refusal(log: PartitionLog, records: bytearray) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(records, leader_epoch=0, now_ms=0)
    assert log.log_end_offset == end
    return caught.value.code


def test_offsets_follow_each_other_over_batches_and_segments(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    assert append(log, b"a", b"b").base_offset == 0
    appended = append(log, b"c", b"d", b"e")
    assert (appended.base_offset, appended.last_offset) == (2, 4)
    for number in range(20):
        append(log, b"%d" % number)
    assert len(log.segments) > 3
    assert [row.offset for row in read_everything(log).rows] == list(range(25))


def test_base_offset_and_epoch_are_written_into_the_senders_buffer(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", b"b", b"c")
    sent = produced(b"d")
    log.append_as_leader(sent, leader_epoch=7, now_ms=0)
    batch = RecordBatch(memoryview(sent))
    assert (batch.base_offset, batch.leader_epoch, batch.crc_is_valid()) == (3, 7, True)


def test_everything_is_there_after_a_reopen_with_and_without_a_close(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for number in range(30):
        append(log, b"%d" % number, epoch=number // 10)
    before, epochs = read_everything(log), log.epochs.entries
    log = open_log(segment_bytes=300)
    assert (read_everything(log), log.epochs.entries) == (before, epochs)
    log.close(0)
    log = open_log(segment_bytes=300)
    assert (read_everything(log), log.epochs.entries) == (before, epochs)


def test_a_closed_log_opens_without_looking_at_its_batches(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(segment_bytes=300)
    for number in range(30):
        append(log, b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number)
    log.close(0)
    checked: list[RecordBatch] = []

    def crc_is_valid(batch: RecordBatch) -> bool:
        checked.append(batch)
        return True

    monkeypatch.setattr(RecordBatch, "crc_is_valid", crc_is_valid)
    log = open_log(segment_bytes=300)
    assert not checked
    assert log.log_end_offset == 30


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda b: b.__setitem__(slice(16, 17), b"\x01"), ErrorCode.INVALID_RECORD),
        (lambda b: b.__setitem__(slice(70, 71), b"\xee"), ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b.__setitem__(slice(0, 8), b"\0\0\0\0\0\0\0\x05"), ErrorCode.INVALID_RECORD),
        (lambda b: b.extend(bytes(b)), ErrorCode.INVALID_RECORD),
        (lambda b: b.clear(), ErrorCode.INVALID_RECORD),
    ],
    ids=["magic", "crc", "base offset", "two batches", "nothing"],
)
def test_a_bad_batch_is_refused_and_leaves_the_log_as_it_was(
    open_log: OpenLog, damage: object, code: ErrorCode
) -> None:
    log = open_log()
    append(log, b"a")
    records = produced(b"some value")
    assert callable(damage)
    damage(records)
    assert refusal(log, records) is code
    assert values(log) == [b"a"]


def test_a_batch_above_max_message_bytes_is_refused(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=100)
    assert refusal(log, produced(b"x" * 100)) is ErrorCode.MESSAGE_TOO_LARGE
    append(log, b"x")


def test_a_compacted_topic_refuses_records_without_a_key(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=("compact",))
    assert refusal(log, produced(b"v", key=None)) is ErrorCode.INVALID_RECORD
    append(log, b"v", key=b"")


def test_create_times_out_of_bounds_are_refused(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    with pytest.raises(KafkaError, match=r"message\.timestamp\.before\.max\.ms") as caught:
        append(log, b"v", timestamp=8_999, now_ms=10_000)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    with pytest.raises(KafkaError):
        append(log, b"v", timestamp=10_501, now_ms=10_000)
    append(log, b"v", timestamp=9_000, now_ms=10_000)
    append(log, b"v", timestamp=10_500, now_ms=10_000)


def test_log_append_time_replaces_the_senders_time(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    appended = append(log, b"a", b"b", timestamp=5, now_ms=777)
    assert appended.log_append_time_ms == 777
    assert [row.timestamp for row in read_everything(log).rows] == [777, 777]


def test_a_repeated_batch_is_answered_with_its_first_offset_and_not_written_again(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(6):
        append(log, b"%d" % sequence, producer_id=9, producer_epoch=0, base_sequence=sequence)
    again = append(log, b"3", producer_id=9, producer_epoch=0, base_sequence=3)
    assert (again.base_offset, again.is_duplicate) == (3, True)
    log = open_log()
    again = append(log, b"5", producer_id=9, producer_epoch=0, base_sequence=5)
    assert (again.base_offset, again.is_duplicate) == (5, True)
    assert log.log_end_offset == 6


def test_a_gap_in_the_sequence_is_refused_also_after_a_clean_reopen(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"0", producer_id=9, producer_epoch=0, base_sequence=0)
    log.close(0)
    log = open_log()
    gap = produced(b"2", producer_id=9, producer_epoch=0, base_sequence=2)
    assert refusal(log, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_follower_keeps_the_leaders_offsets_and_epochs(open_log: OpenLog) -> None:
    log = open_log()
    log.append_as_follower(produced_at(10, b"a", epoch=3) + produced_at(15, b"b", epoch=4), now_ms=0)
    assert [row.offset for row in read_everything(log).rows] == [10, 15]
    assert [tuple(entry) for entry in log.epochs.entries] == [(3, 10), (4, 15)]
    with pytest.raises(KafkaError, match="begins below the log's end 16"):
        log.append_as_follower(produced_at(15, b"c", epoch=4), now_ms=0)
    broken = produced_at(16, b"d", epoch=4)
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_as_follower(broken, now_ms=0)
    assert log.log_end_offset == 16


def produced_at(offset: int, value: bytes, epoch: int) -> bytearray:
    records = produced(value)
    RecordBatch(memoryview(records)).assign(offset, epoch)
    return records


def test_reads_end_at_whole_batches_within_max_bytes_but_give_at_least_one(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=150)
    sizes = [len(produced(b"x" * (10 * n))) for n in range(10)]
    for n in range(10):
        append(log, b"x" * (10 * n))
    assert [r.length for r in log.read(0, 1, up_to=10)] == [sizes[0]]
    assert [r.length for r in log.read(4, sizes[4] + sizes[5], up_to=10)] == [sizes[4] + sizes[5]]
    assert [r.length for r in log.read(4, sizes[4] + sizes[5] - 1, up_to=10)] == [sizes[4]]
    assert [r.length for r in log.read(0, 10**6, up_to=10)] == [sum(sizes)]


def test_nothing_at_or_past_the_bound_is_read(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=250)
    for number in range(12):
        append(log, b"%d" % number)
    for bound in range(13):
        batches = [b for r in log.read(0, 10**6, up_to=bound) for b in split_batches(r.read())]
        assert [batch.base_offset for batch in batches] == list(range(bound))
    assert log.read(12, 100, up_to=12) == []


def test_a_read_goes_on_into_the_next_segments_up_to_max_bytes(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=150)
    for number in range(9):
        append(log, b"%d" % number)
    ranges = log.read(0, 400, up_to=9)
    assert len(ranges) > 1
    assert sum(r.length for r in ranges) <= 400


@pytest.mark.parametrize("offset", [-1, 4, 1000])
def test_an_offset_outside_the_log_is_out_of_range(open_log: OpenLog, offset: int) -> None:
    log = open_log()
    append(log, b"a", b"b", b"c")
    with pytest.raises(KafkaError, match=r"not within \[0, 3\]") as caught:
        log.read(offset, 100, up_to=3)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_range_of_a_dropped_segment_can_still_be_read(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=150, retention_ms=1)
    for number in range(9):
        append(log, b"%d" % number)
    log.advance_high_watermark(9)
    (first,) = log.read(0, 1, up_to=9)
    expected = first.read()
    assert log.delete_old_segments(now_ms=10**9) > 0
    log.remove_obsolete_files()
    assert first.read() == expected


def test_records_are_found_by_time(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=400, index_interval_bytes=100, message_timestamp_after_max_ms=10**9)
    for number in range(40):
        append(log, b"a", b"b", timestamp=1000 + 10 * number)
    for reopened in (log, open_log(segment_bytes=400)):
        for timestamp in (0, 1000, 1001, 1010, 1205, 1390):
            found = reopened.offset_for_time(timestamp)
            assert found is not None
            expected = max(0, -(-(timestamp - 1000) // 10))
            assert (found.offset, found.timestamp) == (2 * expected, 1000 + 10 * expected)
        assert reopened.offset_for_time(1391) is None
        latest = reopened.offset_of_max_timestamp()
        assert latest is not None
        assert (latest.offset, latest.timestamp) == (78, 1390)


def test_times_that_go_back_are_found_too(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300, index_interval_bytes=1, message_timestamp_after_max_ms=10**9)
    times = [50, 10, 90, 20, 20, 100, 5, 70, 99, 100, 3]
    for timestamp in times:
        append(log, b"x" * 30, timestamp=timestamp)
    for wanted in range(102):
        found = log.offset_for_time(wanted)
        expected = next((at for at, timestamp in enumerate(times) if timestamp >= wanted), None)
        assert (found.offset if found else None) == expected


def test_truncation_drops_batches_epochs_and_producers_past_the_end(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for number in range(20):
        append(log, b"%d" % number, epoch=number // 5, producer_id=1, producer_epoch=0, base_sequence=number)
    log.truncate_to(7, now_ms=0)
    assert log.log_end_offset == 7
    assert [entry.epoch for entry in log.epochs.entries] == [0, 1]
    appended = append(log, b"new", epoch=9, producer_id=1, producer_epoch=0, base_sequence=7)
    assert (appended.base_offset, appended.is_duplicate) == (7, False)
    expected = [b"%d" % number for number in range(7)] + [b"new"]
    assert values(log) == expected
    assert values(open_log(segment_bytes=300)) == expected


def test_a_batch_that_reaches_past_the_cut_goes_as_a_whole(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", b"b")
    append(log, b"c", b"d", b"e")
    log.truncate_to(4, now_ms=0)
    assert (log.log_end_offset, values(log)) == (2, [b"a", b"b"])


def test_what_is_written_after_a_cut_is_not_trusted_as_flushed(open_log: OpenLog) -> None:
    log = open_log()
    for number in range(5):
        append(log, b"%d" % number)
    log.close(0)
    log = open_log()
    log.truncate_to(3, now_ms=0)
    append(log, b"new")
    with log.segments[-1].path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    log = open_log()
    assert (log.log_end_offset, values(log)) == (3, [b"0", b"1", b"2"])


def test_a_log_can_start_again_at_another_offset(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    for number in range(10):
        append(log, b"%d" % number)
    log.restart_at(1000)
    assert append(log, b"x").base_offset == 1000
    log = open_log(segment_bytes=200)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1001)
    assert read_everything(log).rows == [Row(1000, 0, b"k", b"x")]


def test_deleted_records_stay_deleted_after_a_crash(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    for number in range(10):
        append(log, b"%d" % number)
    log.advance_high_watermark(8)
    log.delete_records(5)
    assert values(log) == [b"5", b"6", b"7", b"8", b"9"]
    log = open_log(segment_bytes=200)
    assert log.log_start_offset == 5
    with pytest.raises(KafkaError, match="the high watermark is 8"):
        log.delete_records(9)


def test_the_high_watermark_survives_a_close_and_never_goes_back(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", b"b", b"c")
    log.advance_high_watermark(2)
    log.advance_high_watermark(1)
    assert log.high_watermark == 2
    log.advance_high_watermark(99)
    assert log.high_watermark == 3
    log.close(0)
    assert open_log().high_watermark == 3


@pytest.mark.parametrize(
    "options", [{"segment_bytes": 300}, {"segment_ms": 100}, {"segment_index_bytes": 36, "index_interval_bytes": 0}]
)
def test_segments_roll_by_size_by_time_and_when_the_index_is_full(open_log: OpenLog, options: dict[str, int]) -> None:
    log = open_log(message_timestamp_after_max_ms=10**9, **options)
    for number in range(12):
        append(log, b"x" * 20, timestamp=40 * number)
    assert len(log.segments) >= 3
    assert [row.offset for row in read_everything(open_log(**options)).rows] == list(range(12))


def test_few_closed_segments_stay_open(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=100)
    for number in range(30):
        append(log, b"%d" % number)
    log.flush(0)
    assert sum(segment.is_open for segment in log.segments[:-1]) <= 2
    read_everything(log)
    assert sum(segment.is_open for segment in log.segments[:-1]) <= 2


def test_producers_are_what_the_cut_log_says_also_after_the_next_flush_and_crash(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for number in range(20):
        append(log, b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number)
    log.truncate_to(7, now_ms=0)
    log.flush(0)
    log = open_log(segment_bytes=300)
    appended = append(log, b"7", producer_id=1, producer_epoch=0, base_sequence=7)
    assert (appended.base_offset, appended.is_duplicate) == (7, False)


def test_a_cut_within_a_compacted_segment_is_no_damage_after_a_crash(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=("compact",))
    log.append_as_follower(produced_at(5, b"a", epoch=0) + produced_at(9, b"b", epoch=0), now_ms=0)
    log.roll()
    append(log, b"c")
    log.truncate_to(8, now_ms=0)
    assert log.log_end_offset == 8
    for _ in range(2):
        log = open_log(cleanup_policy=("compact",))
        reading = read_everything(log)
        assert ([row.offset for row in reading.rows], reading.refused, log.log_end_offset) == ([5], [], 8)
    assert append(log, b"d").base_offset == 8


def test_rolling_an_empty_segment_changes_nothing(open_log: OpenLog) -> None:
    log = open_log()
    log.roll()
    append(log, b"a")
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_full_index_begins_a_new_segment_also_after_a_reopen(open_log: OpenLog) -> None:
    options = {"segment_index_bytes": 36, "index_interval_bytes": 0}
    for number in range(9):
        log = open_log(**options)
        append(log, b"%d" % number)
        log.close(0)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
