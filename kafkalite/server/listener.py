"""The listening socket and its connections: who is let in, who has been silent too long, and the end of all.

Invariant: never more connections than `max.connections`, nor more of one address than `max.connections.per.ip`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkalite.server.complaints import Complaints
from kafkalite.server.metrics import Metrics
from kafkalite.server.receiving import BufferPool
from kafkalite.server.services import Services

if TYPE_CHECKING:
    from kafkalite.server.connection import Connection

_ACCEPTED_AT_ONCE: Final = 100
"""asyncio accepts this many before it looks at any of them: few enough that those who have gone again do not count."""


class Listener:
    """Accepts connections until it is stopped. The event loop owns it."""

    def __init__(self, services: Services, metrics: Metrics) -> None:
        self.services = services
        self.metrics = metrics
        self.loop = asyncio.get_running_loop()
        self.buffers = BufferPool()
        self.complaints = Complaints(self.loop.time)
        self.connections: set[Connection] = set()
        self._per_host: Counter[str] = Counter()
        self._server: asyncio.Server
        self._sweeping: asyncio.TimerHandle
        self._all_drained: asyncio.Future[None] | None = None

    async def start(self, host: str, port: int, connect: Callable[[Listener], Connection]) -> int:
        """Listen; gives the port, which the system has chosen if it was 0."""
        self._server = await self.loop.create_server(lambda: connect(self), host, port, backlog=_ACCEPTED_AT_ONCE)
        self._sweep()
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def admit(self, connection: Connection) -> tuple[str, str] | None:
        """Take a new connection among the others, or say why not."""
        config = self.services.config
        self.connections.add(connection)
        self._per_host[connection.host] += 1
        self.metrics.connections_accepted += 1
        if len(self.connections) > config.max_connections:
            return "too many connections", f"max.connections is {config.max_connections}"
        if self._per_host[connection.host] > config.max_connections_per_ip:
            return "too many connections from one address", f"max.connections.per.ip is {config.max_connections_per_ip}"
        return None

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._per_host[connection.host] -= 1
        if not self._per_host[connection.host]:
            del self._per_host[connection.host]
        self.maybe_drained()

    def _sweep(self) -> None:
        config = self.services.config
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check_time(now)
        interval = min(1.0, config.frame_timeout_ms / 4000, config.connections_max_idle_ms / 4000)
        self._sweeping = self.loop.call_later(interval, self._sweep)

    async def stop(self, timeout: float) -> None:
        """Accept and read nothing more, wait a bounded time for answers to be sent, then close everything."""
        self._server.close()
        self._sweeping.cancel()
        for connection in self.connections:
            connection.stop_reading()
        self._all_drained = self.loop.create_future()
        self.maybe_drained()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_drained, timeout)
        for connection in list(self.connections):
            connection.abort()

    def maybe_drained(self) -> None:
        """Called when a connection may have nothing left to send."""
        waited_for = self._all_drained
        if waited_for is not None and not waited_for.done() and all(found.is_drained for found in self.connections):
            waited_for.set_result(None)
