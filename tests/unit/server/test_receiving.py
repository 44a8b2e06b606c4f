"""The bytes of connections that share a buffer: nothing is lost or mixed, and memory grows with what has come."""

from __future__ import annotations

import random

import pytest

from kafkalite.server.receiving import BufferPool, Received

SIZE = 4


class Sender:
    """Puts a stream of frames through a `Received`, in pieces; takes frames out as a connection does."""

    def __init__(self, pool: BufferPool, seed: int, sizes: list[int]) -> None:
        rng = random.Random(seed)
        self.frames = [rng.randbytes(size) for size in sizes]
        self.stream = b"".join(len(frame).to_bytes(SIZE, "big") + frame for frame in self.frames)
        self.received = Received(pool)
        self.taken: list[bytes] = []
        self._sent = 0

    @property
    def is_done(self) -> bool:
        return self._sent == len(self.stream)

    def step(self, count: int, most_frames: int = 10**9) -> None:
        """Receive up to this many bytes, and handle that many frames at most."""
        room = self.received.room()
        piece = self.stream[self._sent : self._sent + min(count, len(room))]
        assert len(room) > 0, "there is no room for what comes"
        room[: len(piece)] = piece
        self._sent += len(piece)
        self.received.add(len(piece))
        self.take(most_frames)

    def take(self, most_frames: int = 10**9) -> None:
        received, view = self.received, self.received.view
        frame_bytes = 0
        while received.end - received.start >= SIZE:
            start = received.start
            frame_bytes = SIZE + int.from_bytes(view[start : start + SIZE], "big")
            if received.end - start < frame_bytes or not most_frames:
                break
            most_frames -= 1
            self.taken.append(bytes(view[start + SIZE : start + frame_bytes]))
            received.start = start + frame_bytes
            frame_bytes = 0
        received.keep(frame_bytes)


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 100])
def test_small_frames_in_small_pieces_come_out_whole(piece: int) -> None:
    sender = Sender(BufferPool(), piece, [0, 1, 2, 3, 10, 0, 50, 4, 5])
    while not sender.is_done:
        sender.step(piece)
    assert sender.taken == sender.frames


@pytest.mark.parametrize("seed", range(20))
def test_frames_of_any_size_of_many_connections_come_out_whole_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    pool = BufferPool()
    sizes = [0, 10, 5_000, 16_380, 16_384, 20_000, 70_000, 262_140, 262_144, 300_000, 3_000_000]
    senders = [Sender(pool, seed * 10 + number, [rng.choice(sizes) for _ in range(8)]) for number in range(4)]
    while unfinished := [sender for sender in senders if not sender.is_done]:
        rng.choice(unfinished).step(rng.choice([1, 3, 1_000, 50_000, 10**7]))
    for sender in senders:
        assert sender.taken == sender.frames


@pytest.mark.parametrize("seed", range(10))
def test_frames_that_are_held_back_come_out_later(seed: int) -> None:
    """After a wake-up a connection may handle only some of its frames; it reads nothing until it has handled them."""
    rng = random.Random(seed)
    pool = BufferPool()
    senders = [
        Sender(pool, seed * 10 + number, [rng.choice([0, 9, 3_000, 30_000, 500_000]) for _ in range(30)])
        for number in range(2)
    ]
    while any(not sender.is_done or len(sender.taken) < len(sender.frames) for sender in senders):
        for sender in senders:
            before = len(sender.taken)
            sender.step(rng.choice([100, 40_000, 10**6]), most_frames=rng.randint(0, 3))
            while len(sender.taken) > before and sender.received.end - sender.received.start >= SIZE:
                before = len(sender.taken)
                sender.received.open()
                sender.take(most_frames=1)
            sender.received.open()
            sender.take()
    for sender in senders:
        assert sender.taken == sender.frames


def test_an_announced_size_takes_no_memory() -> None:
    """Pages are only taken by what is received into them, so room is not memory; but room is bounded too."""
    pool = BufferPool()
    for announced in (1_000, 100_000, 2**31 - 1):
        received = Received(pool)
        room = received.room()
        room[:SIZE] = announced.to_bytes(SIZE, "big")
        received.add(SIZE)
        received.keep(SIZE + announced)
        assert len(received.view) <= 4 * 1024 * 1024
        received.drop()


def test_large_buffers_are_used_again() -> None:
    pool = BufferPool()
    first = pool.take(1_000_000)
    pool.give_back(first)
    assert pool.take(900_000) is first
    assert pool.take(900_000) is not first
