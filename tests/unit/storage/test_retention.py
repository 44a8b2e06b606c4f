"""Retention: by time, by size, by log start; never past the high watermark, never the last record that is young."""

from __future__ import annotations

import pytest

from kafkalite.storage.log import PartitionLog
from tests.support.produced import append
from tests.support.reading import read_everything
from tests.unit.storage.conftest import OpenLog

DAY = 24 * 3_600_000


def filled(open_log: OpenLog, **options: object) -> PartitionLog:
    """Ten segments of one record each, a day apart."""
    log = open_log(segment_bytes=100, message_timestamp_after_max_ms=10**12, **options)
    for day in range(10):
        append(log, b"%d" % day, timestamp=day * DAY)
    log.advance_high_watermark(10)
    assert len(log.segments) == 10
    return log


def test_old_segments_go_after_seven_days_by_default(open_log: OpenLog) -> None:
    log = filled(open_log)
    assert log.delete_old_segments(now_ms=9 * DAY) == 2
    assert (log.log_start_offset, read_everything(log).rows[0].offset) == (2, 2)
    assert log.delete_old_segments(now_ms=9 * DAY) == 0
    reopened = open_log(segment_bytes=100)
    assert reopened.log_start_offset == 2


def test_time_without_limit_keeps_everything(open_log: OpenLog) -> None:
    assert filled(open_log, retention_ms=-1).delete_old_segments(now_ms=10**15) == 0


def test_the_oldest_segments_go_above_retention_bytes(open_log: OpenLog) -> None:
    log = filled(open_log, retention_ms=-1, retention_bytes=250)
    size = log.segments[0].size
    kept = -(-250 // size)
    assert log.delete_old_segments(now_ms=0) == 10 - kept
    assert log.size >= 250


def test_a_compacted_topic_keeps_old_segments_unless_it_also_deletes(open_log: OpenLog) -> None:
    assert filled(open_log, cleanup_policy=("compact",)).delete_old_segments(now_ms=10**15) == 0


def test_compact_and_delete_does_both(open_log: OpenLog) -> None:
    assert filled(open_log, cleanup_policy=("compact", "delete")).delete_old_segments(now_ms=9 * DAY) == 2


@pytest.mark.parametrize("policy", [("delete",), ("compact",)])
def test_segments_below_the_log_start_go_whatever_the_policy(open_log: OpenLog, policy: tuple[str, ...]) -> None:
    log = filled(open_log, cleanup_policy=policy, retention_ms=-1)
    log.delete_records(4)
    assert log.delete_old_segments(now_ms=0) == 4


def test_nothing_past_the_high_watermark_goes(open_log: OpenLog) -> None:
    log = filled(open_log)
    log.high_watermark = 3
    assert log.delete_old_segments(now_ms=10**15) == 3


def test_when_everything_is_too_old_the_offsets_go_on_where_they_were(open_log: OpenLog) -> None:
    log = filled(open_log)
    assert log.delete_old_segments(now_ms=10**15) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size) == (10, 10, 0)
    assert log.delete_old_segments(now_ms=10**15) == 0
    reopened = open_log(segment_bytes=100)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (10, 10)
    assert append(reopened, b"x").base_offset == 10


def test_files_go_when_the_owner_says_so(open_log: OpenLog) -> None:
    log = filled(open_log)
    log.delete_old_segments(now_ms=10**15)
    assert list(log.folder.glob("*.deleted"))
    log.remove_obsolete_files()
    assert not list(log.folder.glob("*.deleted"))
    assert len(list(log.folder.glob("*.log"))) == 1


def test_a_flush_that_ends_after_its_segments_went_leaves_nothing_behind(open_log: OpenLog) -> None:
    log = filled(open_log)
    flush = log.start_flush()
    assert flush is not None
    assert log.delete_old_segments(now_ms=9 * DAY) == 2
    flush.run()
    log.finish_flush(flush, 0)
    log.close(0)
    log = open_log(segment_bytes=100)
    assert log.log_start_offset == 2
    bases = {segment.base_offset for segment in log.segments}
    assert {int(path.stem) for path in log.folder.glob("*index")} <= bases
