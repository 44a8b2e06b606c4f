"""The bytes that a connection has received and not yet handled, and the buffers that they lie in.

All connections receive into one large buffer, because what came in a wake-up is handled before the next one: so an idle
connection owns no buffer at all. What is left of a wake-up, the beginning of a frame that is still arriving, is kept as
bytes and put in front of what comes next. A large frame gets a buffer of its own, which its rest is received into.

Invariant: memory grows with the bytes that have come, not with the size that a peer has announced (R5): a large buffer
is mapped, so that it costs only the pages that something was received into.
"""

from __future__ import annotations

import mmap
from typing import Final

_SHARED_BYTES: Final = 1024 * 1024
_LARGE_FRAME: Final = 128 * 1024
"""Copying the beginning of a smaller frame once more costs less than a receive of its own for its rest."""
_WHOLE_AT_ONCE: Final = 2 * 1024 * 1024
"""Up to here a frame's buffer is made at once: batches of a megabyte are the common large ones."""
_POOL_BUFFERS: Final = 8


class BufferPool:
    """The shared buffer, and a few large ones that are used again, because fresh pages cost more than a copy."""

    def __init__(self) -> None:
        self.shared = memoryview(mmap.mmap(-1, _SHARED_BYTES))
        self._free: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        for at, buffer in enumerate(self._free):
            if len(buffer) >= size:
                return self._free.pop(at)
        return memoryview(mmap.mmap(-1, size))

    def give_back(self, buffer: memoryview) -> None:
        if len(buffer) <= 2 * _WHOLE_AT_ONCE and len(self._free) < _POOL_BUFFERS:
            self._free.append(buffer)


class Received:
    """The unhandled bytes of one connection, `view[start:end]`, from `room` to `keep`; then they are put away."""

    __slots__ = ("_kept", "_own", "_pool", "_wanted", "end", "start")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._kept = b""
        self._own: memoryview | None = None
        self._wanted = 0
        self.start = self.end = 0

    @property
    def view(self) -> memoryview:
        return self._pool.shared if self._own is None else self._own

    def room(self) -> memoryview:
        """Where to receive into, behind what was kept; of a large frame, not past its end."""
        own = self._own
        if own is None:
            self._put_back()
            return self._pool.shared[self.end :]
        if self.end == len(own):
            self._move(min(self._wanted, 2 * len(own)))
        return self.view[self.end : self._wanted]

    def add(self, count: int) -> None:
        """That many bytes have been received into `room`."""
        self.end += count

    def open(self) -> None:
        """Look again at what was kept, though nothing was received."""
        if self._own is None:
            self._put_back()

    def keep(self, frame_bytes: int) -> bool:
        """Put away what is unhandled, and say if there is any; its first frame has this many bytes, 0 if unknown."""
        count = self.end - self.start
        if not count:
            self.drop()
        elif self._own is not None:
            pass  # it holds one frame and nothing else, which is not whole yet, or held back
        elif frame_bytes > _LARGE_FRAME and count < frame_bytes:
            self._wanted = frame_bytes
            self._move(max(count, min(frame_bytes, max(_WHOLE_AT_ONCE, 2 * count))))
        else:
            self._kept = bytes(self.view[self.start : self.end])
        return count > 0

    def drop(self) -> None:
        """Nothing of it is needed any more."""
        self._kept = b""
        if self._own is not None:
            self._pool.give_back(self._own)
            self._own = None

    def _put_back(self) -> None:
        self.start, self.end = 0, len(self._kept)
        self._pool.shared[: self.end] = self._kept

    def _move(self, size: int) -> None:
        """Put the unhandled bytes at the beginning of a buffer of at least this size."""
        old, count = self._own, self.end - self.start
        buffer = self._pool.take(size)
        buffer[:count] = self.view[self.start : self.end]
        if old is not None:
            self._pool.give_back(old)
        self._own = buffer
        self._kept = b""
        self.start, self.end = 0, count
