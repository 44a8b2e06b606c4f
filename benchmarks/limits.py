"""Servers that do a broker's work on bytes and none of its protocol work: the limits that the broker is held against.

    python benchmarks/limits.py append|sendfile|echo FOLDER

Each runs in a process of its own and prints `ready on HOST:PORT`. A connection begins with one `Terms` frame, which is
answered with one byte; then every frame of the client is answered with `answer_bytes` bytes, of any content.

    append    CRC-32C over the frame, appended to a file; the frames of a wake-up are written and answered together
    sendfile  the answer ends with the next range of a file, by `os.sendfile` from the loop; small ranges are read and
              sent with their header in one call, which is faster
    echo      an `asyncio.Protocol` that answers when a frame has come
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import tempfile
from typing import IO, NamedTuple

from crc32c import crc32c

MIB = 1 << 20
BUFFER_BYTES = 4 * MIB
SMALL_RANGE = 32 * 1024

_SIZE = struct.Struct(">i")


class Terms(NamedTuple):
    """What a client asks of a bare server, in its first frame."""

    answer_bytes: int
    range_bytes: int = 0
    file_bytes: int = 0

    def frame(self) -> bytes:
        return _TERMS.pack(_TERMS.size - 4, *self)


_TERMS = struct.Struct(">iqqq")


class BareServer(asyncio.BufferedProtocol):
    """Receives into one large buffer of its own; `answer` gets all whole frames of a wake-up, as one piece."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._start = self._end = 0
        self._terms: Terms | None = None
        self._file: IO[bytes]
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._file.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if BUFFER_BYTES - self._end < BUFFER_BYTES // 2:
            waiting = self._end - self._start
            self._view[:waiting] = self._view[self._start : self._end]
            self._start, self._end = 0, waiting
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if self._terms is None:
            if self._end >= _TERMS.size:
                self._start = _TERMS.size
                self._terms = Terms(*_TERMS.unpack_from(self._view)[1:])
                self.begin(self._terms)
                self._transport.write(b"!")
            return
        view, end, at, count = self._view, self._end, self._start, 0
        while end - at >= 4:
            following = at + 4 + _SIZE.unpack_from(view, at)[0]
            if following > end:
                break
            self.look_at(view[at + 4 : following])
            at = following
            count += 1
        if count:
            self.answer(view[self._start : at], count)
            self._start = at
        if at == end:
            self._start = self._end = 0

    def begin(self, terms: Terms) -> None:
        raise NotImplementedError

    def look_at(self, frame: memoryview) -> None:
        """Called for every frame before `answer` is called for all."""

    def answer(self, frames: memoryview, count: int) -> None:
        raise NotImplementedError


class AppendServer(BareServer):
    """The limit of produce."""

    def begin(self, terms: Terms) -> None:
        self._answer = bytes(terms.answer_bytes)

    def look_at(self, frame: memoryview) -> None:
        crc32c(frame)

    def answer(self, frames: memoryview, count: int) -> None:
        os.write(self._file.fileno(), frames)
        self._transport.write(self._answer * count)


class SendfileServer(BareServer):
    """The limit of fetch. It writes to a duplicate of the socket, because asyncio lets nobody write to its own."""

    def begin(self, terms: Terms) -> None:
        self._range_bytes, self._file_bytes = terms.range_bytes, terms.file_bytes
        self._header = bytes(terms.answer_bytes - terms.range_bytes)
        block = os.urandom(min(MIB, terms.file_bytes))
        for _ in range(terms.file_bytes // len(block)):
            self._file.write(block)
        self._socket = self._transport.get_extra_info("socket").dup()
        self._position = 0
        self._left = 0
        self._answers = 0
        self._is_waiting = False
        self._loop = asyncio.get_running_loop()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._terms is not None:
            self._loop.remove_writer(self._socket)
            self._socket.close()
        super().connection_lost(exc)

    def answer(self, frames: memoryview, count: int) -> None:  # noqa: ARG002
        self._answers += count
        if not self._is_waiting:
            self._send()

    def _send(self) -> None:
        try:
            while self._left or self._answers:
                if not self._left:
                    self._begin_answer()
                else:
                    sent = os.sendfile(self._socket.fileno(), self._file.fileno(), self._position, self._left)
                    self._took(sent)
        except BlockingIOError:
            pass
        is_waiting = bool(self._left or self._answers)
        if is_waiting != self._is_waiting:
            self._is_waiting = is_waiting
            if is_waiting:
                self._loop.add_writer(self._socket, self._send)
            else:
                self._loop.remove_writer(self._socket)

    def _begin_answer(self) -> None:
        """Headers are small: a socket that takes a byte of them takes all, as the client never lets it fill up."""
        if self._range_bytes <= SMALL_RANGE:
            data = os.pread(self._file.fileno(), self._range_bytes, self._position)
            sent = self._socket.sendmsg([self._header, data]) - len(self._header)
        else:
            sent = self._socket.send(self._header, 0x8000) - len(self._header)  # MSG_MORE
        assert sent >= 0
        self._answers -= 1
        self._left = self._range_bytes
        self._took(sent)

    def _took(self, count: int) -> None:
        self._left -= count
        self._position += count
        if not self._left and self._position + self._range_bytes > self._file_bytes:
            self._position = 0


class EchoServer(asyncio.Protocol):
    """The limit of round trips: the plain asyncio protocol, with one request under way per connection."""

    def __init__(self, folder: str) -> None:  # noqa: ARG002
        self._data = b""
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._data + data
        if len(data) < 4 or len(data) < 4 + _SIZE.unpack_from(data)[0]:
            self._data = data
            return
        self._data = b""
        if self._answer:
            self._transport.write(self._answer)
        else:
            self._answer = bytes(Terms(*_TERMS.unpack(data)[1:]).answer_bytes)
            self._transport.write(b"!")


SERVERS = {"append": AppendServer, "sendfile": SendfileServer, "echo": EchoServer}


async def serve(kind: str, folder: str) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: SERVERS[kind](folder), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"ready on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
