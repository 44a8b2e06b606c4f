"""A table of bytes that no honest peer sends: each with what reads it, and what must be said about it.

Small messages with one field each make the place of the damage plain; the last groups use real messages, headers and
frames. Version 0 of the small messages has the legacy forms, version 1 the compact ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kafkalite.protocol import api, primitives
from kafkalite.protocol.frames import FrameDecoder
from kafkalite.protocol.headers import decode_response_header
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.protocol.schema import Int32, Int64, Message, Records, Struct, field


@dataclass(frozen=True, slots=True)
class Hostile:
    """One input: what reads it, and a pattern of what must be said."""

    name: str
    read: Callable[[], object]
    complaint: str


class Text(Message, versions=(0, 1), flexible_from=1):
    text: str


class MaybeText(Message, versions=(0, 1), flexible_from=1):
    text: str | None


class Blob(Message, versions=(0, 1), flexible_from=1):
    blob: bytes


class MaybeBlob(Message, versions=(0, 1), flexible_from=1):
    blob: bytes | None


class Batches(Message, versions=(0, 1), flexible_from=1):
    batches: Records


class MaybeBatches(Message, versions=(0, 1), flexible_from=1):
    batches: Records | None


class Numbers(Message, versions=(0, 1), flexible_from=1):
    numbers: Sequence[Int64]


class Texts(Message, versions=(0, 1), flexible_from=1):
    texts: Sequence[str]


class MaybeTexts(Message, versions=(0, 1), flexible_from=1):
    texts: Sequence[str] | None


class Element(Struct):
    name: str


class Elements(Message, versions=(0, 1), flexible_from=1):
    elements: Sequence[Element]


class Marked(Message, versions=(0, 1), flexible_from=1):
    number: Int32 = field(since=1, tag=2, default=0)
    text: str = field(since=1, tag=4, default="")


BAD_UTF8 = {
    "lone byte": b"\xff",
    "lone continuation": b"\x80",
    "overlong zero": b"\xc0\x80",
    "surrogate": b"\xed\xa0\x80",
    "cut short": b"\xe6\x97",
    "beyond unicode": b"\xf4\x90\x80\x80",
}
LONG_VARINTS = {
    "six bytes": (b"\x80\x80\x80\x80\x80\x01", "varint is longer than 5 bytes"),
    "endless": (b"\xff" * 50, "varint is longer than 5 bytes"),
    "33 bits": (b"\xff\xff\xff\xff\x1f", "does not fit into 32 bits"),
    "35 bits": (b"\x80\x80\x80\x80\x7f", "does not fit into 32 bits"),
    "cut after one byte": (b"\x80", "ends too early"),
    "cut after four bytes": (b"\xff\xff\xff\xff", "ends too early"),
}


def _reads(cls: type[Message], version: int, wire: bytes) -> Callable[[], object]:
    return lambda: cls.decode(wire, version)


def legacy_lengths() -> Iterator[Hostile]:
    """Lengths in int16 and int32 that cannot be."""
    for cls, width, nullable in (
        (Text, 2, False),
        (MaybeText, 2, True),
        (Blob, 4, False),
        (MaybeBlob, 4, True),
        (Batches, 4, False),
        (MaybeBatches, 4, True),
        (Numbers, 4, False),
        (Texts, 4, False),
        (MaybeTexts, 4, True),
        (Elements, 4, False),
    ):
        limit = 1 << (8 * width - 1)
        for length in (-1, -2, -limit, 2, 100, limit - 1):
            if length == -1 and nullable:
                continue
            wire = length.to_bytes(width, "big", signed=True) + b"a"
            yield Hostile(f"{cls.__name__} of legacy length {length}", _reads(cls, 0, wire), rf"v0, \w+ .*{length}\b")
        yield Hostile(f"{cls.__name__} without its length", _reads(cls, 0, b"\0"), "ends too early")


def compact_lengths() -> Iterator[Hostile]:
    """Lengths in varints that cannot be."""
    for cls, nullable in (
        (Text, False),
        (MaybeText, True),
        (Blob, False),
        (MaybeBlob, True),
        (Batches, False),
        (MaybeBatches, True),
        (Numbers, False),
        (Texts, False),
        (MaybeTexts, True),
        (Elements, False),
    ):
        if not nullable:
            yield Hostile(f"{cls.__name__} that is null", _reads(cls, 1, b"\0\0"), "-1, but .* not nullable")
        for length in (3, 127, 128, 20_000, 2**31 - 1, 2**32 - 2):
            wire = primitives.uvarint(length + 1) + b"a"
            yield Hostile(f"{cls.__name__} of compact length {length}", _reads(cls, 1, wire), rf"v1, \w+ .*{length}\b")
        for what, (varint, complaint) in LONG_VARINTS.items():
            yield Hostile(f"{cls.__name__} with varint: {what}", _reads(cls, 1, varint), complaint)
    too_long = primitives.uvarint(32_769) + b"a" * 32_768 + b"\0"
    yield Hostile("Text longer than a legacy string can be", _reads(Text, 1, too_long), "limit of its type")


def long_varints() -> Iterator[Hostile]:
    """Varints of 64 bits, which no message has, but which are read by the same rules."""
    for what, wire, complaint in (
        ("eleven bytes", b"\x80" * 10 + b"\x01", "longer than 10 bytes"),
        ("endless", b"\xff" * 50, "longer than 10 bytes"),
        ("65 bits", b"\xff" * 9 + b"\x02", "does not fit into 64 bits"),
    ):
        yield Hostile(f"long varint: {what}", partial(primitives.read_uvarlong, wire, 0), complaint)


def texts() -> Iterator[Hostile]:
    """Text that is not UTF-8."""
    for what, raw in BAD_UTF8.items():
        legacy, compact = len(raw).to_bytes(2, "big") + raw, primitives.uvarint(len(raw) + 1) + raw
        for cls in (Text, MaybeText):
            yield Hostile(f"{cls.__name__} legacy, {what}", _reads(cls, 0, legacy), "text at byte .* invalid UTF-8")
            yield Hostile(f"{cls.__name__} compact, {what}", _reads(cls, 1, compact + b"\0"), "text .* invalid UTF-8")
        yield Hostile(f"Texts, {what}", _reads(Texts, 1, b"\x02" + compact + b"\0"), "texts .* invalid UTF-8")
        yield Hostile(f"Element, {what}", _reads(Elements, 1, b"\x02" + compact + b"\0\0"), "elements.name .* UTF-8")
        tagged = b"\x01\x04" + primitives.uvarint(len(compact)) + compact
        yield Hostile(f"tagged text, {what}", _reads(Marked, 1, tagged), "text .* invalid UTF-8")


def tags() -> Iterator[Hostile]:
    """Tagged fields that break their rules."""
    thousands = b"".join(primitives.uvarint(tag) + b"\0" for tag in range(5_000))
    for what, wire, complaint in (
        ("missing", b"", "ends too early"),
        ("count without tags", b"\x01", "ends too early"),
        ("tag without size", b"\x01\x00", "ends too early"),
        ("size without bytes", b"\x01\x00\x05", "tag 0 has 5 bytes, but 0 remain"),
        ("huge size", b"\x01\x00\xff\xff\xff\xff\x0f", "tag 0 has 4294967295 bytes"),
        ("huge count", b"\xff\xff\xff\xff\x0f", "4294967295 tagged fields"),
        ("one too many", b"\x41" + thousands[: 65 * 2], "65 tagged fields; at most 64"),
        ("thousands", primitives.uvarint(5_000) + thousands, "5000 tagged fields"),
        ("duplicate", b"\x02\x07\0\x07\0", "tag 7 follows tag 7"),
        ("duplicate known", b"\x02\x02\x04\0\0\0\x01\x02\x04\0\0\0\x01", "tag 2 follows tag 2"),
        ("descending", b"\x02\x09\0\x08\0", "tag 8 follows tag 9"),
        ("known, too short", b"\x01\x02\x03\0\0\0", "number .* ends too early"),
        ("known, too long", b"\x01\x02\x05\0\0\0\0\0", "number .* 1 bytes too many"),
        ("known, empty", b"\x01\x02\x00", "number .* ends too early"),
        ("known, null", b"\x01\x04\x01\x00", "text .* not nullable"),
        ("known, inner length too large", b"\x01\x04\x02\x09a", "text .* length 8"),
        ("bytes after", b"\x00\x00", "end of message .* 1 bytes too many"),
    ):
        yield Hostile(f"tags: {what}", _reads(Marked, 1, wire), complaint)
    for what, (varint, complaint) in LONG_VARINTS.items():
        yield Hostile(f"tags: count is a varint of {what}", _reads(Marked, 1, varint), complaint)
        yield Hostile(f"tags: tag is a varint of {what}", _reads(Marked, 1, b"\x01" + varint), complaint)
        yield Hostile(f"tags: size is a varint of {what}", _reads(Marked, 1, b"\x01\x09" + varint), complaint)


def real_messages() -> Iterator[Hostile]:
    """Whole messages of the protocol, with one thing wrong."""
    huge = b"\xff\xff\xff\xff\x0f"
    tiny_structs = primitives.uvarint(200_001) + b"\x01\0" * 200_000 + b"\0"
    for what, cls, version, wire, complaint in (
        ("many structs of two bytes", Elements, 1, tiny_structs, "too many for a message"),
        ("nothing at all", ProduceRequest, 9, b"", "transactional_id .* ends too early"),
        ("topics without end", ProduceRequest, 9, b"\0\0\1\0\0\0\1" + huge, "topic_data .* 4294967294 elements"),
        ("topics without end, legacy", ProduceRequest, 3, b"\xff\xff\0\1\0\0\0\1\x7f\xff\xff\xff", "topic_data"),
        ("null topics", ProduceRequest, 9, b"\0\0\1\0\0\0\1\0\0", "topic_data .* not nullable"),
        ("records without end", ProduceRequest, 9, b"\0\0\1\0\0\0\1\2\2t\2\0\0\0\0" + huge, "partition_data.records"),
        (
            "negative records",
            ProduceRequest,
            3,
            b"\xff\xff\0\1\0\0\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\0\0\0",
            "records",
        ),
        ("topics without end", FetchRequest, 12, bytes(25) + huge, "topics .* 4294967294 elements"),
        ("cut in the fixed part", FetchRequest, 12, bytes(24), "replica_id … topics .* ends too early"),
        ("topics without end", MetadataRequest, 12, huge, "topics .* 4294967294 elements"),
        ("null topics in version 0", MetadataRequest, 0, b"\xff\xff\xff\xff", "topics .* not nullable"),
        ("count -2", MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics .* count -2"),
        ("brokers without end", MetadataResponse, 12, bytes(4) + huge, "brokers .* 4294967294 elements"),
        ("responses without end", FetchResponse, 12, bytes(10) + huge, "responses .* 4294967294 elements"),
        ("protocols without end", JoinGroupRequest, 0, b"\0\0\0\0\0\0\0\0\0\0\x7f\xff\xff\xff", "protocols"),
        ("topics without end", CreateTopicsRequest, 2, b"\x7f\xff\xff\xff", "topics .* 2147483647 elements"),
        ("one byte too many", ListGroupsRequest, 0, b"\0", "end of message .* 1 bytes too many"),
        ("a megabyte too many", ListGroupsRequest, 0, bytes(1 << 20), "1048576 bytes too many"),
    ):
        yield Hostile(f"{cls.__name__} v{version}: {what}", _reads(cls, version, wire), complaint)
    for payload in (b"", b"\0", b"\xff\xff", b"\x80\0\0\0\0\0"):
        yield Hostile(
            f"subscription {payload!r}",
            partial(ConsumerProtocolSubscription.from_bytes, payload),
            "no version",
        )
    endless = b"\0\0\x7f\xff\xff\xff"
    yield Hostile("assignment without end", lambda: ConsumerProtocolAssignment.from_bytes(endless), "elements")


def headers() -> Iterator[Hostile]:
    """Request and response headers."""

    def request(frame: bytes) -> Callable[[], object]:
        return lambda: api.decode_request(frame)

    heartbeat_v4 = b"\0\x0c\0\4\0\0\0\1"
    for size in range(10):
        yield Hostile(f"request header of {size} bytes", request(bytes(size)), f"frame of {size} bytes is too short")
    for length in (-2, -32_768, 1, 32_767):
        frame = heartbeat_v4 + length.to_bytes(2, "big", signed=True)
        yield Hostile(f"client_id of length {length}", request(frame), f"client_id: length {length}")
    for what, raw in BAD_UTF8.items():
        frame = heartbeat_v4 + len(raw).to_bytes(2, "big") + raw + b"\0"
        yield Hostile(f"client_id: {what}", request(frame), "client_id: invalid UTF-8")
    for what, wire, complaint in (
        ("missing", b"", "ends too early"),
        ("duplicate", b"\2\1\0\1\0", "header, tagged fields: tag 1 follows tag 1"),
        ("without end", b"\xff\xff\xff\xff\x0f", "header, tagged fields: 4294967295 tagged fields"),
        ("cut", b"\1\1\x09a", "header, tagged fields: tag 1 has 9 bytes"),
    ):
        yield Hostile(f"tags of request header: {what}", request(heartbeat_v4 + b"\xff\xff" + wire), complaint)
    yield Hostile("response header of 3 bytes", lambda: decode_response_header(bytes(3), False), "too short")
    yield Hostile("response header without tags", lambda: decode_response_header(bytes(4), True), "ends too early")


def frames() -> Iterator[Hostile]:
    """Frame sizes."""
    for size in (-1, -2, -(2**31)):
        prefix = size.to_bytes(4, "big", signed=True)
        yield Hostile(f"frame size {size}", partial(FrameDecoder().feed, prefix), "negative")
    for size in (104_857_601, 2**31 - 1, int.from_bytes(b"GET ", "big")):
        prefix = size.to_bytes(4, "big")
        yield Hostile(f"frame size {size}", partial(FrameDecoder().feed, prefix), f"size {size} exceeds")


HOSTILE_INPUTS = [
    *legacy_lengths(),
    *compact_lengths(),
    *long_varints(),
    *texts(),
    *tags(),
    *real_messages(),
    *headers(),
    *frames(),
]
