"""Batches that librdkafka writes, with each codec, as the broker stores and serves them.

They must pass the broker's checks of single records too, and be read alike, row by row and by columns.
"""

from __future__ import annotations

import pytest

from kafkalite.records.batch import check_produced
from kafkalite.records.columns import decode_columns
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, check_records, iter_rows
from tests.compat.clients.client import Client, Record
from tests.compat.raw_connection import RawConnection
from tests.unit.records.samples import LIMIT, NOW_MS, to_rows

ROWS = [
    Row(0, NOW_MS, b"key", b"value"),
    Row(1, NOW_MS + 1, None, b"no key"),
    Row(2, NOW_MS + 1_000, b"tombstone", None),
    Row(3, NOW_MS - 50, b"", b""),
    Row(4, NOW_MS, b"headers", b"value", (("a", b"1"), ("null", None), ("empty", b""), ("a", b"again"))),
    *(
        Row(index, NOW_MS + index, b"%d" % index, b"some text, again and again " * (index % 20))
        for index in range(5, 300)
    ),
]


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", Codec)
def test_batches_of_librdkafka_are_stored_as_they_are_and_read(
    admin: Client, raw: RawConnection, topic: str, codec: Codec, idempotent: bool
) -> None:
    admin.create_topic(topic)
    records = [Record(row.key, row.value, row.headers, row.timestamp) for row in ROWS]
    assert admin.produce(topic, records, codec=codec.kafka_name, idempotent=idempotent) == list(range(len(ROWS)))

    batches = raw.batches(raw.fetch(topic, 0).responses[0].partitions[0].records)
    rows: list[Row] = []
    for batch in batches:
        assert (batch.producer_id >= 0) == idempotent
        by_rows = list(iter_rows(batch, limit=LIMIT))
        assert to_rows(decode_columns(batch.view, limit=LIMIT)) == by_rows
        rows += by_rows
        as_sent = bytearray(batch.view)
        as_sent[:8] = bytes(8)  # the base offset, which the broker has set
        check_records(check_produced(as_sent, max_message_bytes=1 << 20), limit=LIMIT, keys_required=False)
    assert rows == ROWS
    # librdkafka sends a batch as it is where compressing would make it larger; one of 300 records shrinks.
    assert codec in {batch.codec_id for batch in batches}
