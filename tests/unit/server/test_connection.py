"""One connection: frames however they come, answers in order, a peer that is held back, and every way that it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from kafkalite.config import BrokerConfig
from kafkalite.protocol.api import ApiKey
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.server import connection as connection_module
from kafkalite.server.connection import Connection
from kafkalite.server.services import CloseConnection
from tests.unit.server.connected import (
    Peer,
    beat,
    decoded,
    heartbeat,
    listener_of,
    metadata,
    no_brokers,
    until,
)

CONFIG = BrokerConfig()


class Handled:
    """What the handlers were asked, and the answers that they wait for."""

    def __init__(self) -> None:
        self.members: list[str] = []
        self.waiting: list[asyncio.Future[Any]] = []

    def heartbeat(self, _services: Any, _call: Any, request: HeartbeatRequest) -> Any:
        self.members.append(request.member_id)
        match request.member_id:
            case "breaks":
                raise ZeroDivisionError("a fault of ours")
            case "closes":
                raise CloseConnection("no answer to this")
            case "no answer":
                return None
            case "large":
                return beat_of(100_000)
        return beat()

    def metadata(self, *_: Any) -> Awaitable[Any]:
        waiting = asyncio.get_running_loop().create_future()
        self.waiting.append(waiting)

        async def wait() -> Any:
            return await waiting

        return wait()


def beat_of(size: int) -> bytes:
    """An answer made before, as that of ApiVersions is."""
    return (size).to_bytes(4, "big") + b"\0\0\0\x01" + bytes(size - 4)


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Handled:
    handled = Handled()
    handlers = {ApiKey.HEARTBEAT: handled.heartbeat, ApiKey.METADATA: handled.metadata}
    monkeypatch.setattr(connection_module, "HANDLERS", handlers)
    return handled


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    async def run_and_close(*args: Any, **kwargs: Any) -> None:
        try:
            await test(*args, **kwargs)
        finally:
            await Peer.close_all()

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(run_and_close(*args, **kwargs))

    return run


async def connected(config: BrokerConfig = CONFIG) -> Peer:
    return await Peer.connect(listener_of(config))


def has_ended(peer: Peer) -> bool:
    return not peer.listener.connections


# Frames


@on_loop
async def test_a_frame_cut_at_every_byte_is_handled_once(handled: Handled) -> None:
    peer = await connected()
    frame = heartbeat(7)
    for cut in range(1, len(frame)):
        await peer.send(frame[:cut])
        await until(lambda: peer.connection._frame_since is not None)
        await peer.send(frame[cut:])
        assert await peer.receive_ids(1) == [7]
        assert peer.connection._frame_since is None
    assert handled.members == ["m"] * (len(frame) - 1)
    peer.socket.close()
    await until(lambda: has_ended(peer))


@on_loop
async def test_two_frames_cut_at_every_byte_are_handled_in_order(handled: Handled) -> None:
    peer = await connected()
    frames = heartbeat(1, "first") + heartbeat(2, "second")
    for cut in range(1, len(frames)):
        await peer.send(frames[:cut])
        await asyncio.sleep(0)
        await peer.send(frames[cut:])
        assert await peer.receive_ids(2) == [1, 2]
    assert handled.members == ["first", "second"] * (len(frames) - 1)


@on_loop
async def test_many_frames_of_one_wake_up_are_answered_by_one_send(handled: Handled) -> None:
    peer = await connected()
    await peer.send(b"".join(heartbeat(number) for number in range(500)))
    assert await peer.receive_ids(500) == list(range(500))
    assert peer.listener.metrics.requests[ApiKey.HEARTBEAT].count == 500


@pytest.mark.parametrize("size", [4_000, 300_000, 3_000_000, 7_000_000])
@on_loop
async def test_a_large_frame_and_those_around_it_are_handled(handled: Handled, size: int) -> None:
    """Larger than the buffer that all share, and larger than what is made at once."""
    peer = await connected()
    # A compact string may not be longer than 32,767, so the size comes from many tagged bytes.
    small = heartbeat(1)
    body = heartbeat(2)[4:-1] + b"\x01\x09" + _uvarint(size) + bytes(size)
    large = len(body).to_bytes(4, "big") + body
    sending = asyncio.create_task(peer.send(small + large + small + large))
    assert await peer.receive_ids(4) == [1, 2, 1, 2]
    await sending


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    "bad", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x04\0\x0c\0\x04", b"GET / HTTP/1.1\r\n"]
)
@on_loop
async def test_what_is_no_request_closes_after_what_came_before_was_answered(handled: Handled, bad: bytes) -> None:
    peer = await connected()
    await peer.send(heartbeat(1) + bad)
    assert await peer.receive_ids(1) == [1]
    assert await peer.is_closed()
    assert has_ended(peer)
    assert dict(peer.listener.metrics.connections_closed) == {"malformed request": 1}


# Order


@on_loop
async def test_answers_have_the_order_of_the_requests_though_the_first_is_slow(handled: Handled) -> None:
    peer = await connected()
    await peer.send(metadata(1) + heartbeat(2) + metadata(3) + heartbeat(4))
    await until(lambda: len(handled.members) == 2)
    handled.waiting[1].set_result(no_brokers())
    await peer.send(heartbeat(5))
    await until(lambda: len(handled.members) == 3)
    handled.waiting[0].set_result(no_brokers())
    assert await peer.receive_ids(5) == [1, 2, 3, 4, 5]
    assert peer.connection.is_drained


@on_loop
async def test_a_request_without_an_answer_leaves_no_gap(handled: Handled) -> None:
    peer = await connected()
    await peer.send(heartbeat(1) + heartbeat(2, "no answer") + heartbeat(3))
    assert await peer.receive_ids(2) == [1, 3]


# Holding back


async def is_quiet(condition: Callable[[], bool]) -> bool:
    """Whether it is so after everything that the loop has to do has been done a few times over."""
    for _ in range(30):
        await asyncio.sleep(0.001)
    return condition()


@on_loop
async def test_requests_beyond_those_in_flight_wait_for_an_answer(handled: Handled) -> None:
    peer = await connected(BrokerConfig(max_in_flight_requests_per_connection=2))
    await peer.send(metadata(1) + metadata(2) + metadata(3) + heartbeat(4))
    await until(lambda: len(handled.waiting) == 2)
    assert await is_quiet(lambda: len(handled.waiting) == 2)
    handled.waiting[1].set_result(no_brokers())
    assert await is_quiet(lambda: len(handled.waiting) == 2), "the second's answer is not sent, so it is in flight"
    handled.waiting[0].set_result(no_brokers())
    await until(lambda: len(handled.waiting) == 3)
    handled.waiting[2].set_result(no_brokers())
    assert await peer.receive_ids(4) == [1, 2, 3, 4]
    await peer.send(heartbeat(5))
    assert await peer.receive_ids(1) == [5], "it reads again"


@on_loop
async def test_requests_beyond_the_bytes_in_flight_wait_for_an_answer(handled: Handled) -> None:
    peer = await connected(BrokerConfig(max_in_flight_bytes_per_connection=len(metadata(1))))
    await peer.send(metadata(1) + metadata(2) + metadata(3))
    await until(lambda: len(handled.waiting) == 2)
    assert await is_quiet(lambda: len(handled.waiting) == 2)
    for at in range(3):
        await until(lambda at=at: len(handled.waiting) > at)  # type: ignore[misc]
        handled.waiting[at].set_result(no_brokers())
    assert await peer.receive_ids(3) == [1, 2, 3]


@on_loop
async def test_a_peer_that_does_not_read_is_not_read_and_gets_everything_when_it_does(handled: Handled) -> None:
    peer = await connected(BrokerConfig(max_unsent_bytes_per_connection=250_000))
    await peer.send(b"".join(heartbeat(1, "large") for _ in range(100)))
    await until(lambda: len(handled.members) > 2)
    assert await is_quiet(lambda: len(handled.members) < 20), "it goes on though nothing is taken"
    assert peer.connection._outbox.unsent_bytes < 250_000 + 100_010
    for _ in range(100):
        assert len(await peer.receive_frame()) == 100_000
    assert len(handled.members) == 100
    assert peer.connection.is_drained


@on_loop
async def test_answers_that_wait_for_a_slow_one_hold_the_peer_back(handled: Handled) -> None:
    peer = await connected(BrokerConfig(max_unsent_bytes_per_connection=250_000))
    await peer.send(metadata(1) + b"".join(heartbeat(1, "large") for _ in range(50)))
    await until(lambda: len(handled.members) >= 3)
    assert await is_quiet(lambda: len(handled.members) == 3)
    handled.waiting[0].set_result(no_brokers())
    assert await peer.receive_ids(51) == [1] * 51


@on_loop
async def test_more_bytes_than_the_shared_buffer_can_be_held_back(handled: Handled) -> None:
    peer = await connected(BrokerConfig(max_in_flight_requests_per_connection=1))
    sending = asyncio.create_task(peer.send(metadata(1) + b"".join(heartbeat(number) for number in range(2, 20_000))))
    await until(lambda: bool(handled.waiting))
    assert await is_quiet(lambda: handled.members == [])
    handled.waiting[0].set_result(no_brokers())
    assert await peer.receive_ids(19_999) == list(range(1, 20_000))
    await sending


# The end


@on_loop
async def test_a_peer_that_goes_away_ends_what_it_waits_for(handled: Handled) -> None:
    peer = await connected()
    await peer.send(metadata(1) + metadata(2))
    await until(lambda: len(handled.waiting) == 2)
    peer.socket.close()
    await until(lambda: has_ended(peer))
    await until(lambda: all(waiting.cancelled() for waiting in handled.waiting))


@on_loop
async def test_a_peer_that_goes_away_with_unsent_answers_is_forgotten(
    handled: Handled, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await connected()
    await peer.send(b"".join(heartbeat(1, "large") for _ in range(100)))
    await until(lambda: len(handled.members) > 2)
    peer.socket.close()
    await until(lambda: has_ended(peer))
    assert caplog.records == [], "that a client goes away is nothing to tell"


@on_loop
async def test_a_fault_of_ours_closes_the_connection_and_is_told_once(
    handled: Handled, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listener_of(CONFIG)
    for _ in range(5):
        peer = await Peer.connect(listener)
        await peer.send(heartbeat(1) + heartbeat(2, "breaks") + heartbeat(3))
        assert await peer.receive_ids(1) == [1]
        assert await peer.is_closed()
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.ERROR
    assert "Heartbeat" in caplog.records[0].message


@on_loop
async def test_a_fault_of_ours_in_what_waits_closes_the_connection(handled: Handled) -> None:
    peer = await connected()
    await peer.send(metadata(1) + heartbeat(2))
    await until(lambda: bool(handled.waiting))
    handled.waiting[0].set_exception(ZeroDivisionError("a fault of ours"))
    assert await peer.is_closed()


@on_loop
async def test_an_answer_that_cannot_be_encoded_closes_the_connection(handled: Handled) -> None:
    peer = await connected()
    await peer.send(metadata(1))
    await until(lambda: bool(handled.waiting))
    handled.waiting[0].set_result(beat(code=10**9))
    assert await peer.is_closed()


@on_loop
async def test_a_request_that_has_no_answer_and_fails_closes_the_connection(handled: Handled) -> None:
    peer = await connected()
    await peer.send(heartbeat(1, "closes"))
    assert await peer.is_closed()
    assert "request that has no answer failed" in peer.listener.metrics.connections_closed


@on_loop
async def test_a_connection_that_is_told_to_stop_answers_what_waits_and_handles_nothing_more(handled: Handled) -> None:
    peer = await connected()
    await peer.send(metadata(1))
    await until(lambda: len(handled.waiting) == 1)
    peer.connection.stop_reading()
    await peer.send(heartbeat(2))
    handled.waiting[0].set_result(no_brokers())
    assert await peer.receive_ids(1) == [1]
    assert await is_quiet(lambda: handled.members == [])
    assert peer.connection.is_drained


# Time, without waiting for it


@on_loop
async def test_a_frame_that_does_not_arrive_closes_the_connection_after_its_time(handled: Handled) -> None:
    peer = await connected(BrokerConfig(frame_timeout_ms=5_000, connections_max_idle_ms=60_000))
    await peer.send(heartbeat(1)[:9])
    await until(lambda: peer.connection._frame_since is not None)
    now = peer.listener.loop.time()
    peer.connection.check_time(now + 4.5)
    assert not has_ended(peer)
    peer.connection.check_time(now + 6)
    assert await peer.is_closed()
    assert "request did not arrive in time" in peer.listener.metrics.connections_closed


@on_loop
async def test_an_idle_connection_is_closed_after_its_time_and_a_waiting_one_is_not(handled: Handled) -> None:
    config = BrokerConfig(connections_max_idle_ms=5_000)
    idle, waiting = await connected(config), await connected(config)
    await waiting.send(metadata(1))
    await until(lambda: len(handled.waiting) == 1)
    now = idle.listener.loop.time()
    for peer in (idle, waiting):
        peer.connection.check_time(now + 4.5)
        peer.connection.check_time(now + 6)
    assert await idle.is_closed()
    handled.waiting[0].set_result(no_brokers())
    assert await waiting.receive_ids(1) == [1]
    waiting.connection.check_time(now + 10)
    assert not has_ended(waiting), "its time begins with the end of its long poll"
    waiting.connection.check_time(now + 16)
    assert await waiting.is_closed()


@on_loop
async def test_a_peer_that_takes_nothing_is_idle_and_one_that_takes_a_little_is_not(handled: Handled) -> None:
    peer = await connected(BrokerConfig(connections_max_idle_ms=5_000))
    await peer.send(b"".join(heartbeat(1, "large") for _ in range(10)))
    await until(lambda: peer.connection._outbox.unsent_bytes > 300_000)
    now = peer.listener.loop.time()
    peer.connection.check_time(now + 4)
    taken = peer.connection._outbox.sent_bytes
    await peer.receive(taken - 1)
    await until(lambda: peer.connection._outbox.sent_bytes > taken)
    peer.connection.check_time(now + 8)
    assert not has_ended(peer)
    peer.connection.check_time(now + 14)
    await until(lambda: has_ended(peer))


# Who is let in


@on_loop
async def test_a_connection_too_many_is_closed_and_leaves_the_others_alone(handled: Handled) -> None:
    listener = listener_of(BrokerConfig(max_connections=2))
    first, second = await Peer.connect(listener), await Peer.connect(listener)
    third = await Peer.connect(listener)
    assert await third.is_closed()
    assert len(listener.connections) == 2
    for peer in (first, second):
        await peer.send(heartbeat(1))
        assert decoded(await peer.receive_frame()).error_code == 0
    first.socket.close()
    await until(lambda: len(listener.connections) == 1)
    fourth = await Peer.connect(listener)
    await fourth.send(heartbeat(4))
    assert await fourth.receive_ids(1) == [4]


@on_loop
async def test_a_stopping_listener_waits_for_answers_and_then_closes_everything(handled: Handled) -> None:
    listener = listener_of(CONFIG)
    port = await listener.start("127.0.0.1", 0, Connection)
    assert port > 0
    slow, idle = await Peer.connect(listener), await Peer.connect(listener)
    await slow.send(metadata(1))
    await until(lambda: len(handled.waiting) == 1)
    stopping = asyncio.create_task(listener.stop(timeout=60))
    assert await is_quiet(lambda: not stopping.done())
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    handled.waiting[0].set_result(no_brokers())
    assert await slow.receive_ids(1) == [1]
    await stopping
    assert await slow.is_closed()
    assert await idle.is_closed()
    await until(lambda: not listener.connections)


@on_loop
async def test_a_stopping_listener_does_not_wait_longer_than_it_may(handled: Handled) -> None:
    listener = listener_of(CONFIG)
    await listener.start("127.0.0.1", 0, Connection)
    peer = await Peer.connect(listener)
    await peer.send(metadata(1))
    await until(lambda: len(handled.waiting) == 1)
    await asyncio.wait_for(listener.stop(timeout=0.05), 5)
    assert await peer.is_closed()
