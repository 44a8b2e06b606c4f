"""Kafka's five codecs, by cramjam and zlib, with a hard bound on what comes out.

Whatever a peer's bytes claim, `decompress` returns at most `limit` bytes and never holds more than about
`limit` plus its input: zstd expands 32,000 : 1, so a produced megabyte could otherwise ask for 32 GB. Codecs do
not notice damage reliably; callers check the batch's CRC first. What leaves is `CorruptBatch` or `InvalidBatch`.

Two formats have a Kafka quirk each:

- snappy is written as Java does, in Xerial's framing, and read with or without it:

      +---------------------+-----------+------------+----------+-------+----------+-------+ ...
      | 82 'SNAPPY' 00      | version 1 | readable 1 | length   | block | length   | block |
      +---------------------+-----------+------------+----------+-------+----------+-------+ ...
       8 bytes               4           4            4                  4

- lz4 is a frame of independent blocks of 64 KB; Java's reader refuses linked ones (KIP-57).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_XERIAL_LENGTH: Final = struct.Struct(">i")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_GZIP_INPUT_BYTES: Final = 16 * 1024
_GZIP_OUTPUT_BYTES: Final = 256 * 1024
"""zlib copies what follows a member, and joins what it puts out, so both go in pieces."""

_FIRST_GUESS_BYTES: Final = 64 * 1024
_GROWTH: Final = 8
_OUTPUT_IS_FULL: Final = "failed to write whole buffer"
"""How cramjam tells a full output buffer from damaged input: the text of Rust's `WriteZero` error."""


class Codec(IntEnum):
    """A compression codec, by its bits in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        """The codec that Kafka's configuration calls `name`."""
        for codec in cls:
            if codec.kafka_name == name:
                return codec
        raise ValueError(f"no codec is called {name!r}; choose one of {', '.join(codec.kafka_name for codec in cls)}")

    @property
    def kafka_name(self) -> str:
        return self.name.lower()


def compress(codec: Codec, data: bytes | bytearray | memoryview) -> memoryview:
    if codec is Codec.NONE:
        return memoryview(data)
    if codec is Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=6))
    if codec is Codec.SNAPPY:
        return memoryview(_xerial_frame(memoryview(data)))
    if codec is Codec.LZ4:
        compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))
        return memoryview(compressor.finish())
    return memoryview(cramjam.zstd.compress(data, level=3))


def decompress(codec: int, data: bytes | bytearray | memoryview, limit: int) -> memoryview:
    """At most `limit` bytes. More is `MESSAGE_TOO_LARGE`, damage `CorruptBatch`, a codec that is none of the five
    `UNSUPPORTED_COMPRESSION_TYPE`."""
    view = memoryview(data)
    try:
        if codec == Codec.NONE:
            if len(view) > limit:
                raise _too_large(Codec.NONE, limit)
            return view
        if codec == Codec.GZIP:
            return _gunzip(view, limit)
        if codec == Codec.SNAPPY:
            return _unsnap(view, limit)
        if codec == Codec.LZ4:
            return _into_growing_buffer(Codec.LZ4, cramjam.lz4.decompress_into, view, limit)
        if codec == Codec.ZSTD:
            return _into_growing_buffer(Codec.ZSTD, cramjam.zstd.decompress_into, view, limit)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise CorruptBatch(f"the {Codec(codec).kafka_name} data of a batch is damaged: {error}") from None
    raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} is not one of {[*map(int, Codec)]}")


def _into_growing_buffer(
    codec: Codec, decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, limit: int
) -> memoryview:
    """Try with a buffer of a likely size, then with larger ones up to the limit.

    The sizes that lz4 and zstd write about themselves are optional and may lie, so none is asked for. All tries that
    were in vain cost together at most a seventh of the last one.
    """
    size = max(_FIRST_GUESS_BYTES, _GROWTH * len(data))
    while True:
        output = bytearray(min(size, limit))
        try:
            return memoryview(output)[: decompress_into(data, output)]
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_IS_FULL:
                raise
        if size >= limit:
            raise _too_large(codec, limit)
        size *= _GROWTH


def _gunzip(data: memoryview, limit: int) -> memoryview:
    """One member or several. By zlib, because older versions of cramjam decompress gzip whole, whatever the bound."""
    output = bytearray()
    member = zlib.decompressobj(wbits=31)
    position = 0
    while position < len(data) or not member.eof:
        if member.eof:
            member = zlib.decompressobj(wbits=31)
        piece = data[position : position + _GZIP_INPUT_BYTES]
        decompressed = member.decompress(piece, min(_GZIP_OUTPUT_BYTES, limit - len(output) + 1))
        output += decompressed
        if len(output) > limit:
            raise _too_large(Codec.GZIP, limit)
        if not piece and not decompressed:
            raise CorruptBatch(f"gzip data of {len(data)} bytes ends within a member")
        position += len(piece) - len(member.unused_data) - len(member.unconsumed_tail)
    return memoryview(output)


def _xerial_frame(data: memoryview) -> bytearray:
    frame = bytearray(_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1))
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        frame += _XERIAL_LENGTH.pack(len(block))
        frame += block
    return frame


def _unsnap(data: memoryview, limit: int) -> memoryview:
    # Version fields are not looked at: Redpanda writes them in the wrong byte order.
    blocks = _xerial_blocks(data) if data[: len(_XERIAL_MAGIC)].tobytes() == _XERIAL_MAGIC else [data]
    sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    if sum(sizes) > limit:
        raise _too_large(Codec.SNAPPY, limit)
    output = memoryview(bytearray(sum(sizes)))
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        cramjam.snappy.decompress_raw_into(block, output[position : position + size])
        position += size
    return output


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    position = _XERIAL_HEADER.size
    while position + _XERIAL_LENGTH.size <= len(data):
        (length,) = _XERIAL_LENGTH.unpack_from(data, position)
        start = position + _XERIAL_LENGTH.size
        position = start + length
        if length < 0 or position > len(data):
            raise CorruptBatch(
                f"a snappy block of {length} bytes does not fit into the {len(data) - start} that remain"
            )
        blocks.append(data[start:position])
    if position != len(data):
        raise CorruptBatch(f"snappy data of {len(data)} bytes ends within the header of a block")
    return blocks


def _too_large(codec: Codec, limit: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch with codec {codec.kafka_name} has more than {limit} bytes of records when decompressed; "
        "send smaller batches or raise the limit on decompressed records",
    )
