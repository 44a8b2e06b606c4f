"""Records go through the broker unchanged: every codec, every client's writing, every client's reading."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from kafkalite.records.batch import RecordBatch
from kafkalite.records.compression import Codec
from tests.compat.clients.client import Client, Record, Refused
from tests.compat.conftest import CLIENTS
from tests.compat.raw_connection import RawConnection

NOW_MS = 1_790_000_000_000
RECORDS = [
    Record(b"key", b"value", (("a", b"1"), ("b", b"two")), NOW_MS),
    Record(b"tombstone", None, (), NOW_MS + 1),
    Record(b"late", b"out of order", (), NOW_MS - 5_000),
    *(Record(b"key-%d" % n, b"some text, again and again " * (1 + n % 9), (), NOW_MS + n) for n in range(3, 100)),
]
DETAILS = [
    Record(None, b"no key", (), NOW_MS),
    Record(b"", b"", (), NOW_MS),
    Record(bytes(range(256)), bytes(range(256)), (("a", b"1"), ("b", b"2"), ("a", b"again"), ("ü", b"")), NOW_MS),
]


def without_times(records: list[Record]) -> list[Record]:
    """kcat can read timestamps and cannot set them."""
    return [record._replace(timestamp=None) for record in records]


def stored_batches(raw: RawConnection, topic: str) -> list[RecordBatch]:
    return raw.batches(raw.fetch(topic, 0).responses[0].partitions[0].records)


def has_codec(client: str, codec: str) -> bool:
    return codec in CLIENTS[client].codecs


@pytest.mark.parametrize(
    ("client", "codec"),
    [(name, codec) for name, codec in product(CLIENTS, Client.codecs) if has_codec(name, codec)],
    indirect=["client"],
)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_what_a_client_produces_is_stored_as_it_was_sent_and_read_back(
    client: Client, admin: Client, raw: RawConnection, topic: str, codec: str, idempotent: bool
) -> None:
    admin.create_topic(topic)
    sent = RECORDS
    if client.name == "kcat":
        sent = [record for record in RECORDS if not record.headers]
    offsets = client.produce(topic, sent, codec=codec, idempotent=idempotent)
    assert offsets == list(range(len(sent))) or client.name == "kcat"

    received = client.consume(topic, len(sent))
    assert [at for at, _ in received] == list(range(len(sent)))
    if client.name == "kcat":
        assert without_times([record for _, record in received]) == without_times(sent)
    else:
        assert [record for _, record in received] == sent
    batches = stored_batches(raw, topic)
    assert Codec[codec.upper()] in {batch.codec_id for batch in batches}
    assert all((batch.producer_id >= 0) == idempotent for batch in batches)
    assert all(batch.crc_is_valid() for batch in batches)


@pytest.mark.parametrize(("writer", "reader"), list(product(CLIENTS, CLIENTS)))
def test_each_client_reads_what_each_other_wrote(
    client_named: Callable[[str], Client], admin: Client, topic: str, writer: str, reader: str
) -> None:
    both = client_named(writer), client_named(reader)
    codec = next(codec for codec in ("snappy", "gzip") if all(codec in client.codecs for client in both))
    admin.create_topic(topic)
    both[0].produce(topic, RECORDS, codec=codec)
    records = [record for _, record in both[1].consume(topic, len(RECORDS))]
    if writer == "kcat":  # it groups records by their headers, and sets its own times
        assert sorted(without_times(records)) == sorted(without_times(RECORDS))
    else:
        assert records == RECORDS


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"], indirect=True)
def test_missing_and_empty_keys_values_and_headers_are_told_apart(client: Client, admin: Client, topic: str) -> None:
    admin.create_topic(topic)
    client.produce(topic, DETAILS)
    assert [record for _, record in client.consume(topic, len(DETAILS))] == DETAILS


@pytest.mark.parametrize("client", ["confluent-kafka", "aiokafka"], indirect=True)
def test_a_header_may_be_null(client: Client, admin: Client, topic: str) -> None:
    admin.create_topic(topic)
    sent = [Record(b"k", b"v", (("null", None), ("empty", b"")), NOW_MS)]
    client.produce(topic, sent)
    assert [record for _, record in client.consume(topic, 1)] == sent


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_with_every_kind_of_acknowledgement(
    client: Client, admin: Client, topic: str, acks: int
) -> None:
    admin.create_topic(topic)
    sent = [Record(b"k", b"%d" % n) for n in range(20)]
    client.produce(topic, sent, acks=acks)
    assert [record.value for _, record in client.consume(topic, 20)] == [record.value for record in sent]


def test_producing_again_goes_on_at_the_next_offset(client: Client, admin: Client, topic: str) -> None:
    admin.create_topic(topic)
    for _ in range(2):
        client.produce(topic, [Record(b"k", b"v"), Record(b"k", b"w")], idempotent=True)
    assert [at for at, _ in client.consume(topic, 4)] == [0, 1, 2, 3]


def test_log_append_time_replaces_the_producers_time(client: Client, admin: Client, topic: str) -> None:
    admin.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    client.produce(topic, [Record(b"k", b"v", (), 1_000)])
    ((_, record),) = client.consume(topic, 1)
    assert record.timestamp is not None
    assert record.timestamp > 1_600_000_000_000


LARGE = 3_000_000


def test_a_message_of_megabytes_passes_where_the_topic_allows_it(client: Client, admin: Client, topic: str) -> None:
    admin.create_topic(topic, configs={"max.message.bytes": str(2 * LARGE)})
    value = (b"0123456789abcdef" * (LARGE // 16 + 1))[:LARGE]
    client.produce(topic, [Record(b"large", value), Record(b"k", b"after")], max_request_bytes=2 * LARGE)
    first, second = (record for _, record in client.consume(topic, 2))
    assert (first.value, second.value) == (value, b"after")


def test_a_message_above_the_topics_limit_is_refused_and_the_next_is_not(
    client: Client, admin: Client, topic: str
) -> None:
    admin.create_topic(topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Record(b"k", bytes([97]) * 2_000)])
    assert refused.value.code == 10
    client.produce(topic, [Record(b"k", b"small")])
    assert [record.value for _, record in client.consume(topic, 1)] == [b"small"]
