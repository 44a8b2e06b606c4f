"""Latency under a steady load, as a client sees it.

Batches are sent at fixed times, whether or not earlier ones are answered, and latency counts from the time that a batch
was due: a server that stalls is charged for everything that should have been sent meanwhile. The consumer is a process
of its own that long-polls; CLOCK_MONOTONIC is the same for all processes.
"""

from __future__ import annotations

import multiprocessing
import select
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import perf_counter

from kafkalite.protocol import api
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.records.batch import split_batches
from limits import Terms
from raw_client import FETCH_VERSION, Address, RawConnection, fetch_frame

BATCH_BYTES = 10_000
BATCH_RECORDS = 50
BATCHES_PER_SECOND = 1_000
"""10 MB/s, as messages of about 200 bytes that producers send together for some milliseconds."""

WAIT_MS = 500
FETCH_BYTES = 1 << 20


def paced(connection: RawConnection, frame: bytes, count: int, answer_bytes: int) -> tuple[list[float], list[float]]:
    """Send `count` requests at a steady pace; when each was due, and when it was answered."""
    sock = connection.socket
    buffer = bytearray(1 << 16)
    begun = perf_counter() + 0.05
    due = [begun + at / BATCHES_PER_SECOND for at in range(count)]
    answered: list[float] = []
    sent = received = 0
    while len(answered) < count:
        wait = due[sent] - perf_counter() if sent < count else 1.0
        if wait <= 0:
            sock.sendall(frame)
            sent += 1
        elif select.select([sock], [], [], wait)[0]:
            received += sock.recv_into(buffer)
            answered += [perf_counter()] * (received // answer_bytes - len(answered))
    return due, answered


def acknowledged(address: Address, frame: bytes, count: int, answer_bytes: int, terms: Terms | None) -> list[float]:
    """Seconds from due to acknowledged, of each batch."""
    with RawConnection(address, terms) as connection:
        due, answered = paced(connection, frame, count, answer_bytes)
    return [at - since for since, at in zip(due, answered, strict=True)]


def end_to_end(
    address: Address, topic: str, frame: bytes, count: int, answer_bytes: int
) -> tuple[list[float], list[float]]:
    """Seconds from due to acknowledged and to fetched by a consumer, of each batch; the topic must be empty."""
    with _consumer(address, topic, count) as arrivals, RawConnection(address) as connection:
        due, answered = paced(connection, frame, count, answer_bytes)
        fetched = arrivals.recv()
    return (
        [at - since for since, at in zip(due, answered, strict=True)],
        [at - since for since, at in zip(due, fetched, strict=True)],
    )


@contextmanager
def _consumer(address: Address, topic: str, count: int) -> Iterator[Connection]:
    """A process that fetches `count` batches of a topic, and then sends when each of them had come."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_consume, args=(address, topic, count, theirs))
    process.start()
    try:
        assert ours.recv() == "ready"
        yield ours
    finally:
        process.terminate()
        process.join()


def _consume(address: Address, topic: str, count: int, pipe: Connection) -> None:
    arrived: list[float] = []
    with RawConnection(address) as connection:
        pipe.send("ready")
        while len(arrived) < count:
            offset = len(arrived) * BATCH_RECORDS
            connection.socket.sendall(fetch_frame(topic, offset, FETCH_BYTES, wait_ms=WAIT_MS))
            answer = connection.receive_frame()
            now = perf_counter()
            _, response = api.decode_response(answer, FetchResponse, FETCH_VERSION)
            (partition,) = response.responses[0].partitions
            assert partition.error_code == 0, f"fetch: error {partition.error_code}"
            assert isinstance(partition.records, bytes | memoryview)
            arrived += [now for _ in split_batches(partition.records)]
    pipe.send(arrived)
