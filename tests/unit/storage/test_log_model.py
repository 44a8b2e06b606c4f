"""A log against a Python list: whatever is done to both, they hold the same records at the same offsets."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.model import TopicPartition
from kafkalite.records.batch import split_batches
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows, iter_rows
from kafkalite.storage.manager import LogManager
from tests.support.manual_clock import ManualClock
from tests.support.reading import read_everything

MEMORY_DISK = Path("/dev/shm")
"""Thousands of fsyncs on a real disk would take minutes, and prove nothing here."""
PARTITION = TopicPartition("model", 0)
RECORDS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.none() | st.binary(max_size=40)), min_size=1, max_size=6
)


class LogModel(RuleBasedStateMachine):
    """`rows` is the model: what the log must hold from `start` on."""

    policy: tuple[str, ...] = ("delete",)

    @initialize(segment_bytes=st.integers(150, 600), index_interval=st.sampled_from([0, 100, 4096]))
    def open_new(self, segment_bytes: int, index_interval: int) -> None:
        self.data = Path(tempfile.mkdtemp(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None))
        self.clock = ManualClock(1_000_000)
        self.config = TopicConfig(
            cleanup_policy=self.policy,
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval,
            min_cleanable_dirty_ratio=0,
            delete_retention_ms=500,
            retention_ms=-1,
        )
        self.rows: list[Row] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.producer = 1
        self.sequence = 0
        self.manager = LogManager([self.data], StorageConfig(), self.clock)
        self.log = self.manager.create(PARTITION, self.config)

    def teardown(self) -> None:
        if hasattr(self, "data"):
            shutil.rmtree(self.data)

    @rule(records=RECORDS, codec=st.sampled_from(Codec), is_new_leader=st.booleans())
    def append(self, records: list[tuple[bytes, bytes | None]], codec: Codec, is_new_leader: bool) -> None:
        self.clock.sleep(0.01)
        self.epoch += is_new_leader
        now_ms = self.clock.now_ms()
        rows = [Row(at, now_ms + at % 3, key, value) for at, (key, value) in enumerate(records)]
        batch = encode_rows(rows, codec=codec, producer_id=self.producer, producer_epoch=0, base_sequence=self.sequence)
        repeated = bytearray(batch)
        appended = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=now_ms)
        assert (appended.base_offset, appended.is_duplicate) == (self.end, False)
        again = self.log.append_as_leader(repeated, leader_epoch=self.epoch, now_ms=now_ms)
        assert (again.base_offset, again.is_duplicate) == (self.end, True)
        self.rows += [row._replace(offset=self.end + row.offset) for row in rows]
        self.end += len(rows)
        self.sequence += len(rows)
        self.log.advance_high_watermark(self.end)

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 1000))
    def read_from_anywhere(self, share: float, max_bytes: int) -> None:
        offset = self.start + int(share * (self.end - self.start))
        data = b"".join(found.read() for found in self.log.read(offset, max_bytes, up_to=self.end))
        batches = list(split_batches(data))
        served = [row for batch in batches for row in iter_rows(batch, limit=10**6) if row.offset >= offset]
        expected = [row for row in self.rows if row.offset >= offset]
        if batches:
            assert sum(batch.size for batch in batches) == len(data)
            assert served == [row for row in expected if row.offset < batches[-1].next_offset]
        else:
            assert not expected

    @rule(share=st.floats(0, 1))
    def find_by_time(self, share: float) -> None:
        timestamp = 1_000_000 + int(share * (self.clock.now_ms() - 1_000_000))
        found = self.log.offset_for_time(timestamp)
        expected = next((row for row in self.rows if row.timestamp >= timestamp), None)
        assert (found and found.offset) == (expected and expected.offset)

    @rule()
    def roll(self) -> None:
        if self.log.segments[-1].size:
            self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush(self.clock.now_ms())

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        wanted = self.start + int(share * (self.end - self.start))
        self.log.truncate_to(wanted, self.clock.now_ms())
        assert self.log.log_end_offset <= wanted
        self._end_at(self.log.log_end_offset)

    def _end_at(self, end: int) -> None:
        self.end = end
        self.rows = [row for row in self.rows if row.offset < end]
        self.start = min(self.start, end)
        # A producer whose batches went may not go on with its sequence: another one takes its place.
        self.producer += 1
        self.sequence = 0

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start += int(share * (self.end - self.start))
        self.log.delete_records(self.start)
        self.rows = [row for row in self.rows if row.offset >= self.start]

    @rule()
    def retain(self) -> None:
        self.manager.retain()
        self.manager.remove_obsolete_files()
        assert self.log.log_start_offset == self.start

    @rule()
    def checkpoint(self) -> None:
        self.manager.checkpoint()

    @rule(is_clean=st.booleans())
    def reopen(self, is_clean: bool) -> None:
        if is_clean:
            self.manager.close()
        del self.log, self.manager  # a crash closes nothing, but lets go of the directory
        self.manager = LogManager([self.data], StorageConfig(), self.clock)
        self.manager.open(lambda _partition: self.config)
        assert not self.manager.failed
        self.log = self.manager.logs[PARTITION]
        self.log.advance_high_watermark(self.end)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if hasattr(self, "log"):
            reading = read_everything(self.log, max_bytes=300)
            assert reading.rows == self.rows
            assert not reading.refused
            assert (reading.log_start_offset, reading.log_end_offset) == (self.start, self.end)


class CompactedLogModel(LogModel):
    """The same with compaction, which may take away what a later record of the same key replaces."""

    policy = ("compact",)

    @precondition(lambda self: hasattr(self, "log"))
    @rule()
    def compact(self) -> None:
        self.log.flush(self.clock.now_ms())
        self.manager.clean()
        served = read_everything(self.log).rows
        kept = {row.offset for row in served}
        assert served == [row for row in self.rows if row.offset in kept]
        last = {row.key: row for row in self.rows}
        for row in self.rows:
            if row.offset >= self.log.segments[-1].base_offset:
                assert row.offset in kept, "the last segment is never compacted"
            if row == last[row.key] and row.value is not None:
                assert row.offset in kept, "the last value of a key stays"
        self.rows = served


TestPlainLog = LogModel.TestCase
TestPlainLog.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCompactedLog = CompactedLogModel.TestCase
TestCompactedLog.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
