"""How a message of the protocol is written down, once, for all its versions.

    class FetchPartition(Struct):
        partition: Int32
        current_leader_epoch: Int32 = field(since=9, default=-1)
        fetch_offset: Int64

    class FetchRequest(Message, versions=(4, 12), flexible_from=12):
        cluster_id: str | None = field(since=12, tag=0, default=None)
        topics: Sequence[FetchPartition]

Types: `Int8`…`Int64`, `UInt16`, `UInt32`, `Float64`, `bool`, `str`, `bytes`, `uuid.UUID`, `Records`, `Sequence[…]`,
another struct, and `… | None` for what may be null. Classes are slotted dataclasses with keyword-only arguments; the
order of their fields is the order on the wire. For each version the first use compiles an encoder and a decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar

from kafkalite.protocol.decoder import DecodeFunction, compile_decoder
from kafkalite.protocol.encoder import EncodeFunction, compile_encoder
from kafkalite.protocol.layout import Struct, field
from kafkalite.protocol.primitives import (
    ZERO_UUID,
    BytesLike,
    FileRange,
    Float64,
    Hole,
    Int8,
    Int16,
    Int32,
    Int64,
    Piece,
    Records,
    RecordsOrFileRange,
    UInt16,
    UInt32,
)

__all__ = [
    "ZERO_UUID",
    "BytesLike",
    "FileRange",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Message",
    "Piece",
    "Records",
    "RecordsOrFileRange",
    "Struct",
    "UInt16",
    "UInt32",
    "field",
]

C = TypeVar("C")


class _PerVersion(dict[int, C], Generic[C]):
    """Something made once per version of a message class, when it is first asked for."""

    def __init__(self, make: Callable[[int], C]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, version: int) -> C:
        made = self[version] = self._make(version)
        return made


class Message(Struct):
    """A struct that travels alone: a request, a response, or a payload inside of one."""

    versions: ClassVar[tuple[int, int]]
    """The first and last version that this class describes."""

    flexible_from: ClassVar[int | None]
    """The first version with compact forms and tagged fields; None if there is none."""

    _encoders: ClassVar[_PerVersion[EncodeFunction[Any]]]
    _decoders: ClassVar[_PerVersion[DecodeFunction[Any]]]

    def __init_subclass__(cls) -> None:
        cls._encoders = _PerVersion(lambda version: compile_encoder(cls, version, cls.is_flexible(version)))
        cls._decoders = _PerVersion(lambda version: compile_decoder(cls, version, cls.is_flexible(version)))

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether the version uses compact forms and tagged fields; an error if the message has no such version."""
        first, last = cls.versions
        if not first <= version <= last:
            raise ValueError(f"{cls.__name__} has the versions {first} to {last}, not {version}")
        return cls.flexible_from is not None and version >= cls.flexible_from

    @classmethod
    def decode(cls, data: BytesLike, version: int, start: int = 0, exact: bool = True) -> Self:
        """Reads the message at `start`, which ends where `data` ends if it is `exact`; or raises `MalformedMessage`."""
        message: Self = cls._decoders[version](data, start, exact)
        return message

    def encode(self, version: int) -> bytes:
        """The bytes of the message. Records must be in memory."""
        out = bytearray()
        holes: list[Hole] = []
        self._encoders[version](self, out, holes)
        return bytes(out) if not holes else join_pieces(split_at_holes(out, holes))

    def encode_into(self, version: int, out: bytearray, holes: list[Hole]) -> None:
        """Appends the message to `out`, except for what `holes` says to insert."""
        self._encoders[version](self, out, holes)


def split_at_holes(out: bytearray, holes: list[Hole]) -> list[Piece]:
    """Puts bytes and holes in the order in which they are sent; nothing is copied."""
    view = memoryview(out)
    pieces: list[Piece] = []
    sent = 0
    for position, records in holes:
        pieces += (view[sent:position], records)
        sent = position
    if sent < len(view):
        pieces.append(view[sent:])
    return pieces


def join_pieces(pieces: list[Piece]) -> bytes:
    """Copies pieces into one bytes object, which is possible when none of them is a file range."""
    in_memory = [piece for piece in pieces if isinstance(piece, bytes | bytearray | memoryview)]
    if len(in_memory) != len(pieces):
        raise TypeError("a message with file ranges cannot be one bytes object; send its pieces")
    return b"".join(in_memory)
