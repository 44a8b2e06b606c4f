"""A blocking connection to one broker: connect, agree on versions, ask and wait for the answer.

One request is under way at a time, and a connection belongs to one thread. Whatever goes wrong in the middle of a call,
a time-out or an interrupt included, closes the connection: the answer may still come, and would be taken for the next
one's. Every error names the broker and the API. Works with Apache Kafka 2.1 and later: each call uses the highest
version that both know.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Final, TypeVar

from kafkalite.client.address import Address
from kafkalite.errors import ErrorCode, KafkaError, MalformedMessage
from kafkalite.protocol.api import APIS, Api, ApiKey, decode_response, encode_request
from kafkalite.protocol.frames import SIZE_BYTES, split_frames
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.schema import Message

M = TypeVar("M", bound=Message)

CLIENT_ID: Final = "kafkalite"
_CLIENT_VERSION: Final = "0.1.0"
_MAX_RESPONSE_BYTES: Final = 2**31 - 1
"""A client asked for what it gets: only a size that cannot be is refused."""

_API_OF: Final[dict[type[Message], Api]] = {api.request: api for api in APIS.values()}
_ERROR_AT: Final = 4
"""Where an ApiVersions response of any version has its error code, after the correlation id."""


class BrokerUnreachable(KafkaError):
    """No connection, or one that was lost or too slow. Whether the broker did what it was asked is not known."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)

    def __reduce__(self) -> tuple[type[BrokerUnreachable], tuple[str]]:  # type: ignore[override]
        return type(self), (self.message,)


class Connection:
    """One TCP connection, ready to be asked. Use as a context manager, or `close` it."""

    def __init__(self, address: Address, stream: socket.socket, client_id: str = CLIENT_ID) -> None:
        """Takes a connected stream; `open` makes one. A stream wrapped for TLS serves as well."""
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        """What the broker serves, by API key, once they have agreed."""
        self._stream: socket.socket | None = stream
        self._client_id = client_id
        self._last_correlation_id = 0

    @classmethod
    def open(cls, address: Address, *, timeout: float, client_id: str = CLIENT_ID) -> Connection:
        """Connects and agrees on versions, all within `timeout` seconds; or raises `BrokerUnreachable`."""
        deadline = time.monotonic() + timeout
        try:
            stream = socket.create_connection(address, timeout)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except ConnectionRefusedError:
            raise BrokerUnreachable(
                f"{address} refuses connections: is a broker running there? Start one with: kafkalite serve"
            ) from None
        except TimeoutError:
            raise BrokerUnreachable(f"{address} did not accept a connection within {timeout:g} s") from None
        except OSError as error:
            raise BrokerUnreachable(f"cannot connect to {address}: {error.strerror or error}") from None
        connection = cls(address, stream, client_id)
        connection._agree_on_versions(deadline)
        return connection

    @property
    def is_open(self) -> bool:
        return self._stream is not None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, request: Message, response: type[M], timeout: float) -> M:
        """Sends the request in the highest version that both know, and waits up to `timeout` seconds for the answer."""
        api = _API_OF[type(request)]
        return self._call(api, request, response, self.version_of(api), time.monotonic() + timeout)

    def version_of(self, api: Api) -> int:
        """The highest version of an API that both ends know; an error that names both ranges if there is none."""
        ours = f"this client knows {api.min_version} to {api.max_version}"
        if api.key not in self.versions:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"the broker {self.address} does not serve {api.name}; {ours}"
            )
        first, last = self.versions[api.key]
        version = min(last, api.max_version)
        if version < max(first, api.min_version):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"no common version of {api.name}: the broker {self.address} serves {first} to {last}, {ours}",
            )
        return version

    def _agree_on_versions(self, deadline: float) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=_CLIENT_VERSION)
        frame = self._exchange(api, request, 3, deadline)
        version = 3
        if frame[_ERROR_AT : _ERROR_AT + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
            frame = self._exchange(api, request, 0, deadline)
        answer = self._decode(api, frame, ApiVersionsResponse, version)
        if answer.error_code:
            self.close()
            raise KafkaError(known_code(answer.error_code), f"the broker {self.address} refused ApiVersions")
        self.versions = {served.api_key: (served.min_version, served.max_version) for served in answer.api_keys}

    def _call(self, api: Api, request: Message, response: type[M], version: int, deadline: float) -> M:
        return self._decode(api, self._exchange(api, request, version, deadline), response, version)

    def _exchange(self, api: Api, request: Message, version: int, deadline: float) -> memoryview:
        """The frame of the answer."""
        if self._stream is None:
            raise BrokerUnreachable(f"{api.name}: the connection to {self.address} is closed")
        self._last_correlation_id = (self._last_correlation_id + 1) & 0x7FFF_FFFF
        header = RequestHeader(api.key, version, self._last_correlation_id, self._client_id)
        with self._closing_on_failure(api):
            _set_timeout(self._stream, deadline)
            self._stream.sendall(encode_request(header, request))
            size = self._receive(SIZE_BYTES, deadline)
            list(split_frames(size, 0, SIZE_BYTES, _MAX_RESPONSE_BYTES))  # refuses a size that cannot be
            return self._receive(int.from_bytes(size, "big"), deadline)

    def _receive(self, count: int, deadline: float) -> memoryview:
        assert self._stream is not None
        view = memoryview(bytearray(count))
        received = 0
        while received < count:
            _set_timeout(self._stream, deadline)
            got = self._stream.recv_into(view[received:])
            if not got:
                raise ConnectionResetError("the broker closed the connection before it had answered")
            received += got
        return view

    def _decode(self, api: Api, frame: memoryview, response: type[M], version: int) -> M:
        with self._closing_on_failure(api):
            header, answer = decode_response(frame, response, version)
            if header.correlation_id != self._last_correlation_id:
                raise MalformedMessage(
                    f"it answers request {header.correlation_id}, and {self._last_correlation_id} was asked"
                )
            return answer

    @contextlib.contextmanager
    def _closing_on_failure(self, api: Api) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            self.close()
            raise BrokerUnreachable(f"{api.name}: {self.address} did not answer in time") from None
        except OSError as error:
            self.close()
            raise BrokerUnreachable(
                f"{api.name}: lost the connection to {self.address}: {error.strerror or error}"
            ) from None
        except MalformedMessage as error:
            self.close()
            raise MalformedMessage(
                f"{api.name}: what {self.address} answers is not Kafka's protocol ({error}); is it a Kafka broker?"
            ) from None
        except BaseException:
            self.close()
            raise


def known_code(code: int) -> ErrorCode:
    """The code by its name; one that a later Kafka has added is only an unknown error to us."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _set_timeout(stream: socket.socket, deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    stream.settimeout(remaining)
