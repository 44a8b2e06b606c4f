"""The wire's primitive values: their names in a schema, and the code shared by all generated codecs.

The upper half has the annotations with which message classes are written (`Int32`, `Records`, …). The lower
half reads and writes what is not of constant width. Everything is big-endian.

Invariant: no reader here allocates anything before the length that it was told is checked against the bytes
that are really there, and a reader raises nothing but `MalformedMessage` and `IndexError` (the end of the data,
which the caller of a generated decoder turns into a `MalformedMessage` too).

    legacy                                     flexible ("compact")
    string   int16 length, UTF-8               uvarint length + 1, UTF-8
    bytes    int32 length, bytes               uvarint length + 1, bytes
    array    int32 count, elements             uvarint count + 1, elements
    null     length -1                         length 0
    tags     —                                 uvarint count, then per tag: uvarint tag, uvarint size, bytes
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeAlias

from kafkalite.errors import MalformedMessage

# ---------------------------------------------------------------- names of types, for annotations in schemas


@dataclass(frozen=True, slots=True)
class Fixed:
    """The marker of a value of constant width: its `struct` format character."""

    format: str


class RecordsMarker:
    """The marker of a field that carries record batches, which are never copied."""


Int8: TypeAlias = Annotated[int, Fixed("b")]
Int16: TypeAlias = Annotated[int, Fixed("h")]
Int32: TypeAlias = Annotated[int, Fixed("i")]
Int64: TypeAlias = Annotated[int, Fixed("q")]
UInt16: TypeAlias = Annotated[int, Fixed("H")]
UInt32: TypeAlias = Annotated[int, Fixed("I")]
Float64: TypeAlias = Annotated[float, Fixed("d")]

BytesLike: TypeAlias = bytes | bytearray | memoryview


class FileRange(Protocol):
    """Bytes that are still in a file, to be sent by `sendfile`; the protocol only needs to know how many."""

    @property
    def length(self) -> int: ...


Records: TypeAlias = Annotated[BytesLike, RecordsMarker]
RecordsOrFileRange: TypeAlias = Annotated[BytesLike | FileRange, RecordsMarker]

Piece: TypeAlias = BytesLike | FileRange
"""A part of an encoded message: bytes, or a file range that the server sends in their place."""

Hole: TypeAlias = tuple[int, Piece]
"""What belongs into an encoded message at a position of its buffer, without having been copied into it."""

ZERO_UUID: Final = uuid.UUID(int=0)
"""Kafka's "no id"."""

# ---------------------------------------------------------------- limits

MAX_STRING_BYTES: Final = 32_767
"""Legacy strings cannot be longer, so compact ones must not be: any string read can be written in any version."""

MAX_TAGS: Final = 64
"""Tagged fields in one struct. No message here knows more than four; a tag costs 2 bytes to send and 100 to keep."""

INLINE_RECORDS_BYTES: Final = 2_048
"""Records up to this size are copied into the message: cheaper than one more piece to send."""

FREE_STRUCTS: Final = 1_024
BYTES_PER_STRUCT: Final = 4
MAX_STRUCTS: Final = 1_000_000
"""How many structs a message may hold in all its arrays: some in any case and one for each four bytes, up to a maximum.
A struct of two bytes on the wire becomes an object of more than a hundred, so a frame of some megabytes could ask for
gigabytes. Structs of real messages are longer than four bytes on average, except in small messages."""


# ---------------------------------------------------------------- reading


def read_uvarint(data: BytesLike, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 32 bits; returns the value and the position after it."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    byte = data[position + 1]
    value += (byte - 1) << 7  # the 1 takes back the first byte's continuation bit
    if byte < 0x80:
        return value, position + 2
    for length in (3, 4, 5):
        byte = data[position + length - 1]
        value += (byte - 1) << 7 * (length - 1)
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise MalformedMessage(f"varint {value} does not fit into 32 bits")
            return value, position + length
    raise MalformedMessage("varint is longer than 5 bytes")


def read_uvarlong(data: BytesLike, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 64 bits; returns the value and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF_FFFF_FFFF:
                raise MalformedMessage(f"varint {value} does not fit into 64 bits")
            return value, position
    raise MalformedMessage("varint is longer than 10 bytes")


def read_tags(data: BytesLike, position: int, end: int) -> tuple[dict[int, bytes], int]:
    """Reads a struct's tagged fields, whose tags must ascend; returns them raw, and the position after them."""
    count, position = read_uvarint(data, position)
    if count > MAX_TAGS:
        raise MalformedMessage(f"{count} tagged fields; at most {MAX_TAGS} are accepted")
    tags: dict[int, bytes] = {}
    previous = -1
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        if tag <= previous:
            raise MalformedMessage(f"tag {tag} follows tag {previous}; tags must ascend")
        size, position = read_uvarint(data, position)
        if size > end - position:
            raise MalformedMessage(f"tag {tag} has {size} bytes, but {end - position} remain")
        tags[tag] = bytes(data[position : position + size])
        position += size
        previous = tag
    return tags, position


def read_uuid(raw: bytes) -> uuid.UUID:
    """Makes an id of its 16 bytes; the zero id is always the same object, because it is by far the most frequent."""
    return uuid.UUID(bytes=raw) if any(raw) else ZERO_UUID


def bad_length(length: int, remaining: int) -> MalformedMessage:
    """The error for a string or bytes field that is null where it may not be, or longer than the data."""
    if length < 0:
        return MalformedMessage(f"length {length}, but the field is not nullable or the length is not a null's")
    return MalformedMessage(f"length {length} exceeds the {remaining} bytes that remain or the limit of its type")


def bad_count(count: int, remaining: int) -> MalformedMessage:
    """The error for an array that is null where it may not be, or has more elements than the data can hold."""
    if count < 0:
        return MalformedMessage(f"count {count}, but the array is not nullable or the count is not a null's")
    return MalformedMessage(f"{count} elements cannot be in the {remaining} bytes that remain")


def too_many_structs(count: int, message_bytes: int) -> MalformedMessage:
    """The error for a message whose objects would take far more memory than its bytes."""
    return MalformedMessage(f"{count} more structs are too many for a message of {message_bytes} bytes")


def trailing_bytes(count: int) -> MalformedMessage:
    """The error for bytes that follow a complete value."""
    return MalformedMessage(f"{count} bytes too many follow")


# ---------------------------------------------------------------- writing


def uvarint(value: int) -> bytes:
    """The unsigned varint of a value that is not negative."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_tags(out: bytearray, tags: Mapping[int, BytesLike]) -> None:
    """Appends tagged fields in the ascending order that the protocol demands."""
    out += uvarint(len(tags))
    for tag in sorted(tags):
        value = tags[tag]
        out += uvarint(tag)
        out += uvarint(len(value))
        out += value


def piece_length(piece: Piece) -> int:
    """How many bytes a piece of a message is."""
    return len(piece) if isinstance(piece, bytes | bytearray | memoryview) else piece.length


def write_records(out: bytearray, holes: list[Hole], records: Piece | None, compact: bool) -> None:
    """Appends the length of records, and the records themselves: small ones as bytes, others as a hole."""
    if records is None:
        out += b"\x00" if compact else b"\xff\xff\xff\xff"
        return
    length = piece_length(records)
    out += uvarint(length + 1) if compact else length.to_bytes(4, "big")
    if length <= INLINE_RECORDS_BYTES and isinstance(records, bytes | bytearray | memoryview):
        out += records
    else:
        holes.append((len(out), records))
