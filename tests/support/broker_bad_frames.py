"""Bytes that are no request: the only right answer of a broker is the end of the connection.

They include the table of hostile inputs of the protocol's own tests, as far as those are requests.
"""

from __future__ import annotations

import inspect
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kafkalite.protocol.api import APIS, ApiKey, encode_request
from kafkalite.protocol.headers import RequestHeader
from tests.support.broker_bad_values import HONEST
from tests.unit.protocol.hostile_inputs import HOSTILE_INPUTS


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(key: int, version: int) -> bytes:
    flexible = key in APIS and version >= APIS[key].request_header_flexible_from
    return struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"")


@dataclass(frozen=True, slots=True)
class BadFrame:
    """Bytes to send; then the sender goes away, as many of them are only the beginning of something."""

    name: str
    data: bytes
    may_be_answered: bool = False
    """It is a whole request with bytes after it, which Kafka does not look at."""


def _of_the_protocol_tests() -> Iterator[BadFrame]:
    """Those whose bytes are a request, or the beginning of a frame."""
    keys = {api.request: api.key for api in APIS.values()}
    for case in HOSTILE_INPUTS:
        if isinstance(case.read, partial):
            if getattr(case.read.func, "__name__", "") == "feed":
                yield BadFrame(case.name, case.read.args[0])
            continue
        inner = inspect.getclosurevars(case.read).nonlocals
        if "frame" in inner:
            yield BadFrame(case.name, framed(inner["frame"]))
        elif inner.get("cls") in keys:
            key, version = keys[inner["cls"]], inner["version"]
            is_surplus = "too many" in case.name
            yield BadFrame(case.name, framed(_header(key, version) + inner["wire"]), is_surplus)


def _of_each_api() -> Iterator[BadFrame]:
    rng = random.Random("hostile frames")
    for key, api in APIS.items():
        for version in (api.min_version - 1, api.max_version + 1, -1, 32_767):
            if key != ApiKey.API_VERSIONS:
                yield BadFrame(f"{api.name} v{version}, which there is not", framed(_header(key, version)))
        for version in {api.min_version, api.max_version}:
            is_surplus = version == 0 and key in (ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS)  # they have no fields
            for what, body in (("noise", rng.randbytes(2_000)), ("all ones", b"\xff" * 300)):
                yield BadFrame(f"{api.name} v{version}: {what}", framed(_header(key, version) + body), is_surplus)
    for key in (-1, 4, 99, 1_000, 32_767, -32_768):
        yield BadFrame(f"API {key}, which there is not", framed(struct.pack(">hhih", key, 0, 7, -1)))


def _of_honest_requests() -> Iterator[BadFrame]:
    """Honest requests, cut, lengthened, and with a wrong size."""
    for request in HONEST:
        name = type(request).__name__
        api = next(api for api in APIS.values() if isinstance(request, api.request))
        frame = encode_request(RequestHeader(api.key, api.max_version, 7, None), request)
        body = frame[4:]
        yield BadFrame(f"{name}, cut in the middle", framed(body[: 14 + (len(body) - 14) // 2]))
        yield BadFrame(f"{name}, without its last byte", framed(body[:-1]))
        yield BadFrame(f"{name}, and a thousand bytes that do not belong to it", framed(body + b"x" * 1_000), True)
        yield BadFrame(f"{name}, and its sender goes away before the end", frame[:-1])
        yield BadFrame(f"{name}, and a size that is one too large", struct.pack(">i", len(body) + 1) + body)


def _sizes() -> Iterator[BadFrame]:
    for size in (0, 1, 7, 9, -1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1):
        yield BadFrame(f"a frame of {size} bytes", struct.pack(">i", size) + bytes(max(0, min(size, 9))))
    for text in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-x\r\n",
        b"\0",
        b"\0\0\0",
    ):
        yield BadFrame(f"another protocol: {text[:8]!r}", text)


BAD_FRAMES = [*_of_the_protocol_tests(), *_of_each_api(), *_of_honest_requests(), *_sizes()]
