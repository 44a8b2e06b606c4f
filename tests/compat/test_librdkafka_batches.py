"""Batches that librdkafka writes, with each codec, as they come over the wire.

A broker of one page answers ApiVersions, Metadata, InitProducerId and Produce, which is all that a producer needs,
and keeps the record batches as they were sent. They must pass the broker's checks and be read alike, row by row and
by columns.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafkalite.protocol.api import (
    APIS,
    ApiKey,
    UnsupportedRequest,
    api_versions_response,
    decode_request,
    encode_response,
)
from kafkalite.protocol.frames import FrameDecoder
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalite.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalite.protocol.schema import Message
from kafkalite.records.batch import check_produced
from kafkalite.records.columns import decode_columns
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, check_records, iter_rows
from tests.unit.records.samples import LIMIT, NOW_MS, to_rows

TOPIC = "captured"
# A producer calls neither Fetch nor FindCoordinator, but librdkafka uses batches v2 and lz4 only where it sees them.
ADVERTISED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.FIND_COORDINATOR,
)


class CapturingBroker:
    """Accepts whatever is produced to its one partition, and keeps the batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        frames = FrameDecoder()
        with connection:
            while received := connection.recv(1 << 16):
                for frame in frames.feed(received):
                    connection.sendall(self._answer(frame))

    def _answer(self, frame: memoryview) -> bytes:
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as unsupported:
            return unsupported.answer or b""
        return encode_response(header, self._respond(request))

    def _respond(self, request: Message) -> Message:
        match request:
            case ApiVersionsRequest():
                return api_versions_response([APIS[key] for key in ADVERTISED])
            case MetadataRequest():
                partition = MetadataResponsePartition(partition_index=0, leader_id=0, replica_nodes=[0], isr_nodes=[0])
                host, port = self.address.split(":")
                return MetadataResponse(
                    brokers=[MetadataResponseBroker(node_id=0, host=host, port=int(port))],
                    controller_id=0,
                    topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
                )
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=42, producer_epoch=1)
            case ProduceRequest():
                (topic,) = request.topic_data
                (partition_data,) = topic.partition_data
                assert partition_data.records is not None
                self.batches.append(bytes(partition_data.records))
                answer = PartitionProduceResponse(index=0, base_offset=0)
                return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[answer])])
        raise AssertionError(f"unexpected {request!r}")


@pytest.fixture
def broker() -> Iterator[CapturingBroker]:
    broker = CapturingBroker()
    yield broker
    broker.close()


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
def test_batches_of_librdkafka_are_accepted_and_read(broker: CapturingBroker, codec: Codec, idempotent: bool) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "compression.type": codec.kafka_name,
            "linger.ms": 200,
            "enable.idempotence": idempotent,
        }
    )
    for row in ROWS:
        producer.produce(
            TOPIC, row.value, row.key, partition=0, timestamp=row.timestamp, headers=list(row.headers) or None
        )
    assert producer.flush(20) == 0

    rows: list[Row] = []
    for buffer in broker.batches:
        batch = check_produced(buffer, max_message_bytes=1 << 20)
        check_records(batch, limit=LIMIT, keys_required=False)
        assert batch.producer_id == (42 if idempotent else -1)
        by_rows = list(iter_rows(batch, limit=LIMIT))
        assert to_rows(decode_columns(buffer, limit=LIMIT)) == by_rows
        rows += [row._replace(offset=len(rows) + row.offset) for row in by_rows]
    assert rows == ROWS
    # librdkafka sends a batch as it is where compressing would make it larger; one of 300 records shrinks.
    assert codec in {check_produced(buffer, max_message_bytes=1 << 20).codec_id for buffer in broker.batches}
