"""The traps of Produce, one by one, over a raw socket: every rule that a batch must keep, and idempotence."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkalite.records.batch import HEADER_SIZE, TimestampType, build_batch
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows
from kafkalite.testing import EmbeddedBroker
from tests.compat.raw_connection import RawConnection, produce_request
from tests.support.produced import produced

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
ROWS = [Row(0, NOW_MS, b"k", b"first"), Row(1, NOW_MS, b"k", b"second")]
RECORDS = bytes(encode_rows(ROWS)[HEADER_SIZE:])


@pytest.fixture
def made(raw: RawConnection, topic: str) -> str:
    raw.create_topic(topic)
    return topic


def rebuilt(**changes: Any) -> bytearray:
    """The two records under a header with these fields changed; its CRC is right."""
    header: dict[str, Any] = {
        "count": 2,
        "last_offset_delta": 1,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS,
        "base_offset": 0,
    }
    return build_batch(RECORDS, **{**header, **changes})


def with_byte(position: int, value: int) -> bytearray:
    batch = encode_rows(ROWS)
    batch[position] = value
    return batch


MAGIC_AT, CRC_AT = 16, 17
INVALID: list[tuple[str, bytes | bytearray | None, int]] = [
    ("no batch", None, 87),
    ("nothing in the batch", b"", 87),
    ("half a header", bytes(encode_rows(ROWS)[:30]), 87),
    ("half a batch", bytes(encode_rows(ROWS)[:-1]), 87),
    ("two batches", encode_rows(ROWS) + encode_rows(ROWS), 87),
    ("magic 1", with_byte(MAGIC_AT, 1), 87),
    ("magic 0", with_byte(MAGIC_AT, 0), 87),
    ("base offset", rebuilt(base_offset=5), 87),
    ("CRC", with_byte(CRC_AT, encode_rows(ROWS)[CRC_AT] ^ 1), 2),
    ("a flipped bit in a value", with_byte(-3, 0), 2),
    ("count too large", rebuilt(count=3), 87),
    ("count too small", rebuilt(count=1), 87),
    ("no records", rebuilt(count=0, last_offset_delta=-1), 87),
    ("negative count", rebuilt(count=-1, last_offset_delta=-2), 87),
    ("control batch", rebuilt(is_control=True), 87),
    ("producer without sequence", rebuilt(producer_id=7, producer_epoch=0, base_sequence=-1), 87),
    ("log-append time set by a client", rebuilt(timestamp_type=TimestampType.LOG_APPEND_TIME), 32),
    ("a day in the future", rebuilt(base_timestamp=NOW_MS + 24 * HOUR_MS, max_timestamp=NOW_MS + 24 * HOUR_MS), 32),
    ("no transaction", rebuilt(is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0), 48),
]


@pytest.mark.parametrize(("batch", "code"), [pytest.param(*rest, id=name) for name, *rest in INVALID])
def test_a_batch_that_breaks_a_rule_is_refused_with_kafkas_code(
    raw: RawConnection, made: str, batch: bytes | None, code: int
) -> None:
    answer = raw.produce(made, batch)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.error_message
    assert raw.produce(made, encode_rows(ROWS)).base_offset == 0, "nothing of it is in the log"


@pytest.mark.parametrize("version", range(3, 10))
def test_every_version_appends(raw: RawConnection, made: str, version: int) -> None:
    answer = raw.produce(made, encode_rows(ROWS), version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert raw.produce(made, encode_rows(ROWS), version=version).base_offset == 2


@pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0), (9, 0)])
def test_zstd_needs_version_7(raw: RawConnection, made: str, version: int, code: int) -> None:
    assert raw.produce(made, encode_rows(ROWS, codec=Codec.ZSTD), version=version).error_code == code


def create_with(raw: RawConnection, topic: str, **configs: str) -> None:
    given = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=given)
    assert raw.call(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse, 7).topics[0].error_code == 0


def test_a_batch_above_max_message_bytes_is_error_10(raw: RawConnection, topic: str) -> None:
    batch = produced(b"x" * 500)
    create_with(raw, topic, max_message_bytes=str(len(batch)))
    assert raw.produce(topic, batch).error_code == 0
    assert raw.produce(topic, produced(b"x" * 501)).error_code == 10


def test_a_time_too_far_in_the_past_is_error_32_where_the_topic_says_so(raw: RawConnection, topic: str) -> None:
    create_with(raw, topic, message_timestamp_before_max_ms=str(HOUR_MS))
    assert raw.produce(topic, produced(b"v", timestamp=NOW_MS - 2 * HOUR_MS)).error_code == 32
    assert raw.produce(topic, produced(b"v", timestamp=NOW_MS)).error_code == 0


def test_a_compacted_topic_needs_keys_and_names_the_records_without(raw: RawConnection, topic: str) -> None:
    create_with(raw, topic, cleanup_policy="compact")
    rows = [Row(0, NOW_MS, b"k", b"v"), Row(1, NOW_MS, None, b"v"), Row(2, NOW_MS, b"k", None)]
    answer = raw.produce(topic, encode_rows(rows), version=8)
    assert answer.error_code == 87
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert raw.produce(topic, encode_rows(rows), version=7).error_code == 87
    assert raw.produce(topic, encode_rows([rows[0]])).base_offset == 0


def test_errors_are_answered_per_partition(raw: RawConnection, made: str) -> None:
    batches = {0: encode_rows(ROWS), 9: encode_rows(ROWS)}
    data = [PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(name=made, partition_data=data),
            TopicProduceData(name="no-such-topic", partition_data=data[:1]),
        ],
    )
    answer = raw.call(request, ProduceResponse, 9)
    codes = [[one.error_code for one in topic.partition_responses] for topic in answer.responses]
    assert codes == [[0, 3], [3]]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_error_21(raw: RawConnection, made: str, acks: int) -> None:
    assert raw.produce(made, encode_rows(ROWS), acks=acks).error_code == 21


def test_acks_0_has_no_answer(raw: RawConnection, made: str) -> None:
    raw.send(produce_request(made, encode_rows(ROWS), acks=0), 9)
    after = raw.send(MetadataRequest(topics=[]), 12)
    raw.receive(MetadataResponse, 12, after)
    assert raw.fetch(made, 0).responses[0].partitions[0].high_watermark == 2


def test_an_error_with_acks_0_closes_the_connection(raw: RawConnection, broker: EmbeddedBroker, made: str) -> None:
    with RawConnection(broker.port) as other:
        other.send(produce_request(made, with_byte(MAGIC_AT, 1), acks=0), 9)
        assert other.is_closed_by_broker()
    assert raw.produce(made, encode_rows(ROWS)).base_offset == 0


def test_nobody_writes_to_an_internal_topic(raw: RawConnection) -> None:
    assert raw.produce("__consumer_offsets", encode_rows(ROWS)).error_code in (3, 17)


# Idempotence


class IdempotentProducer:
    """Sends batches with the identity that the broker gave it, and any sequence that a test wants."""

    def __init__(self, raw: RawConnection, topic: str) -> None:
        self._raw, self._topic = raw, topic
        answer = raw.call(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), InitProducerIdResponse, 4
        )
        assert answer.error_code == 0
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def send(self, sequence: int, count: int = 1, epoch: int | None = None) -> tuple[int, int]:
        """The error code and base offset that this is answered with."""
        batch = produced(
            *[b"v"] * count,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        answer = self._raw.produce(self._topic, batch)
        return answer.error_code, answer.base_offset


def test_every_producer_has_an_id_of_its_own(raw: RawConnection, made: str) -> None:
    producers = [IdempotentProducer(raw, made) for _ in range(5)]
    assert len({producer.id for producer in producers}) == 5
    assert {producer.epoch for producer in producers} == {0}


def test_the_last_five_batches_sent_again_are_answered_with_their_first_offsets(raw: RawConnection, made: str) -> None:
    producer = IdempotentProducer(raw, made)
    for at in range(5):
        assert producer.send(2 * at, count=2) == (0, 2 * at)
    for at in (0, 4, 2):
        assert producer.send(2 * at, count=2) == (0, 2 * at)
    assert producer.send(10) == (0, 10), "nothing was appended twice"


def test_a_gap_in_the_sequence_is_error_45(raw: RawConnection, made: str) -> None:
    producer = IdempotentProducer(raw, made)
    assert producer.send(0) == (0, 0)
    assert producer.send(2) == (45, -1)
    assert producer.send(1) == (0, 1)


def test_a_producer_that_the_partition_does_not_know_may_begin_anywhere(raw: RawConnection, made: str) -> None:
    assert IdempotentProducer(raw, made).send(1_000) == (0, 0)


def test_sequences_begin_again_after_the_largest(raw: RawConnection, made: str) -> None:
    producer = IdempotentProducer(raw, made)
    assert producer.send(2**31 - 2) == (0, 0)
    assert producer.send(2**31 - 1, count=2) == (0, 1)
    assert producer.send(1) == (0, 3)


def test_a_new_epoch_begins_at_0_and_shuts_the_old_one_out(raw: RawConnection, made: str) -> None:
    producer = IdempotentProducer(raw, made)
    assert producer.send(0) == (0, 0)
    assert producer.send(1, epoch=1) == (45, -1)
    assert producer.send(0, epoch=1) == (0, 1)
    assert producer.send(1, epoch=0) == (47, -1)


def test_what_a_producer_has_sent_is_known_after_a_crash_too(tmp_path: Any, topic: str) -> None:
    with EmbeddedBroker() as broker:
        with RawConnection(broker.port) as raw:
            raw.create_topic(topic)
            producer = IdempotentProducer(raw, topic)
            assert [producer.send(at) for at in range(3)] == [(0, 0), (0, 1), (0, 2)]
        broker.kill()
        broker.restart()
        with RawConnection(broker.port) as again:
            producer._raw = again
            assert producer.send(2) == (0, 2)
            assert producer.send(4) == (45, -1)
            assert producer.send(3) == (0, 3)
            assert IdempotentProducer(again, topic).id != producer.id
