"""A socket that sends exactly the bytes a test means, and takes answers apart: what no client lets one do."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from kafkalite.protocol.api import APIS, decode_response, encode_request
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalite.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkalite.protocol.schema import Message
from kafkalite.records.batch import RecordBatch, split_batches

M = TypeVar("M", bound=Message)

TIMEOUT_SECONDS = 20.0
_KEYS = {api.request: api.key for api in APIS.values()}


class RawConnection:
    """One connection to 127.0.0.1. Correlation ids count up from 1."""

    def __init__(self, port: int) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    # Frames

    def send(self, request: Message, version: int, tags: dict[int, bytes] | None = None) -> int:
        """Sends a request; gives its correlation id."""
        self._last_id += 1
        header = RequestHeader(_KEYS[type(request)], version, self._last_id, "raw", tags)
        self.stream.sendall(encode_request(header, request))
        return self._last_id

    def send_frame(self, payload: bytes) -> None:
        self.stream.sendall(struct.pack(">i", len(payload)) + payload)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def receive(self, response: type[M], version: int, correlation_id: int) -> M:
        header, message = decode_response(self.receive_frame(), response, version)
        assert header.correlation_id == correlation_id
        return message

    def call(self, request: Message, response: type[M], version: int) -> M:
        return self.receive(response, version, self.send(request, version))

    def is_closed_by_broker(self) -> bool:
        """Waits for the end of the stream; anything else that arrives is an answer."""
        try:
            return self.stream.recv(1) == b""
        except ConnectionResetError:
            return True

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.stream.recv(count - len(data))
            if not piece:
                raise ConnectionResetError("the broker closed the connection")
            data += piece
        return bytes(data)

    # The requests that most tests need

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        answer = self.call(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse, 7)
        assert answer.topics[0].error_code == 0

    def metadata(self, *topics: str, version: int = 12, create: bool = False) -> MetadataResponse:
        asked = [MetadataRequestTopic(name=topic) for topic in topics]
        return self.call(MetadataRequest(topics=asked, allow_auto_topic_creation=create), MetadataResponse, version)

    def produce(
        self, topic: str, batch: bytes | bytearray | None, *, acks: int = -1, version: int = 9, partition: int = 0
    ) -> PartitionProduceResponse:
        answer = self.call(produce_request(topic, batch, acks, partition), ProduceResponse, version)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, *, version: int = 12, **options: Any) -> FetchResponse:
        return self.call(fetch_request({topic: offset}, **options), FetchResponse, version)

    def batches(self, records: object) -> list[RecordBatch]:
        """The batches in a Fetch response's records."""
        assert isinstance(records, bytes | bytearray | memoryview)
        return list(split_batches(records))


def produce_request(topic: str, batch: bytes | bytearray | None, acks: int = -1, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(
    offsets: dict[str, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 24,
    partition_max_bytes: int = 1 << 24,
    partitions: Sequence[int] = (0,),
    **fields: Any,
) -> FetchRequest:
    def wanted(offset: int) -> list[FetchPartition]:
        return [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
            for index in partitions
        ]

    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=wanted(offset)) for topic, offset in offsets.items()],
        **fields,
    )
