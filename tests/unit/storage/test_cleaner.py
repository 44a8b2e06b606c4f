"""Compaction: what stays, what goes, when, and that nobody is disturbed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.errors import CorruptBatch, StorageError
from kafkalite.model import TopicPartition
from kafkalite.records.batch import RecordBatch, split_batches
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows
from kafkalite.storage.cleaner import CleaningCancelled, Throttle
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.manager import LogManager
from tests.support.manual_clock import ManualClock
from tests.support.reading import read_everything

PARTITION = TopicPartition("t", 0)
NOW_MS = 1_000_000


class Compacted:
    """A compacted topic on a clock that the test moves."""

    def __init__(self, folder: Path, storage: StorageConfig, **options: Any) -> None:
        self.clock = ManualClock(NOW_MS)
        compacted = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0, segment_bytes=400)
        self.config = replace(compacted, **options)
        self.folder, self.storage = folder, storage
        self.reopen()

    manager: LogManager
    log: PartitionLog

    def reopen(self) -> None:
        for held in ("manager", "log"):  # a crash closes nothing, but lets go of the directory
            self.__dict__.pop(held, None)
        self.manager = LogManager([self.folder], self.storage, self.clock)
        self.manager.open(lambda _: self.config)
        self.log = self.manager.logs.get(PARTITION) or self.manager.create(PARTITION, self.config)

    def put(self, *records: tuple[bytes, bytes | None], **header: Any) -> None:
        now_ms = self.clock.now_ms()
        batch = encode_rows([Row(at, now_ms + at, key, value) for at, (key, value) in enumerate(records)], **header)
        self.log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def clean(self) -> bool:
        if self.log.segments[-1].size:
            self.log.roll()
        self.log.flush(self.clock.now_ms())
        return self.manager.clean()

    @property
    def rows(self) -> list[Row]:
        return read_everything(self.log).rows

    @property
    def contents(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(row.offset, row.key, row.value) for row in self.rows]

    def batches(self) -> Iterator[RecordBatch]:
        for found in self.log.read(self.log.log_start_offset, 10**9, up_to=self.log.log_end_offset):
            yield from split_batches(found.read())


@pytest.fixture
def topic(tmp_path: Path) -> Compacted:
    return Compacted(tmp_path, StorageConfig())


def test_the_last_value_of_each_key_stays_at_its_offset_in_order(topic: Compacted) -> None:
    for number in range(30):
        topic.put((b"k%d" % (number % 3), b"v%d" % number))
    assert topic.clean()
    assert topic.contents == [(27, b"k0", b"v27"), (28, b"k1", b"v28"), (29, b"k2", b"v29")]
    assert topic.log.log_end_offset == 30


def test_timestamps_headers_and_codecs_of_what_stays_do_not_change(topic: Compacted) -> None:
    for codec in Codec:
        topic.put((b"gone", b"x" * 50), (b"key %d" % codec, b"y" * 50), (b"other", None), codec=codec)
    before = {row.offset: row for row in topic.rows}
    assert topic.clean()
    after = topic.rows
    assert after == [before[row.offset] for row in after]
    assert {batch.codec_id for batch in topic.batches()} == set(Codec)


def test_an_offset_inside_a_gap_reads_on_from_the_next_record(topic: Compacted) -> None:
    for number in range(20):
        topic.put((b"k", b"v%d" % number))
    topic.clean()
    topic.put((b"k2", b"end"))
    for offset in range(20):
        (batch, *_) = split_batches(topic.log.read(offset, 1, up_to=21)[0].read())
        assert batch.base_offset == (19 if offset <= 19 else 20)


def test_a_tombstone_takes_the_key_away_and_goes_itself_after_delete_retention(tmp_path: Path) -> None:
    topic = Compacted(tmp_path, StorageConfig(), delete_retention_ms=1000)
    topic.put((b"a", b"1"))
    topic.put((b"b", b"2"))
    topic.put((b"a", None))
    topic.clean()
    assert topic.contents == [(1, b"b", b"2"), (2, b"a", None)]
    assert topic.rows[-1].timestamp == NOW_MS, "a delete horizon does not change the record's time"
    topic.clock.sleep(0.9)
    topic.put((b"c", b"3"))
    topic.clean()
    assert (2, b"a", None) in topic.contents, "delete.retention.ms has not passed since the first pass"
    topic.clock.sleep(0.2)
    topic.put((b"d", b"4"))
    topic.clean()
    assert topic.contents == [(1, b"b", b"2"), (3, b"c", b"3"), (4, b"d", b"4")]


def test_the_last_segment_and_what_is_past_the_high_watermark_are_left_alone(topic: Compacted) -> None:
    topic.put((b"k", b"1"))
    topic.put((b"k", b"2"))
    topic.log.flush(NOW_MS)
    assert not topic.manager.clean(), "there is only the last segment"
    topic.log.roll()
    topic.put((b"k", b"3"))
    topic.log.flush(NOW_MS)
    topic.log.high_watermark = 1
    assert not topic.manager.clean()
    topic.log.high_watermark = 3
    assert topic.manager.clean()
    assert topic.contents == [(1, b"k", b"2"), (2, b"k", b"3")], "the last segment's keys are not known to a pass"


def test_a_log_is_compacted_when_enough_of_it_is_new(tmp_path: Path) -> None:
    topic = Compacted(tmp_path, StorageConfig(), min_cleanable_dirty_ratio=0.5)
    for number in range(20):
        topic.put((b"k%d" % number, b"v" * 50))
    assert topic.clean()
    topic.put((b"k0", b"new"))
    assert not topic.clean(), "one record in twenty is new"
    for number in range(20):
        topic.put((b"k%d" % number, b"w" * 50))
    assert topic.clean()


def test_compaction_lags_hold_records_back_and_force_them(tmp_path: Path) -> None:
    topic = Compacted(
        tmp_path,
        StorageConfig(),
        min_compaction_lag_ms=5000,
        max_compaction_lag_ms=60_000,
        min_cleanable_dirty_ratio=1.0,
    )
    topic.put((b"old", b"1" * 300))
    topic.clock.sleep(10)
    assert topic.clean()
    topic.put((b"k", b"1"))
    topic.put((b"k", b"2"))
    assert not topic.clean(), "younger than min.compaction.lag.ms"
    topic.clock.sleep(10)
    assert not topic.clean(), "less than min.cleanable.dirty.ratio is new"
    topic.clock.sleep(60)
    assert topic.clean(), "older than max.compaction.lag.ms"
    assert [key for _, key, _ in topic.contents] == [b"old", b"k"]


def test_small_segments_are_merged(topic: Compacted) -> None:
    for number in range(40):
        topic.put((b"k%d" % (number % 4), b"v%d" % number))
    before = len(topic.log.segments)
    topic.clean()
    topic.put((b"x", b"y"))
    topic.clean()
    assert before > 5
    assert len(topic.log.segments) <= 3
    assert len(list(topic.log.folder.glob("*.log"))) == len(topic.log.segments)


def test_a_compacted_log_reopens_as_it_was(topic: Compacted) -> None:
    for number in range(40):
        topic.put((b"k%d" % (number % 4), b"v%d" % number), producer_id=1, producer_epoch=0, base_sequence=number)
    topic.clean()
    topic.manager.checkpoint()
    before = topic.contents
    topic.reopen()
    assert topic.contents == before
    assert not topic.clean(), "nothing is new since"
    topic.manager.close()
    topic.reopen()
    assert topic.contents == before


def test_a_pass_whose_memory_is_full_does_what_it_has_mapped_and_the_next_goes_on(tmp_path: Path) -> None:
    topic = Compacted(tmp_path, StorageConfig(log_cleaner_dedupe_buffer_size=1024 * 1024), segment_bytes=100_000)
    for number in range(9000):
        topic.put((b"%d" % number, b""))
    topic.put((b"8999", b"last"))
    assert topic.clean()
    assert 0 < topic.log.cleaned_to < 9000
    while topic.log.cleaned_to < 9001:
        assert topic.clean()
    assert len(topic.contents) == 9000
    assert topic.contents[-1] == (9000, b"8999", b"last")


def test_readers_and_writers_go_on_while_a_pass_replaces_the_files(topic: Compacted) -> None:
    for number in range(40):
        topic.put((b"k%d" % (number % 4), b"v%d" % number))
    topic.log.roll()
    topic.log.flush(NOW_MS)
    topic.manager.checkpoint()
    plan = topic.manager.plan_cleaning()
    assert plan is not None
    log, cleaning = plan
    before = topic.contents
    cleaning.run()
    assert topic.contents == before, "until the owner takes the result, it reads the old files"
    topic.put((b"new", b"one"))
    assert topic.manager.plan_cleaning() is None, "one pass at a time"
    assert log.delete_old_segments(10**15) == 0
    with pytest.raises(StorageError, match="being compacted; try again"):
        log.truncate_to(3, NOW_MS)
    log.finish_cleaning(cleaning)
    assert [value for _, _, value in topic.contents] == [b"v36", b"v37", b"v38", b"v39", b"one"]


def test_a_cancelled_pass_leaves_the_log_as_it_was(topic: Compacted) -> None:
    for number in range(40):
        topic.put((b"k", b"v%d" % number))
    topic.log.roll()
    topic.log.flush(NOW_MS)
    topic.manager.checkpoint()
    plan = topic.manager.plan_cleaning()
    assert plan is not None
    log, cleaning = plan
    cleaning.cancel()
    with pytest.raises(CleaningCancelled):
        cleaning.run()
    log.finish_cleaning(cleaning)
    assert len(topic.contents) == 40
    assert not list(topic.log.folder.glob("*.cleaned"))
    assert topic.clean()


def test_a_damaged_segment_is_not_compacted_away(topic: Compacted) -> None:
    for number in range(40):
        topic.put((b"k", b"v%d" % number))
    topic.log.roll()
    topic.manager.close()
    with topic.log.segments[0].path.open("r+b") as file:
        file.seek(65)
        file.write(b"\xff\xff")
    topic.reopen()
    with pytest.raises(CorruptBatch, match="it is not compacted"):
        topic.manager.clean()
    assert 0 in read_everything(topic.log).refused


def test_control_batches_stay(topic: Compacted) -> None:
    topic.put((b"k", b"1"))
    marker = encode_rows([Row(1, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True, is_transactional=True)
    RecordBatch(memoryview(marker)).assign(1, 0)
    topic.log.append_as_follower(marker, now_ms=NOW_MS)
    topic.put((b"k", b"2"))
    topic.clean()
    assert [batch.base_offset for batch in topic.batches()] == [1, 2]


def test_the_throttle_keeps_to_its_rate() -> None:
    clock = ManualClock(0)
    throttle = Throttle(1000, clock)
    for _ in range(10):
        throttle.spend(500)
    assert clock.monotonic() == pytest.approx(5.0)


def test_a_pass_is_throttled_by_what_it_reads_and_writes(tmp_path: Path) -> None:
    topic = Compacted(tmp_path, StorageConfig(log_cleaner_io_max_bytes_per_second=1000))
    for number in range(20):
        topic.put((b"k%d" % number, b"v" * 100))
    size, begun = topic.log.size, topic.clock.monotonic()
    topic.clean()
    assert topic.clock.monotonic() - begun == pytest.approx(3 * size / 1000, rel=0.05)
