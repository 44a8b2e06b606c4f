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
from typing import Final, TypeAlias

from kafkalite.protocol.api import append_response
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.primitives import Piece, piece_length
from kafkalite.protocol.schema import Message, split_at_holes
from kafkalite.server.metrics import RequestTimes
from kafkalite.storage.disk import FileRange

_SMALL_RANGE: Final = 32 * 1024
_MOST_PIECES: Final = 64
"""In one call; also how many small ranges are in memory at most."""
_TURN_BYTES: Final = 4 * 1024 * 1024
"""After this much the other connections have their turn."""


_Answer: TypeAlias = tuple[RequestTimes, float]
"""Where to note how long it took to send an answer, and since when it was ready."""


class FileRanges(tuple[FileRange, ...]):
    """Ranges that are sent as one field of a message."""

    @property
    def length(self) -> int:
        return sum(found.length for found in self)


class _Sent:
    """Stands behind the last piece of some answers: when it comes up, they have been sent."""

    __slots__ = ("answers",)

    def __init__(self, answers: list[_Answer]) -> None:
        self.answers = answers

    def note(self) -> None:
        now = perf_counter()
        for times, ready_at in self.answers:
            times.send += now - ready_at


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
        self._tail = bytearray()
        """The answers since the last flush, one after the other; they follow the queue."""
        self._tail_answers: list[_Answer] = []
        self._is_waiting = False

    def answer(self, header: RequestHeader, response: Message, times: RequestTimes, now: float) -> None:
        """Take an answer, encoded here to be sent with those around it; `flush` sends it."""
        tail = self._tail
        begin = len(tail)
        holes = append_response(tail, header, response)
        self.unsent_bytes += len(tail) - begin
        self._tail_answers.append((times, now))
        if holes:
            self.unsent_bytes += sum(piece_length(piece) for _, piece in holes)
            self._put(split_at_holes(tail, holes))
            self._seal(self._tail_answers)
            self._tail, self._tail_answers = bytearray(), []

    def put(self, pieces: Iterable[Piece], times: RequestTimes, ready_at: float) -> None:
        """Take an answer that is encoded already; `flush` sends it."""
        self._queue_tail()
        pieces = list(pieces)
        self.unsent_bytes += sum(map(piece_length, pieces))
        self._put(pieces)
        self._seal([(times, ready_at)])

    def _queue_tail(self) -> None:
        if self._tail:
            self._put([self._tail])
            self._seal(self._tail_answers)
            self._tail, self._tail_answers = bytearray(), []

    def _put(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, FileRanges):
                self._queue.extend(piece)
            else:
                self._queue.append(memoryview(piece))  # type: ignore[arg-type]

    def _seal(self, answers: list[_Answer]) -> None:
        self._queue.append(_Sent(answers))

    def flush(self) -> None:
        """Send what the peer takes now; the loop calls again when it takes more."""
        if self._is_waiting:
            return
        if self._tail and not self._queue and self._send_tail():
            return
        self._queue_tail()
        self._send()

    def _send_tail(self) -> bool:
        """The common case, some answers and a peer that takes them, without the queue; False if it is not so."""
        tail = self._tail
        try:
            sent = self._socket.send(tail)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._lost()
            return True
        self._took(sent)
        if sent < len(tail):
            del tail[:sent]
            return False
        _Sent(self._tail_answers).note()
        self._tail, self._tail_answers = bytearray(), []
        return True

    def _send(self) -> None:
        queue = self._queue
        turn = 0
        try:
            while queue and turn < _TURN_BYTES:
                first = queue[0]
                if isinstance(first, _Sent):
                    first.note()
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
        self._queue_tail()
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
        while rest:
            first = queue.popleft()
            if isinstance(first, _Sent):
                first.note()
            else:
                assert isinstance(first, memoryview)
                if rest < len(first):
                    queue.appendleft(first[rest:])
                rest -= min(rest, len(first))
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
        self._tail = bytearray()
        self._socket.close()


def _read_whole(found: FileRange) -> memoryview:
    data = found.read()
    if len(data) != found.length:
        raise _cut_short(found)
    return memoryview(data)


def _cut_short(found: FileRange) -> OSError:
    return OSError(f"{found.file.path} ends before byte {found.position + found.length}, which was to be sent")
