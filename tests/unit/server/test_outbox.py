"""What a connection has to send: in order, by file ranges and bytes, as fast or slow as the peer takes it."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkalite.server.metrics import RequestTimes
from kafkalite.server.outbox import FileRanges, Outbox
from kafkalite.storage.disk import FileRange, OpenFile


class Ends:
    """An outbox and its peer."""

    def __init__(self, send_buffer: int) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.peer.setblocking(False)
        self.lost = 0
        self.drained = 0
        self.loop = asyncio.get_running_loop()
        self.outbox = Outbox(ours, self.loop, self._lose)
        self.outbox.drained = self._drain
        self.times = RequestTimes()

    def _lose(self) -> None:
        self.lost += 1
        self.outbox.close()

    def _drain(self) -> None:
        self.drained += 1

    def put(self, pieces: Sequence[Any]) -> None:
        self.outbox.put(pieces, self.times, 0.0)

    async def receive(self, count: int, piece: int = 100_000) -> bytes:
        data = bytearray()
        while len(data) < count:
            got = await asyncio.wait_for(self.loop.sock_recv(self.peer, min(piece, count - len(data))), 5)
            assert got
            data += got
        return bytes(data)


def run(test: Callable[[Ends], Awaitable[None]], send_buffer: int = 200_000) -> None:
    async def with_ends() -> None:
        ends = Ends(send_buffer)
        try:
            await test(ends)
        finally:
            ends.outbox.close()
            ends.peer.close()

    asyncio.run(with_ends())


@pytest.fixture
def content() -> bytes:
    return random.Random(1).randbytes(3_000_000)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> OpenFile:
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    return OpenFile(path)


def test_many_small_answers_arrive_in_order() -> None:
    async def test(ends: Ends) -> None:
        parts = [b"%d;" % number for number in range(1_000)]
        for part in parts:
            ends.put([part])
        assert ends.outbox.unsent_bytes == sum(map(len, parts))
        ends.outbox.flush()
        assert await ends.receive(sum(map(len, parts))) == b"".join(parts)
        assert (ends.outbox.unsent_bytes, ends.outbox.sent_bytes) == (0, sum(map(len, parts)))

    run(test)


@pytest.mark.parametrize("seed", range(15))
def test_bytes_and_ranges_of_any_size_arrive_in_order_at_a_slow_peer(file: OpenFile, content: bytes, seed: int) -> None:
    async def test(ends: Ends) -> None:
        rng = random.Random(seed)
        expected = bytearray()
        for _ in range(40):
            pieces: list[Any] = []
            for _ in range(rng.randint(1, 4)):
                if rng.random() < 0.5:
                    data = rng.randbytes(rng.choice([1, 50, 40_000]))
                    pieces.append(rng.choice([bytes, bytearray, memoryview])(data))
                    expected += data
                else:
                    ranges = []
                    for _ in range(rng.randint(1, 3)):
                        at, length = rng.randrange(2_000_000), rng.choice([1, 900, 32_768, 32_769, 300_000])
                        ranges.append(FileRange(file, at, length))
                        expected += content[at : at + length]
                    pieces.append(FileRanges(ranges))
            ends.put(pieces)
            if rng.random() < 0.5:
                ends.outbox.flush()
            assert ends.outbox.unsent_bytes + ends.outbox.sent_bytes == len(expected)
        ends.outbox.flush()
        assert await ends.receive(len(expected), piece=rng.choice([1_000, 70_000, 10**6])) == bytes(expected)
        assert ends.outbox.unsent_bytes == 0
        assert ends.lost == 0
        assert ends.times.send > 0

    run(test, send_buffer=random.Random(seed).choice([4_096, 50_000, 10**6]))


def test_a_peer_that_takes_nothing_is_waited_for_and_told_of_when_it_does() -> None:
    async def test(ends: Ends) -> None:
        ends.put([bytes(1_000_000)])
        ends.outbox.flush()
        ends.outbox.flush()
        taken = ends.outbox.sent_bytes
        assert 0 < taken < 1_000_000
        await asyncio.sleep(0.02)
        assert (ends.outbox.sent_bytes, ends.drained) == (taken, 0)
        assert await ends.receive(1_000_000) == bytes(1_000_000)
        await asyncio.sleep(0)
        assert ends.drained > 0
        assert ends.outbox.unsent_bytes == 0

    run(test, send_buffer=4_096)


def test_answers_put_while_the_peer_is_waited_for_follow_in_order() -> None:
    async def test(ends: Ends) -> None:
        ends.put([b"a" * 300_000])
        ends.outbox.flush()
        ends.put([b"b" * 300_000])
        ends.put([b"c"])
        ends.outbox.flush()
        assert await ends.receive(600_001) == b"a" * 300_000 + b"b" * 300_000 + b"c"

    run(test, send_buffer=4_096)


def test_a_peer_that_goes_away_is_lost_once() -> None:
    async def test(ends: Ends) -> None:
        ends.put([bytes(1_000_000)])
        ends.outbox.flush()
        ends.peer.close()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert ends.lost == 1

    run(test, send_buffer=4_096)


def test_a_peer_that_was_gone_before_the_first_byte_is_lost() -> None:
    async def test(ends: Ends) -> None:
        ends.peer.close()
        ends.put([b"x"])
        ends.outbox.flush()
        assert ends.lost == 1

    run(test)


@pytest.mark.parametrize("length", [1_000, 500_000])
def test_a_file_that_has_become_shorter_ends_the_connection_and_sends_nothing_else(file: OpenFile, length: int) -> None:
    """An answer that cannot be completed must not be filled with what follows it."""

    async def test(ends: Ends) -> None:
        ends.put([b"size", FileRanges([FileRange(file, 1_000, length)])])
        ends.put([b"next answer"])
        os.truncate(file.path, 1_010)
        ends.outbox.flush()
        await asyncio.sleep(0.02)
        assert ends.lost == 1
        assert b"next" not in ends.peer.recv(100_000)

    run(test)


def test_ranges_that_are_not_sent_yet_take_no_memory(file: OpenFile) -> None:
    async def test(ends: Ends) -> None:
        ends.put([FileRanges([FileRange(file, 0, 30_000)] * 2_000)])
        ends.outbox.flush()
        in_memory = sum(len(piece) for piece in ends.outbox._queue if isinstance(piece, memoryview))
        assert in_memory <= 64 * 32_768

    run(test, send_buffer=4_096)
