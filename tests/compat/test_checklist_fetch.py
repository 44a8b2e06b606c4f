"""The traps of Fetch and ListOffsets, one by one, over a raw socket."""

from __future__ import annotations

import time

import pytest

from kafkalite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkalite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkalite.testing import EmbeddedBroker
from tests.compat.raw_connection import RawConnection, fetch_request
from tests.support.produced import produced

LONG_MS = 60_000
"""Longer than the test's socket waits."""


@pytest.fixture
def filled(raw: RawConnection, topic: str) -> str:
    """A topic of three batches, with the offsets 0 to 2, 3 to 5 and 6 to 8, a second apart."""
    raw.create_topic(topic)
    for at in range(3):
        raw.produce(topic, produced(b"a" * 100, b"b" * 100, b"c" * 100, timestamp=1_000 * at))
    return topic


def only(answer: FetchResponse) -> PartitionData:
    ((partition,),) = ([*topic.partitions] for topic in answer.responses)
    return partition


def starts(raw: RawConnection, answer: FetchResponse) -> list[int]:
    return [batch.base_offset for batch in raw.batches(only(answer).records)]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_reads_the_same(raw: RawConnection, filled: str, version: int) -> None:
    answer = raw.fetch(filled, 0, version=version)
    assert starts(raw, answer) == [0, 3, 6]
    assert (only(answer).high_watermark, only(answer).last_stable_offset) == (9, 9)
    assert all(batch.crc_is_valid() for batch in raw.batches(only(answer).records))


def test_there_are_no_sessions(raw: RawConnection, filled: str) -> None:
    asked = raw.fetch(filled, 0, session_id=0, session_epoch=0)
    assert (asked.error_code, asked.session_id) == (0, 0)
    assert starts(raw, asked) == [0, 3, 6]
    unknown = raw.call(
        FetchRequest(max_wait_ms=0, min_bytes=0, session_id=123, session_epoch=1, topics=[]), FetchResponse, 12
    )
    assert (unknown.error_code, unknown.session_id) == (70, 0)


def test_a_fetch_waits_until_there_are_min_bytes(raw: RawConnection, broker: EmbeddedBroker, topic: str) -> None:
    raw.create_topic(topic)
    batch = produced(b"x" * 1_000)
    waiting = raw.send(fetch_request({topic: 0}, max_wait_ms=LONG_MS, min_bytes=len(batch) + 1), 12)
    with RawConnection(broker.port) as other:
        for _ in range(2):
            other.produce(topic, bytes(batch))
    answer = raw.receive(FetchResponse, 12, waiting)
    assert starts(raw, answer) == [0, 1], "one batch alone has too few bytes"


