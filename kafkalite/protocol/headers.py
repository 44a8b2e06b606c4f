"""The headers before each request and response.

    request v1    api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string
    request v2    the same, then tagged fields
    response v0   correlation_id int32
    response v1   the same, then tagged fields

Flexible versions of an API have request header v2 and response header v1. Two exceptions are part of the protocol:
`client_id` is a legacy string (int16 length) even in v2, and the response to ApiVersions always has header v0, because
a client must be able to read it before it knows what the broker speaks. Request header v0 had no client id, and
nothing in use today sends it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kafkalite.errors import MalformedMessage
from kafkalite.protocol.primitives import BytesLike, read_tags, write_tags

_REQUEST: Final = struct.Struct(">hhih")


@dataclass(slots=True)
class RequestHeader:
    """Who asks for what. `api_key` is a plain number, because a peer may send any."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    unknown_tags: dict[int, bytes] | None = None


@dataclass(slots=True)
class ResponseHeader:
    """Which request is answered."""

    correlation_id: int
    unknown_tags: dict[int, bytes] | None = None


def decode_request_header(frame: BytesLike) -> tuple[RequestHeader, int]:
    """Reads all but the tagged fields, which only some APIs' headers have; returns also where they would begin."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
    except struct.error:
        raise MalformedMessage(f"request header: a frame of {len(frame)} bytes is too short for one") from None
    if length == -1:
        return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST.size
    end = _REQUEST.size + length
    if length < 0 or end > len(frame):
        raise MalformedMessage(
            f"request header, client_id: length {length}, but {len(frame) - _REQUEST.size} bytes remain"
        )
    try:
        client_id = str(frame[_REQUEST.size : end], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"request header, client_id: invalid UTF-8: {error}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), end


def decode_header_tags(frame: BytesLike, start: int) -> tuple[dict[int, bytes] | None, int]:
    """Reads the tagged fields of a header; returns also where the message begins."""
    try:
        if frame[start] == 0:
            return None, start + 1
        return read_tags(frame, start, len(frame))
    except IndexError:
        raise MalformedMessage("header, tagged fields: the frame ends too early") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"header, tagged fields: {error}") from None


def decode_response_header(frame: BytesLike, flexible: bool) -> tuple[ResponseHeader, int]:
    """Reads a response header; returns also where the message begins."""
    if len(frame) < 4:
        raise MalformedMessage(f"response header: a frame of {len(frame)} bytes is too short for one")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if not flexible:
        return ResponseHeader(correlation_id), 4
    tags, start = decode_header_tags(frame, 4)
    return ResponseHeader(correlation_id, tags), start


def append_request_header(out: bytearray, header: RequestHeader, flexible: bool) -> None:
    """Writes a request header."""
    client_id = None if header.client_id is None else header.client_id.encode()
    length = -1 if client_id is None else len(client_id)
    out += _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, length)
    out += client_id or b""
    if flexible:
        write_tags(out, header.unknown_tags or {})


def append_response_header(out: bytearray, correlation_id: int, flexible: bool) -> None:
    """Writes a response header; we have no tagged fields to send in it."""
    out += correlation_id.to_bytes(4, "big", signed=True)
    if flexible:
        out.append(0)
