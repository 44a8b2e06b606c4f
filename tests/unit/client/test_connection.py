"""A connection against a stream that has its answers ready."""

from __future__ import annotations

import socket
from typing import cast

import pytest

from kafkalite.client.address import Address
from kafkalite.client.connection import BrokerUnreachable, Connection
from kafkalite.errors import ErrorCode, KafkaError, MalformedMessage
from kafkalite.protocol.api import (
    APIS,
    ApiKey,
    UnsupportedRequest,
    api_versions_answer,
    decode_request,
    encode_response,
)
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse

ADDRESS = Address("broker.example", 9092)
METADATA = MetadataResponse(brokers=[], topics=[])


class FakeStream:
    """Answers every request from a list; what a broker would send, or an exception to raise."""

    def __init__(self, *answers: object) -> None:
        self.requests: list[tuple[int, int]] = []
        self.is_closed = False
        self._answers = list(answers)
        self._pending = b""

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def sendall(self, frame: bytes) -> None:
        try:
            header, _ = decode_request(frame[4:])
        except UnsupportedRequest as error:
            header = error.header
        self.requests.append((header.api_key, header.api_version))
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        self._pending += answer(header) if callable(answer) else cast(bytes, answer)

    def recv_into(self, view: memoryview) -> int:
        part = self._pending[: len(view)]
        view[: len(part)] = part
        self._pending = self._pending[len(part) :]
        return len(part)

    def close(self) -> None:
        self.is_closed = True


def unknown_version(header: RequestHeader) -> bytes:
    answer = UnsupportedRequest(header).answer
    assert answer is not None
    return answer


def metadata(header: RequestHeader) -> bytes:
    return encode_response(header, METADATA)


def agreed(*answers: object, versions: object = api_versions_answer) -> tuple[Connection, FakeStream]:
    stream = FakeStream(versions, *answers)
    connection = Connection(ADDRESS, cast(socket.socket, stream))
    connection._agree_on_versions(deadline=float("inf"))
    return connection, stream


def test_a_call_uses_the_highest_version_that_both_know() -> None:
    connection, stream = agreed(metadata, metadata)
    assert connection.call(MetadataRequest(topics=None), MetadataResponse, 10) == METADATA
    connection.versions[ApiKey.METADATA] = (0, 5)
    connection.call(MetadataRequest(topics=None), MetadataResponse, 10)
    assert stream.requests == [(18, 3), (3, 12), (3, 5)]


def test_versions_are_asked_for_in_version_0_when_3_is_unknown() -> None:
    stream = FakeStream(unknown_version, api_versions_answer)
    connection = Connection(ADDRESS, cast(socket.socket, stream))
    connection._agree_on_versions(deadline=float("inf"))
    assert stream.requests == [(18, 3), (18, 0)]
    assert connection.versions[ApiKey.METADATA] == (0, 12)


def test_no_common_version_is_an_error_with_both_ranges() -> None:
    connection, _ = agreed()
    connection.versions[ApiKey.METADATA] = (13, 15)
    with pytest.raises(KafkaError, match=r"Metadata: the broker broker\.example:9092 serves 13 to 15.*knows 0 to 12"):
        connection.call(MetadataRequest(topics=None), MetadataResponse, 10)
    assert connection.is_open


def test_an_api_that_is_not_served_is_named() -> None:
    connection, _ = agreed()
    del connection.versions[ApiKey.METADATA]
    with pytest.raises(KafkaError, match=r"broker\.example:9092 does not serve Metadata") as caught:
        connection.version_of(APIS[ApiKey.METADATA])
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\0\0\0\x09\0\0", "closed the connection before it had answered"),
        (TimeoutError(), "did not answer in time"),
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe"),
    ],
)
def test_a_lost_connection_names_broker_and_api_and_is_closed(answer: object, reason: str) -> None:
    connection, stream = agreed(answer)
    with pytest.raises(BrokerUnreachable, match=rf"Metadata.*broker\.example:9092.*{reason}"):
        connection.call(MetadataRequest(topics=None), MetadataResponse, 10)
    assert stream.is_closed
    with pytest.raises(BrokerUnreachable, match="is closed"):
        connection.call(MetadataRequest(topics=None), MetadataResponse, 10)


@pytest.mark.parametrize(
    "answer",
    [
        b"\0\0\0\x20" + b"HTTP/1.1 400 Bad Request, really",
        b"\xff\xff\xff\xff",
        lambda header: encode_response(RequestHeader(header.api_key, header.api_version, 99, None), METADATA),
    ],
)
def test_an_answer_that_is_not_kafkas_is_said_so(answer: object) -> None:
    connection, stream = agreed(answer)
    with pytest.raises(MalformedMessage, match=r"Metadata: what broker\.example:9092 answers is not Kafka's protocol"):
        connection.call(MetadataRequest(topics=None), MetadataResponse, 10)
    assert stream.is_closed


def test_an_interrupt_closes_the_connection() -> None:
    connection, stream = agreed(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        connection.call(MetadataRequest(topics=None), MetadataResponse, 10)
    assert stream.is_closed
