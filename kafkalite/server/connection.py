"""One client's connection: frames in, answers out, in the order of the requests.

All whole frames of a wake-up are handled together and answered by as few system calls as possible. A handler that must
wait (a long poll, a flush, a rebalance) returns an awaitable; what follows it is read and handled meanwhile, and its
answer waits its turn. Nothing of a frame is kept when its handler has returned: the buffer is used again.

    received ──► frames ──► decode ──► handler ──► pending (in order) ──► outbox ──► peer

Back-pressure: while too many requests or bytes are unanswered, or too many bytes unsent, no further frame is handled
and nothing is read, so TCP holds the peer back. Whatever ends such a state calls `_go_on`: an answer, or the outbox.
A malformed frame closes the connection and touches nothing else.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from time import perf_counter
from typing import Final

from kafkalite.errors import MalformedMessage
from kafkalite.protocol.api import APIS, ApiKey, UnsupportedRequest, decode_request, encode_response_pieces
from kafkalite.protocol.frames import SIZE_BYTES
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.primitives import Piece, piece_length
from kafkalite.protocol.schema import Message
from kafkalite.server.dispatch import HANDLERS
from kafkalite.server.listener import Listener
from kafkalite.server.outbox import Outbox
from kafkalite.server.receiving import Received
from kafkalite.server.services import Call, CloseConnection

_SIZE: Final = struct.Struct(">i")
_SIZE_AND_KEY: Final = struct.Struct(">ih")


class _Pending:
    """A request that is not answered yet; `pieces` are there once it can be."""

    __slots__ = ("answer_bytes", "header", "pieces", "ready_at", "size", "waiting_since")

    def __init__(self, header: RequestHeader, size: int, waiting_since: float) -> None:
        self.header = header
        self.size = size
        self.waiting_since = waiting_since
        self.ready_at = 0.0
        self.pieces: list[Piece] | None = None
        self.answer_bytes = 0

    def ready(self, pieces: list[Piece], now: float) -> None:
        self.pieces, self.ready_at = pieces, now
        self.answer_bytes = sum(map(piece_length, pieces))


class Connection(asyncio.BufferedProtocol):
    """The protocol of one connection. The event loop owns it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._services = listener.services
        self._config = listener.services.config
        self._metrics = listener.metrics
        self._received = Received(listener.buffers)
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._ready_bytes = 0
        """Answers that wait for an earlier one: they are unsent, too."""
        self._tasks: set[asyncio.Future[Message]] = set()
        self._is_paused = False
        self._is_stopping = False
        self._is_closing = False
        self._frame_since: float | None = None
        self._last_active = listener.loop.time()
        self._seen_sent_bytes = 0
        self.host = ""
        self._transport: asyncio.Transport
        self._outbox: Outbox

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = transport.get_extra_info("peername")
        self.host = address[0] if address else ""
        duplicate = transport.get_extra_info("socket").dup()
        duplicate.setblocking(False)
        self._outbox = Outbox(duplicate, self._listener.loop, self.abort)
        self._outbox.drained = self._go_on
        refusal = self._listener.admit(self)
        if refusal is not None:
            self._close(*refusal)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._received.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._received.add(nbytes)
        self._last_active = self._listener.loop.time()
        self._handle_frames()
        self._outbox.flush()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_closing = True
        self._received.drop()
        self._outbox.close()
        for task in self._tasks:
            task.cancel()
        self._pending.clear()
        self._listener.forget(self)

    # Requests.

    def _handle_frames(self) -> None:
        """Handle every whole frame, unless the peer must be held back; what remains is kept for later."""
        received = self._received
        arrived_at = perf_counter()
        view, end = received.view, received.end
        plain_limit = self._config.plain_request_max_bytes
        frame_bytes = 0
        try:
            while end - received.start >= SIZE_BYTES and not self._is_closing:
                start = received.start
                (size,) = _SIZE.unpack_from(view, start)
                if not 0 <= size <= plain_limit:
                    self._check_size(size)
                frame_bytes = size + SIZE_BYTES
                if end - start < frame_bytes:
                    break
                if self._is_held_back():
                    self._outbox.flush()
                    if self._is_held_back():
                        self._pause()
                        break
                received.start = start + frame_bytes
                self._handle(view[start + SIZE_BYTES : start + frame_bytes], arrived_at)
                frame_bytes = 0
        except MalformedMessage as error:
            self._close("malformed request", str(error))
        except CloseConnection as error:
            self._close("request that has no answer failed", str(error))
        if self._is_closing:
            received.drop()
        elif not received.keep(frame_bytes) or self._is_paused:
            self._frame_since = None
        elif self._frame_since is None:
            self._frame_since = self._listener.loop.time()

    def _check_size(self, size: int) -> None:
        """Only a request with records may be large; which it is, is known two bytes later."""
        limit = self._config.socket_request_max_bytes
        received = self._received
        if 0 <= size <= limit and received.end - received.start >= _SIZE_AND_KEY.size:
            _, api_key = _SIZE_AND_KEY.unpack_from(received.view, received.start)
            if api_key != ApiKey.PRODUCE:
                limit = self._config.plain_request_max_bytes
        if not 0 <= size <= limit:
            raise MalformedMessage(f"a request of {size} bytes; the limit is {limit}")

    def _handle(self, frame: memoryview, arrived_at: float) -> None:
        begun = perf_counter()
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as unsupported:
            if unsupported.answer is None:
                raise MalformedMessage(str(unsupported)) from None
            self._answer(unsupported.header, len(frame), unsupported.answer, begun)
            return
        times = self._metrics.requests[header.api_key]
        times.count += 1
        times.queue += begun - arrived_at
        try:
            answer = HANDLERS[header.api_key](self._services, Call(header, self.host), request)
            done = perf_counter()
            times.local += done - begun
            if answer is None:
                return
            if isinstance(answer, (Message, bytes)):  # a union would be made anew for every request
                self._answer(header, len(frame), answer, done)
                return
        except CloseConnection:
            raise
        except Exception as error:
            self._failed(header, error)
            return
        pending = _Pending(header, len(frame), done)
        self._wait_in_line(pending)
        task = asyncio.ensure_future(answer)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._answered(pending, done))

    def _answer(self, header: RequestHeader, size: int, answer: Message | bytes, now: float) -> None:
        times = self._metrics.requests[header.api_key]
        if self._pending:
            pending = _Pending(header, size, now)
            pending.ready([answer] if isinstance(answer, bytes) else encode_response_pieces(header, answer), now)
            self._ready_bytes += pending.answer_bytes
            self._wait_in_line(pending)
        elif isinstance(answer, bytes):
            self._outbox.put([answer], times, now)
        else:
            self._outbox.answer(header, answer, times, now)

    def _wait_in_line(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._pending_bytes += pending.size

    def _answered(self, pending: _Pending, task: asyncio.Future[Message]) -> None:
        """A handler that had to wait has its answer."""
        self._tasks.discard(task)
        if self._is_closing or task.cancelled():
            return
        now = perf_counter()
        try:
            pending.ready(encode_response_pieces(pending.header, task.result()), now)
        except Exception as error:
            self._failed(pending.header, error)
            return
        self._metrics.requests[pending.header.api_key].remote += now - pending.waiting_since
        self._ready_bytes += pending.answer_bytes
        self._send_in_order()

    def _send_in_order(self) -> None:
        while self._pending and (pieces := self._pending[0].pieces) is not None:
            first = self._pending.popleft()
            self._pending_bytes -= first.size
            self._ready_bytes -= first.answer_bytes
            self._outbox.put(pieces, self._metrics.requests[first.header.api_key], first.ready_at)
        self._outbox.flush()
        self._go_on()

    def _failed(self, header: RequestHeader, error: BaseException) -> None:
        """A fault of ours: the peer gets no answer that would say less than the truth, only the end."""
        name = APIS[header.api_key].name
        self._close(f"internal error in {name}", f"version {header.api_version} of {name} failed", error)

    # Holding the peer back.

    def _is_held_back(self) -> bool:
        config = self._config
        unsent_bytes = self._outbox.unsent_bytes + self._ready_bytes
        return unsent_bytes >= config.max_unsent_bytes_per_connection or (
            len(self._pending) >= config.max_in_flight_requests_per_connection
            or self._pending_bytes >= config.max_in_flight_bytes_per_connection
        )

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Something was answered or sent: there may be room for the requests that were held back."""
        if self._is_paused and not (self._is_stopping or self._is_closing or self._is_held_back()):
            self._is_paused = False
            self._received.open()
            self._handle_frames()
            self._outbox.flush()
            if not self._is_paused and not self._is_closing:
                self._transport.resume_reading()
        self._listener.maybe_drained()

    # The end.

    @property
    def is_drained(self) -> bool:
        return not self._pending and not self._outbox.unsent_bytes

    def stop_reading(self) -> None:
        """Handle no further request; those that wait are answered."""
        self._is_stopping = True
        self._pause()

    def check_time(self, now: float) -> None:
        """Close the connection if a frame is not arriving, or nothing moves and nothing is waited for."""
        config = self._config
        if self._tasks or self._outbox.sent_bytes != self._seen_sent_bytes:
            self._last_active, self._seen_sent_bytes = now, self._outbox.sent_bytes
        if self._frame_since is not None and now - self._frame_since > config.frame_timeout_ms / 1000:
            self._close("request did not arrive in time", f"frame.timeout.ms is {config.frame_timeout_ms}")
        elif now - self._last_active > config.connections_max_idle_ms / 1000:
            self._close("idle", f"connections.max.idle.ms is {config.connections_max_idle_ms}")

    def _close(self, cause: str, detail: str, error: BaseException | None = None) -> None:
        if not self._is_closing:
            self._metrics.connections_closed[cause] += 1
            self._listener.complaints.note(cause, f"connection of {self.host} closed: {detail}", error)
            self._outbox.flush()
            self.abort()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()
