"""Hostile bytes give `MalformedMessage`, nothing else, and take no memory to speak of."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import pytest

from kafkalite.errors import MalformedMessage
from kafkalite.protocol import api
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.schema import Message
from tests.unit.protocol.hostile_inputs import HOSTILE_INPUTS, Hostile
from tests.unit.protocol.kio_bridge import kio_class, kio_encode, message_versions, random_kio, to_ours

MAX_PEAK_BYTES = 1 << 20
CASES = [pytest.param(cls, version, id=f"{cls.__name__}-v{version}") for cls, version in message_versions()]


@pytest.mark.parametrize("hostile", [pytest.param(each, id=each.name) for each in HOSTILE_INPUTS])
def test_hostile_input_is_malformed_and_takes_no_memory(hostile: Hostile) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match=hostile.complaint):
            hostile.read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_PEAK_BYTES


def test_there_are_enough_hostile_inputs_and_no_two_are_the_same() -> None:
    assert len(HOSTILE_INPUTS) >= 200
    assert len({each.name for each in HOSTILE_INPUTS}) == len(HOSTILE_INPUTS)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_a_message_cut_anywhere_is_malformed(cls: type[Message], version: int) -> None:
    rng = random.Random(f"cut {cls.__name__} {version}")
    wire = kio_encode(random_kio(kio_class(cls, version), rng))
    places = range(len(wire)) if len(wire) < 400 else sorted(rng.sample(range(len(wire)), 400))
    for end in places:
        with pytest.raises(MalformedMessage, match=f"{cls.__name__} v{version}, .+ at byte"):
            cls.decode(wire[:end], version)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_a_message_with_trailing_bytes_is_malformed(cls: type[Message], version: int) -> None:
    wire = kio_encode(random_kio(kio_class(cls, version), random.Random(f"trailing {cls.__name__} {version}")))
    with pytest.raises(MalformedMessage, match="3 bytes too many"):
        cls.decode(wire + b"\0\0\0", version)


def test_mutated_requests_are_decoded_or_refused_but_never_anything_else(count: Callable[[int, int], int]) -> None:
    rng = random.Random("mutated requests")
    frames = [_request_frame(key, version, rng) for key, version in _requests() for _ in range(3)]
    outcomes = {True: 0, False: 0}
    for _ in range(count(8_000, 5_000_000)):
        frame = _mutated(rng.choice(frames), rng)
        try:
            api.decode_request(memoryview(frame))
        except (MalformedMessage, api.UnsupportedRequest):
            outcomes[False] += 1
        else:
            outcomes[True] += 1
    assert min(outcomes.values()) > 100, "mutations that always or never matter test nothing"


def test_mutated_responses_are_decoded_or_refused_but_never_anything_else(count: Callable[[int, int], int]) -> None:
    rng = random.Random("mutated responses")
    wires = [
        (cls, version, kio_encode(random_kio(kio_class(cls, version), rng)))
        for cls, version in message_versions()
        for _ in range(2)
    ]
    for _ in range(count(8_000, 5_000_000)):
        cls, version, wire = rng.choice(wires)
        try:
            decoded = cls.decode(_mutated(wire, rng), version)
        except MalformedMessage:
            continue
        assert cls.decode(decoded.encode(version), version) == decoded


def _requests() -> list[tuple[int, int]]:
    return [
        (each.key, version) for each in api.APIS.values() for version in range(each.min_version, each.max_version + 1)
    ]


def _request_frame(key: int, version: int, rng: random.Random) -> bytes:
    cls = api.APIS[key].request
    request = to_ours(random_kio(kio_class(cls, version), rng), cls, version)
    return api.encode_request(RequestHeader(key, version, 1, "fuzz"), request)[4:]


def _mutated(wire: bytes, rng: random.Random) -> bytearray:
    """One to four small damages."""
    data = bytearray(wire)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
            case 3:
                del data[at : at + rng.randint(1, 8)]
            case 4:
                data[at : at + 4] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"))
            case _:
                del data[at:]
    return data