def test_a_fetch_waits_no_longer_than_max_wait(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    began = time.monotonic()
    answer = raw.fetch(topic, 0, max_wait_ms=300, min_bytes=1)
    assert time.monotonic() - began >= 0.29
    assert (only(answer).error_code, only(answer).records) == (0, b"")


def test_too_few_bytes_are_answered_after_max_wait(raw: RawConnection, filled: str) -> None:
    assert starts(raw, raw.fetch(filled, 0, max_wait_ms=100, min_bytes=1 << 20)) == [0, 3, 6]


@pytest.mark.parametrize(("partition", "offset", "code"), [(0, 100, 1), (0, -1, 1), (7, 0, 3)])
def test_an_error_is_answered_at_once(raw: RawConnection, filled: str, partition: int, offset: int, code: int) -> None:
    request = fetch_request({filled: offset}, max_wait_ms=LONG_MS, min_bytes=1 << 20, partitions=[partition])
    assert only(raw.call(request, FetchResponse, 12)).error_code == code


def test_an_error_of_one_partition_leaves_the_others_readable(raw: RawConnection, filled: str) -> None:
    request = fetch_request({filled: 0, "no-such-topic": 0}, max_wait_ms=LONG_MS, min_bytes=1 << 20)
    good, bad = (topic.partitions[0] for topic in raw.call(request, FetchResponse, 12).responses)
    assert (good.error_code, len(raw.batches(good.records))) == (0, 3)
    assert bad.error_code == 3


@pytest.mark.parametrize("limits", [{"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}])
def test_there_is_at_least_one_whole_batch_however_low_the_limits(
    raw: RawConnection, filled: str, limits: dict[str, int]
) -> None:
    assert starts(raw, raw.fetch(filled, 3, **limits)) == [3]


def test_limits_are_kept_after_the_first_batch(raw: RawConnection, filled: str) -> None:
    size = raw.batches(only(raw.fetch(filled, 0)).records)[0].size
    assert starts(raw, raw.fetch(filled, 0, partition_max_bytes=2 * size)) == [0, 3]
    assert starts(raw, raw.fetch(filled, 0, max_bytes=2 * size + 1)) == [0, 3]


def test_the_batch_that_contains_the_offset_is_whole(raw: RawConnection, filled: str) -> None:
    answer = raw.fetch(filled, 4)
    assert starts(raw, answer) == [3, 6]
    assert [batch.count for batch in raw.batches(only(answer).records)] == [3, 3]


def test_the_end_of_the_log_is_in_range_and_beyond_it_is_not(raw: RawConnection, filled: str) -> None:
    assert (only(raw.fetch(filled, 9)).error_code, only(raw.fetch(filled, 9)).records) == (0, b"")
    assert only(raw.fetch(filled, 10)).error_code == 1


def test_what_was_deleted_is_out_of_range(raw: RawConnection, filled: str) -> None:
    wanted = DeleteRecordsTopic(name=filled, partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
    deleted = raw.call(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), DeleteRecordsResponse, 2)
    assert deleted.topics[0].partitions[0].low_watermark == 4
    assert only(raw.fetch(filled, 3)).error_code == 1
    assert only(raw.fetch(filled, 4)).error_code == 0
    assert only(raw.fetch(filled, 4)).log_start_offset == 4
    too_far = DeleteRecordsTopic(name=filled, partitions=[DeleteRecordsPartition(partition_index=0, offset=10)])
    refused = raw.call(DeleteRecordsRequest(topics=[too_far], timeout_ms=10_000), DeleteRecordsResponse, 2)
    assert refused.topics[0].partitions[0].error_code == 1
    everything = DeleteRecordsTopic(name=filled, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    emptied = raw.call(DeleteRecordsRequest(topics=[everything], timeout_ms=10_000), DeleteRecordsResponse, 2)
    assert emptied.topics[0].partitions[0].low_watermark == 9


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (-1, 0), (5, 75)])
def test_a_readers_leader_epoch_is_compared(raw: RawConnection, filled: str, epoch: int, code: int) -> None:
    wanted = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=filled, partitions=[wanted])])
    assert only(raw.call(request, FetchResponse, 12)).error_code == code


# ListOffsets


def listed(raw: RawConnection, topic: str, timestamp: int, version: int = 7) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = raw.call(ListOffsetsRequest(topics=[wanted]), ListOffsetsResponse, version)
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 8))
def test_earliest_and_latest_are_listed(raw: RawConnection, filled: str, version: int) -> None:
    assert (listed(raw, filled, -2, version).offset, listed(raw, filled, -2, version).error_code) == (0, 0)
    assert (listed(raw, filled, -1, version).offset, listed(raw, filled, -1, version).error_code) == (9, 0)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"), [(0, 0, 0), (1, 3, 1_000), (1_000, 3, 1_000), (2_000, 6, 2_000), (2_001, -1, -1)]
)
def test_the_first_record_at_or_after_a_time_is_listed(
    raw: RawConnection, filled: str, timestamp: int, offset: int, found: int
) -> None:
    answer = listed(raw, filled, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found)


def test_the_record_with_the_largest_time_is_listed(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    assert listed(raw, topic, -3).offset == -1
    for timestamp in (1_000, 5_000, 3_000):
        raw.produce(topic, produced(b"v", timestamp=timestamp))
    assert (listed(raw, topic, -3).offset, listed(raw, topic, -3).timestamp) == (1, 5_000)


def test_offsets_of_what_does_not_exist_are_error_3(raw: RawConnection) -> None:
    assert listed(raw, "no-such-topic", -1).error_code == 3
