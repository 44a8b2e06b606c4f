"""A client's end of one connection, with nothing hidden: frames as bytes, requests by version, answers as they come.

Several requests may be under way; `receive` gives their answers in the order in which they were sent. What the peer
does to the connection is seen as it is: `Closed` is raised when it ends.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from kafkalite.protocol.api import APIS, decode_response, encode_request
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkalite.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkalite.protocol.schema import Message
from kafkalite.records.batch import split_batches
from kafkalite.records.rows import Row, encode_rows, iter_rows

M = TypeVar("M", bound=Message)

ANSWER_SECONDS = 30.0
_LIMIT = 64 * 1024 * 1024
_API_OF = {api.request: api for api in APIS.values()}


class Closed(Exception):
    """The peer has ended the connection."""


class Wire:
    """One connection. Belongs to one thread."""

    def __init__(
        self,
        port: int,
        *,
        timeout: float = ANSWER_SECONDS,
        receive_buffer: int | None = None,
        from_host: str = "127.0.0.1",
    ) -> None:
        self.socket = socket.socket()
        try:
            self.socket.bind((from_host, 0))
            if receive_buffer is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.socket.settimeout(timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.connect(("127.0.0.1", port))
        except OSError as error:
            self.socket.close()
            raise Closed(str(error)) from None
        self._last_id = 0
        self._under_way: deque[tuple[int, type[Message], int]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Bytes.

    def send_bytes(self, data: bytes | memoryview) -> None:
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed(str(error)) from None

    def receive_frame(self) -> bytes:
        return self._receive_exactly(int.from_bytes(self._receive_exactly(4), "big"))

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                got = self.socket.recv(count - len(data))
            except TimeoutError:
                raise
            except OSError as error:
                raise Closed(str(error)) from None
            if not got:
                raise Closed(f"after {len(data)} of {count} bytes")
            data += got
        return bytes(data)

    def is_closed_by_peer(self, within: float) -> bool:
        """Whether the connection ends in this time; answers that come before are passed over."""
        self.socket.settimeout(within)
        try:
            while self.socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        else:
            return True
        finally:
            self.socket.settimeout(ANSWER_SECONDS)

    # Requests.

    def frame(self, request: Message, version: int | None = None) -> bytes:
        """The bytes of a request, whose answer `receive` then expects."""
        api = _API_OF[type(request)]
        version = api.max_version if version is None else version
        self._last_id += 1
        self._under_way.append((self._last_id, api.response, version))
        return encode_request(RequestHeader(api.key, version, self._last_id, "a test"), request)

    def send(self, request: Message, version: int | None = None) -> None:
        self.send_bytes(self.frame(request, version))

    def receive(self, response: type[M]) -> M:
        frame = self.receive_frame()
        correlation_id, expected, version = self._under_way.popleft()
        assert expected is response
        header, answer = decode_response(frame, response, version)
        assert header.correlation_id == correlation_id, "answers are not in the order of the requests"
        return answer

    def ask(self, request: Message, response: type[M], version: int | None = None) -> M:
        self.send(request, version)
        return self.receive(response)

    def produce(
        self,
        topic: str,
        records: bytes | bytearray,
        *,
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 30_000,
        version: int | None = None,
    ) -> PartitionProduceResponse:
        answer = self.ask(
            produce_request(topic, {partition: records}, acks=acks, timeout_ms=timeout_ms), ProduceResponse, version
        )
        return answer.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, max_bytes: int = 1_000_000
    ) -> Fetched:
        request = fetch_request(topic, offset, partition=partition, max_wait_ms=max_wait_ms, max_bytes=max_bytes)
        answer = self.ask(request, FetchResponse)
        assert answer.error_code == 0, answer
        return fetched(answer.responses[0].partitions[0], offset)


class Fetched(NamedTuple):
    """What one fetch of a partition has found."""

    error_code: int
    high_watermark: int
    rows: list[Row]


def fetched(data: PartitionData, position: int) -> Fetched:
    assert data.records is None or isinstance(data.records, bytes | bytearray | memoryview)
    rows: list[Row] = []
    for batch in split_batches(data.records or b""):
        assert batch.crc_is_valid(), f"a batch with a wrong CRC was served: {batch}"
        rows += (row for row in iter_rows(batch, limit=_LIMIT) if row.offset >= position)
    return Fetched(data.error_code, data.high_watermark, rows)


def produce_request(
    topic: str, batches: dict[int, bytes | bytearray], *, acks: int = -1, timeout_ms: int = 30_000
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records) for partition, records in batches.items()]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1_000_000,
    times: int = 1,
) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted] * times)],
    )


def batch_of_values(values: Sequence[bytes], *, now_ms: int = 1_700_000_000_000) -> bytearray:
    return encode_rows([Row(at, now_ms, None, value) for at, value in enumerate(values)])


def resident_bytes(pid: int) -> int:
    """The memory that a process has now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")


def has_faults(stderr: str) -> list[str]:
    """The lines of a broker's log that tell of a fault of its own, not of its peers'."""
    signs: Iterable[str] = ("Traceback", "internal error", "Fatal error", "Exception in callback", "never retrieved")
    return [line for line in stderr.splitlines() if any(sign in line for sign in signs)]
