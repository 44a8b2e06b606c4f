"""The unsent answers of one connection: bytes and file ranges, sent in order as fast as the peer takes them.

Bytes go out by `sendmsg`, many answers in one call; file ranges by `sendfile`, from the page cache to the socket
without a copy. asyncio's transports do neither, so an outbox writes to a duplicate of the connection's descriptor,
which the loop watches beside the transport's own. Small ranges are read and sent with the bytes around them: cheaper.

Invariant: `unsent_bytes` counts what was put and not yet taken by the kernel, ranges included; the connection handles
no further request while it is above its limit.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Final

from kafkalite.protocol.primitives import Piece
from kafkalite.server.metrics import RequestTimes
from kafkalite.storage.disk import FileRange

_SMALL_RANGE: Final = 32 * 1024
_MOST_PIECES: Final = 64
"""In one call; also how many small ranges are in memory at most."""
_TURN_BYTES: Final = 4 * 1024 * 1024
"""After this much the other connections have their turn."""


class FileRanges(tuple[FileRange, ...]):
    """Ranges that are sent as one field of a message."""

    @property
    def length(self) -> int:
        return sum(found.length for found in self)


class _Sent:
    """Stands behind the last piece of an answer: when it comes up, the answer has been sent."""

    __slots__ = ("ready_at", "times")

    def __init__(self, times: RequestTimes, ready_at: float) -> None:
        self.times = times
        self.ready_at = ready_at


class Outbox:
    """What one connection has to send. The event loop owns it."""

    def __init__(self, duplicate: socket.socket, loop: asyncio.AbstractEventLoop, lost: Callable[[], None]) -> None:
        self.unsent_bytes = 0
        self.sent_bytes = 0
        self.drained: Callable[[], None] = lambda: None
        """Called when the peer has taken something after it had stopped to."""
        self._socket = duplicate
        self._loop = loop
        self._lost = lost
        self._queue: deque[memoryview | FileRange | _Sent] = deque()
        self._is_waiting = False

    def put(self, pieces: Iterable[Piece], times: RequestTimes, ready_at: float) -> None:
        """Take an answer; `flush` sends it."""
        for piece in pieces:
            if isinstance(piece, FileRanges):
                self.unsent_bytes += piece.length
                self._queue.extend(piece)
            else:
                data = memoryview(piece)  # type: ignore[arg-type]
                self.unsent_bytes += len(data)
                self._queue.append(data)
        self._queue.append(_Sent(times, ready_at))

    def flush(self) -> None:
        """Send what the peer takes now; the loop calls again when it takes more."""
        if not self._is_waiting:
            self._send()

    def _send(self) -> None:
        queue = self._queue
        turn = 0
        try:
            while queue and turn < _TURN_BYTES:
                first = queue[0]
                if isinstance(first, _Sent):
                    first.times.sent(perf_counter() - first.ready_at)
                    queue.popleft()
                elif isinstance(first, FileRange) and first.length > _SMALL_RANGE:
                    turn += self._send_range(first)
                else:
                    turn += self._send_bytes()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._lost()
            return
        if bool(queue) != self._is_waiting:
            self._is_waiting = bool(queue)
            if queue:
                self._loop.add_writer(self._socket, self._writable)
            else:
                self._loop.remove_writer(self._socket)

    def _writable(self) -> None:
        self._send()
        self.drained()

    def _send_range(self, found: FileRange) -> int:
        sent = os.sendfile(self._socket.fileno(), found.file.fd, found.position, found.length)
        if sent == 0:
            raise _cut_short(found)
        self._took(sent)
        if sent == found.length:
            self._queue.popleft()
        else:
            self._queue[0] = FileRange(found.file, found.position + sent, found.length - sent)
        return sent

    def _send_bytes(self) -> int:
        """All bytes up to the next large range, which they travel with in one packet if they can."""
        queue = self._queue
        parts: list[memoryview] = []
        flags = 0
        for at, piece in enumerate(queue):
            if isinstance(piece, FileRange):
                if piece.length > _SMALL_RANGE:
                    flags = socket.MSG_MORE
                    break
                piece = queue[at] = _read_whole(piece)
            if isinstance(piece, memoryview):
                parts.append(piece)
                if len(parts) == _MOST_PIECES:
                    break
        sent = self._socket.sendmsg(parts, (), flags)
        self._took(sent)
        rest = sent
        while rest or (queue and isinstance(queue[0], _Sent)):
            first = queue[0]
            if isinstance(first, _Sent):
                first.times.sent(perf_counter() - first.ready_at)
                queue.popleft()
                continue
            assert isinstance(first, memoryview)
            if rest < len(first):
                queue[0] = first[rest:]
                break
            rest -= len(first)
            queue.popleft()
        return sent

    def _took(self, count: int) -> None:
        self.unsent_bytes -= count
        self.sent_bytes += count

    def close(self) -> None:
        """Drop what is unsent, and the descriptor."""
        if self._is_waiting:
            self._loop.remove_writer(self._socket)
            self._is_waiting = False
        self._queue.clear()
        self._socket.close()


def _read_whole(found: FileRange) -> memoryview:
    data = found.read()
    if len(data) != found.length:
        raise _cut_short(found)
    return memoryview(data)


def _cut_short(found: FileRange) -> OSError:
    return OSError(f"{found.file.path} ends before byte {found.position + found.length}, which was to be sent")
