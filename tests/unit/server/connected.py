"""A connection of the broker on a socket pair, with handlers that the test provides, and the peer at the other end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

from kafkalite.config import BrokerConfig
from kafkalite.protocol.api import APIS, decode_response, encode_request
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.server.connection import Connection
from kafkalite.server.listener import Listener
from kafkalite.server.metrics import Metrics

SECONDS = 5.0


def listener_of(config: BrokerConfig) -> Listener:
    """A listener that has all that connections ask it for, and does not listen."""
    services: Any = SimpleNamespace(config=config)
    return Listener(services, Metrics())


class Peer:
    """The client's end. Its requests are Metadata and Heartbeat, because the tests' handlers decide what they mean."""

    _open: ClassVar[list[Peer]] = []

    def __init__(self, end: socket.socket, connection: Connection, listener: Listener) -> None:
        self._open.append(self)
        self.socket = end
        self.connection = connection
        self.listener = listener
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, listener: Listener) -> Peer:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(listener), sock=theirs)
        return cls(ours, connection, listener)

    @classmethod
    async def close_all(cls) -> None:
        """The end of a test: of every peer and of the connections to them."""
        peers, cls._open[:] = list(cls._open), []
        for peer in peers:
            peer.socket.close()
            if peer.connection in peer.listener.connections:
                peer.connection.abort()  # one that is held back does not notice that its peer has gone
        for peer in peers:
            await until(lambda peer=peer: not peer.listener.connections)  # type: ignore[misc]

    async def send(self, data: bytes) -> None:
        await asyncio.wait_for(self._loop.sock_sendall(self.socket, data), SECONDS)

    async def receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            got = await asyncio.wait_for(self._loop.sock_recv(self.socket, count - len(data)), SECONDS)
            if not got:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += got
        return bytes(data)

    async def receive_frame(self) -> bytes:
        return await self.receive(int.from_bytes(await self.receive(4), "big"))

    async def receive_ids(self, count: int) -> list[int]:
        """Which requests the next answers belong to."""
        return [int.from_bytes((await self.receive_frame())[:4], "big") for _ in range(count)]

    async def is_closed(self) -> bool:
        try:
            while await asyncio.wait_for(self._loop.sock_recv(self.socket, 65_536), SECONDS):
                pass
        except ConnectionError:
            return True
        return True


def heartbeat(correlation_id: int, member_id: str = "m") -> bytes:
    header = RequestHeader(12, APIS[12].max_version, correlation_id, None)
    return encode_request(header, HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id))


def metadata(correlation_id: int) -> bytes:
    return encode_request(RequestHeader(3, APIS[3].max_version, correlation_id, None), MetadataRequest(topics=None))


def beat(code: int = 0) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def no_brokers() -> MetadataResponse:
    return MetadataResponse(brokers=[], topics=[])


def decoded(frame: bytes) -> HeartbeatResponse:
    return decode_response(frame, HeartbeatResponse, APIS[12].max_version)[1]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until it is so."""
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it does not come to pass"
        await asyncio.sleep(0.001)
