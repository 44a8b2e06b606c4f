"""Frames: the protocol's envelopes on a stream.

    size int32 | that many bytes: header and message

`split_frames` is the whole logic, without I/O and without a copy, for a server that receives into one large buffer and
handles all whole frames of a wake-up together. `FrameDecoder` wraps it for whoever receives pieces of any size.

Invariant: a frame's size is checked against the limit as soon as its four bytes are there, before anything waits or is
allocated for it. After an error the stream has no known boundaries any more, so it can only be closed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kafkalite.errors import MalformedMessage
from kafkalite.protocol.primitives import BytesLike

SIZE_BYTES: Final = 4
DEFAULT_MAX_FRAME_BYTES: Final = 104_857_600
"""Kafka's `socket.request.max.bytes`."""

_SIZE: Final = struct.Struct(">i")


class FrameTooLarge(MalformedMessage):
    """A frame that announces more bytes than this end accepts."""


def split_frames(buffer: BytesLike, start: int, end: int, max_size: int) -> Iterator[tuple[int, int]]:
    """Yields where each whole frame in `buffer[start:end]` begins and ends, without its size.

    The rest, from the end of the last frame on, is the beginning of a frame that is still arriving.
    """
    while end - start >= SIZE_BYTES:
        (size,) = _SIZE.unpack_from(buffer, start)
        if size < 0:
            raise MalformedMessage(f"frame size {size} is negative")
        if size > max_size:
            raise FrameTooLarge(f"frame size {size} exceeds the limit of {max_size} bytes")
        start += SIZE_BYTES
        if end - start < size:
            return
        yield start, start + size
        start += size


class FrameDecoder:
    """Collects a stream's bytes into frames. A frame that it returned stays valid and untouched for ever."""

    def __init__(self, max_size: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_size = max_size
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished frame have come."""
        return len(self._pending)

    def feed(self, data: BytesLike) -> list[memoryview]:
        """Takes the next bytes of the stream; returns the frames that they complete."""
        self._pending += data
        spans = list(split_frames(self._pending, 0, len(self._pending), self._max_size))
        if not spans:
            return []
        # The frames are views, and a bytearray with views cannot grow: the rest moves to a new one.
        whole = memoryview(self._pending)
        self._pending = bytearray(whole[spans[-1][1] :])
        return [whole[start:end] for start, end in spans]
