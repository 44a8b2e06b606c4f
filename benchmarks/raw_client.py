"""Load over raw blocking sockets, so that the client is not what is measured.

Requests are encoded before the clock starts; while it runs, frames are sent as they are and answers are only counted,
which is possible because all answers of a load have one known size. Whether they were right is asked before or after.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Sequence
from time import perf_counter
from typing import TypeVar

from kafkalite.protocol import api
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkalite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkalite.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkalite.protocol.schema import Message
from kafkalite.records.batch import HEADER_SIZE, build_batch, split_batches
from limits import Terms

PRODUCE_VERSION, FETCH_VERSION = 8, 11
"""The last versions whose numbers all have fixed sizes: so every answer of a load has the same size."""

RECEIVE_BYTES = 1 << 20
STUCK_SECONDS = 60
LATEST = -1

M = TypeVar("M", bound=Message)
Address = tuple[str, int]


class RawConnection:
    """One blocking connection."""

    def __init__(self, address: Address, terms: Terms | None = None) -> None:
        """With `terms`, the other end is a bare server."""
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Python's own timeout would cost a poll() per call.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", STUCK_SECONDS, 0))
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        if terms is not None:
            self.socket.sendall(terms.frame())
            assert self.receive(1) == b"!"

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, key: api.ApiKey, version: int, request: Message, response: type[M]) -> M:
        """One request and its decoded answer, for what is not measured."""
        return self.call_encoded(api.encode_request(RequestHeader(key, version, 1, "benchmark"), request), response)

    def call_encoded(self, frame: bytes, response: type[M]) -> M:
        self.socket.sendall(frame)
        return api.decode_response(self.receive_frame(), response, int.from_bytes(frame[6:8], "big"))[1]

    def receive_frame(self) -> bytes:
        return self.receive(int.from_bytes(self.receive(4), "big"))

    def receive(self, count: int) -> bytes:
        data = self.socket.recv(count, socket.MSG_WAITALL)
        assert len(data) == count, f"the connection ended after {len(data)} of {count} bytes"
        return data

    def exchange(self, requests: Sequence[bytes], count: int, answer_bytes: int, in_flight: int) -> float:
        """Send `count` requests, the given ones in turns, `in_flight` of them under way; gives the seconds it took."""
        sock, buffer = self.socket, self._buffer
        following = itertools.cycle(requests)
        sent = answered = received = 0
        begun = perf_counter()
        while answered < count:
            room = min(count - sent, in_flight - (sent - answered))
            if room == 1:
                sock.sendall(next(following))
            elif room:
                frames = list(itertools.islice(following, room))
                assert sock.sendmsg(frames) == sum(map(len, frames))
            sent += room
            arrived = sock.recv_into(buffer)
            if not arrived:
                raise ConnectionError(f"the server closed the connection after {answered} of {count} answers")
            received += arrived
            answered = received // answer_bytes
        seconds = perf_counter() - begun
        assert received == count * answer_bytes, f"{received} bytes of answers, {count * answer_bytes} expected"
        return seconds


def round_trips(connections: Sequence[RawConnection], request: bytes, count: int, answer_bytes: int) -> float:
    """`count` requests over all connections, one under way on each; the seconds that they take."""
    sockets = [connection.socket for connection in connections]
    answer = bytearray(answer_bytes)
    begun = perf_counter()
    for _ in range(count // len(sockets)):
        for sock in sockets:
            sock.send(request)
        for sock in sockets:
            assert sock.recv_into(answer) == answer_bytes
    return perf_counter() - begun


# ---------------------------------------------------------------- requests


def a_batch(size: int, records: int) -> bytearray:
    """A batch of exactly `size` bytes; what is in its records is of no concern to a broker."""
    return build_batch(
        os.urandom(size - HEADER_SIZE), count=records, last_offset_delta=records - 1, base_timestamp=0, max_timestamp=0
    )


def produce_frame(topic: str, partition: int, batch: bytes | bytearray) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
    return api.encode_request(RequestHeader(api.ApiKey.PRODUCE, PRODUCE_VERSION, 7, "benchmark"), request)


def fetch_frame(
    topic: str, offset: int, max_bytes: int, partitions: Sequence[int] = (0,), each_bytes: int = 0, wait_ms: int = 0
) -> bytes:
    wanted = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=each_bytes or max_bytes)
        for partition in partitions
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )
    return api.encode_request(RequestHeader(api.ApiKey.FETCH, FETCH_VERSION, 7, "benchmark"), request)


# ---------------------------------------------------------------- asking a broker


def create_topic(broker: RawConnection, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (result,) = broker.call(
        api.ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
    ).topics
    assert result.error_code == 0, f"topic {name}: error {result.error_code} {result.error_message}"


def delete_topic(broker: RawConnection, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
    (result,) = broker.call(api.ApiKey.DELETE_TOPICS, 5, request, DeleteTopicsResponse).responses
    assert result.error_code == 0, f"deleting {name}: error {result.error_code}"


def end_offset(broker: RawConnection, topic: str, partition: int = 0) -> int:
    wanted = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
    )
    answer = broker.call(api.ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(topics=[wanted]), ListOffsetsResponse)
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0, f"end of {topic}: error {found.error_code}"
    return int(found.offset)


def produced_answer_bytes(broker: RawConnection, frame: bytes) -> int:
    """The size of the answer to a produce request, by sending it once; it must succeed."""
    broker.socket.sendall(frame)
    answer = broker.receive_frame()
    (partition,) = api.decode_response(answer, ProduceResponse, PRODUCE_VERSION)[1].responses[0].partition_responses
    assert partition.error_code == 0, f"produce: error {partition.error_code} {partition.error_message}"
    return len(answer) + 4


def fetched_answer_bytes(broker: RawConnection, frame: bytes, records_bytes: int) -> int:
    """The size of the answer to a fetch, by sending it once; it must have that many bytes of sound batches."""
    broker.socket.sendall(frame)
    answer = broker.receive_frame()
    found = 0
    for partition in api.decode_response(answer, FetchResponse, FETCH_VERSION)[1].responses[0].partitions:
        assert partition.error_code == 0, f"fetch: error {partition.error_code}"
        assert isinstance(partition.records, bytes | memoryview)
        found += len(partition.records)
        assert all(batch.crc_is_valid() for batch in split_batches(partition.records))
    assert found == records_bytes, f"a fetch of {records_bytes} bytes gave {found}"
    return len(answer) + 4
