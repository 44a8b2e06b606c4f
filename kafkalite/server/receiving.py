"""The bytes that a connection has received and not yet handled, and the buffers that they lie in.

Most wake-ups bring whole frames: they are received into one buffer that all connections share, and handled before the
next wake-up, so an idle connection owns no buffer at all. The beginning of a frame that is still arriving moves to a
buffer of its own, which the rest is received into directly.

Invariant: memory grows with the bytes that have come, not with the size that a peer has announced (R5): a large buffer
is mapped, so that it costs only the pages that something was received into.
"""

from __future__ import annotations

import mmap
from typing import Final

SHARED_BYTES: Final = 256 * 1024
_FIRST_BYTES: Final = 4 * 1024
_WHOLE_AT_ONCE: Final = 2 * 1024 * 1024
"""Up to here a frame's buffer is made at once: batches of a megabyte are the common large ones."""
_MAPPED_FROM: Final = 64 * 1024
_POOL_BUFFERS: Final = 8


def _new_buffer(size: int) -> memoryview:
    """Of a large one, only the pages that bytes have come into take memory."""
    return memoryview(bytearray(size) if size < _MAPPED_FROM else mmap.mmap(-1, size))


class BufferPool:
    """The shared buffer, and a few large ones that are used again, because fresh pages cost more than the copy."""

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._free: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        for at, buffer in enumerate(self._free):
            if len(buffer) >= size:
                return self._free.pop(at)
        return _new_buffer(size)

    def give_back(self, buffer: memoryview) -> None:
        if SHARED_BYTES <= len(buffer) <= 2 * _WHOLE_AT_ONCE and len(self._free) < _POOL_BUFFERS:
            self._free.append(buffer)


class Received:
    """The unhandled bytes of one connection: `view[start:end]`."""

    __slots__ = ("_own", "_pool", "_wanted", "end", "start")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._own: memoryview | None = None
        self._wanted = 0
        self.start = self.end = 0

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def view(self) -> memoryview:
        return self._pool.shared if self._own is None else self._own

    def room(self) -> memoryview:
        """Where to receive into: not past the frame that is arriving, so that the next begins in the shared buffer."""
        if self._own is None:
            return self._pool.shared
        if self.end == len(self._own):
            self._move(min(self._wanted, 2 * len(self._own)))
        return self.view[self.end : self._wanted or None]

    def add(self, count: int) -> None:
        """That many bytes have been received into `room`."""
        self.end += count

    def keep(self, frame_bytes: int) -> None:
        """Keep what is unhandled beyond this wake-up; its first frame has this many bytes in all, 0 if unknown."""
        if self.start == self.end:
            self.drop()
            return
        self._wanted = frame_bytes
        size = max(len(self), _FIRST_BYTES, min(frame_bytes, max(_WHOLE_AT_ONCE, 2 * len(self))))
        if self.start or self._own is None or size > len(self._own):
            self._move(size)

    def drop(self) -> None:
        """Everything has been handled."""
        if self._own is not None:
            self._pool.give_back(self._own)
            self._own = None
        self.start = self.end = 0

    def _move(self, size: int) -> None:
        """Put the unhandled bytes at the beginning of a buffer of at least this size."""
        old, count = self._own, len(self)
        buffer = old if old is not None and len(old) >= size else self._pool.take(size)
        buffer[:count] = self.view[self.start : self.end]
        if old is not None and old is not buffer:
            self._pool.give_back(old)
        self._own = buffer
        self.start, self.end = 0, count
