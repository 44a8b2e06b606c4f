"""Requests that wait for a partition to move: fetches for bytes, acknowledgements for durability.

Each waiter resolves a future once; whoever waits looks again at what it waited for, because the partition may have
been deleted or gone offline meanwhile. The event loop owns all of it.
"""

from __future__ import annotations

import asyncio


class BytesWaiter:
    """A long-polling fetch: done once `missing_bytes` more have become readable in the partitions that it is put on."""

    __slots__ = ("done", "missing_bytes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.missing_bytes = 1
        self.done: asyncio.Future[None] = loop.create_future()

    def arrived(self, count: int) -> None:
        self.missing_bytes -= count
        if self.missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Waiters:
    """What waits for one partition."""

    def __init__(self) -> None:
        self.for_bytes: set[BytesWaiter] = set()
        self._for_offset: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self.for_bytes) + len(self._for_offset)

    def until_durable(self, offset: int) -> asyncio.Future[None]:
        """Done once everything below `offset` is as durable as it must be."""
        future = asyncio.get_running_loop().create_future()
        self._for_offset.append((offset, future))
        return future

    def durable_to(self, offset: int) -> None:
        if not self._for_offset:
            return
        for wanted, future in self._for_offset:
            if wanted <= offset and not future.done():
                future.set_result(None)
        self._for_offset = [(wanted, future) for wanted, future in self._for_offset if not future.done()]

    def readable(self, count: int) -> None:
        for waiter in self.for_bytes:
            waiter.arrived(count)

    def wake_all(self) -> None:
        """The partition will not move any more: let everybody see why."""
        for waiter in self.for_bytes:
            waiter.wake()
        for _, future in self._for_offset:
            if not future.done():
                future.set_result(None)
        self._for_offset.clear()
