"""The codecs: round trips, the other clients' encoders, and hostile input, which never gets more than the limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiokafka.codec
import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch, KafkaError
from kafkalite.records.compression import Codec, compress, decompress

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
PACKED = random.Random(1).randbytes(50) * 3_000
MIB = 1 << 20


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(min_size=1, max_size=300), repeats=st.sampled_from([1, 2, 300, 1_000]))
def test_round_trip_with_the_tightest_limit(codec: Codec, data: bytes, repeats: int) -> None:
    whole = data * repeats
    packed = compress(codec, memoryview(bytearray(whole)))
    assert decompress(codec, packed, len(whole)) == whole
    with pytest.raises(InvalidBatch) as caught:
        decompress(codec, packed, len(whole) - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert codec.kafka_name in caught.value.message
    assert str(len(whole) - 1) in caught.value.message


AIOKAFKA: dict[Codec, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    Codec.GZIP: (aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    Codec.SNAPPY: (aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    Codec.LZ4: (aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    Codec.ZSTD: (aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 1_000, 32_768, 32_769, 150_000])
def test_aiokafka_reads_ours_and_we_read_its(codec: Codec, size: int) -> None:
    encode, decode = AIOKAFKA[codec]
    data = PACKED[:size]
    assert decode(bytes(compress(codec, data))) == data
    assert decompress(codec, encode(data), size) == data


def test_snappy_is_read_without_framing_and_whatever_version_the_framing_has() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(PACKED)), len(PACKED)) == PACKED
    little_endian = bytearray(compress(Codec.SNAPPY, PACKED))
    little_endian[8:16] = b"\x01\x00\x00\x00\x01\x00\x00\x00"
    assert decompress(Codec.SNAPPY, little_endian, len(PACKED)) == PACKED


def test_snappy_is_written_in_xerials_framing_with_blocks_of_32_kib() -> None:
    frame = bytes(compress(Codec.SNAPPY, PACKED))
    assert frame.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    length = int.from_bytes(frame[16:20])
    assert cramjam.snappy.decompress_raw_len(frame[20 : 20 + length]) == 32 * 1024


def test_lz4_frames_have_independent_blocks_of_64_kib_without_a_content_checksum() -> None:
    frame = bytes(compress(Codec.LZ4, PACKED))
    assert frame[:4] == b"\x04\x22\x4d\x18"
    flags, block_descriptor = frame[4], frame[5]
    assert flags >> 6 == 1
    assert flags & 0x20, "blocks are independent"
    assert not flags & 0x04, "no content checksum"
    assert block_descriptor == 4 << 4


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_concatenated_members_are_one_stream(codec: Codec) -> None:
    twice = bytes(compress(codec, PACKED)) * 2
    assert decompress(codec, twice, 2 * len(PACKED)) == PACKED * 2
    with pytest.raises(InvalidBatch):
        decompress(codec, twice, 2 * len(PACKED) - 1)


def rle_zstd(blocks: int, header: bytes = b"\x00\x38") -> bytes:
    """A zstd frame of blocks that each repeat one byte 128 Ki times; without a content size unless `header` has one."""
    body = b"".join(
        ((1 << 17 << 3) | (1 << 1) | (index == blocks - 1)).to_bytes(3, "little") + b"A" for index in range(blocks)
    )
    return b"\x28\xb5\x2f\xfd" + header + body


def size_claiming_zstd(size: int) -> bytes:
    return rle_zstd(2, b"\xe0" + size.to_bytes(8, "little"))


def claim_snappy(size: int) -> bytes:
    """A raw snappy block whose preamble claims a size."""
    varint = bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    varint.append(size)
    return bytes(varint) + bytes(cramjam.snappy.compress_raw(PACKED))[3:]


def claim_xerial(size: int) -> bytes:
    block = claim_snappy(size)
    return b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + (len(block).to_bytes(4) + block) * 3


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, lambda: bytes(cramjam.gzip.compress(bytes(256 * MIB)))),
    "gzip, many members": (Codec.GZIP, lambda: bytes(cramjam.gzip.compress(bytes(100))) * 200_000),
    "snappy": (Codec.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(64 * MIB)))),
    "xerial": (Codec.SNAPPY, lambda: bytes(compress(Codec.SNAPPY, bytes(64 * MIB)))),
    "lz4": (Codec.LZ4, lambda: bytes(compress(Codec.LZ4, bytes(64 * MIB)))),
    "zstd": (Codec.ZSTD, lambda: rle_zstd(32_768)),
    "zstd, large window": (Codec.ZSTD, lambda: rle_zstd(32_768, b"\x00\x88")),
    "zstd, huge window": (Codec.ZSTD, lambda: rle_zstd(2, b"\x00\xf8")),
    "zstd, lying size": (Codec.ZSTD, lambda: size_claiming_zstd(1 << 40)),
    "snappy, lying size": (Codec.SNAPPY, lambda: claim_snappy((1 << 32) - 1)),
    "xerial, lying size": (Codec.SNAPPY, lambda: claim_xerial((1 << 32) - 1)),
}


def peak_growth(work: Callable[[], None]) -> int:
    """How much memory the process needs at most for some work, beyond what it has: the C libraries' included."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    before = _peak()
    work()
    return _peak() - before


def _peak() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_stopped_at_the_limit(bomb: str) -> None:
    codec, make = BOMBS[bomb]
    data = make()
    limit = 4 * MIB

    def explode() -> None:
        with pytest.raises(KafkaError) as caught:
            decompress(codec, data, limit)
        assert caught.value.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)

    assert peak_growth(explode) <= 2 * limit + MIB


def test_the_measure_of_the_bombs_does_see_memory() -> None:
    data = BOMBS["gzip"][1]()

    def explode() -> None:
        cramjam.gzip.decompress(data)

    assert peak_growth(explode) > 200 * MIB


@pytest.mark.parametrize("codec", CODECS)
def test_input_cut_off_at_every_byte_is_corrupt(codec: Codec) -> None:
    packed = bytes(compress(codec, PACKED[:400]))
    for cut in range(len(packed)):
        if codec is Codec.SNAPPY and cut == 16:
            continue  # Xerial's header alone is a stream of no blocks
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:cut], 20_000)


@pytest.mark.parametrize("codec", CODECS)
def test_mutated_input_gives_bytes_within_the_limit_or_one_of_our_errors(codec: Codec) -> None:
    random_ = random.Random(codec)
    packed = bytes(compress(codec, PACKED[:2_000]))
    for _ in range(1_000):
        mutated = bytearray(packed)
        for _ in range(random_.randint(1, 4)):
            mutated[random_.randrange(len(mutated))] = random_.randrange(256)
        with suppress(CorruptBatch, InvalidBatch):
            assert len(decompress(codec, mutated, 3_000)) <= 3_000


def test_uncompressed_data_is_not_copied_but_has_the_limit_too() -> None:
    assert decompress(Codec.NONE, PACKED, len(PACKED)).obj is PACKED
    with pytest.raises(InvalidBatch):
        decompress(Codec.NONE, PACKED, len(PACKED) - 1)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_unsupported(codec: int) -> None:
    with pytest.raises(InvalidBatch) as caught:
        decompress(codec, b"", 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_codecs_have_kafkas_names() -> None:
    assert [Codec.named(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(Codec)
    with pytest.raises(ValueError, match=r"'brotli'.*zstd"):
        Codec.named("brotli")
