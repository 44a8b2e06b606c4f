"""Single zig-zag varints, the numbers that a record is made of; `varint_columns` has them by whole columns.

Seven bits a byte, the lowest first; the top bit says that more follow. Zig-zag puts the sign into the lowest bit
(0, −1, 1, −2 … are 0, 1, 2, 3 …), so that −1, the length of what is null, needs one byte. A number has 32 or
64 bits: the reader refuses more, and lets `IndexError` out where the bytes end, for its callers to translate.
"""

from __future__ import annotations

from kafkalite.errors import CorruptBatch


def append_varint(output: bytearray, value: int) -> None:
    """`value` has 64 bits at most."""
    rest = value << 1 ^ value >> 63
    while rest > 0x7F:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)


def varint32(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        value = byte & 0x7F | second << 7
        return value >> 1 ^ -(value & 1), position + 2
    return _long_varint(data, position, bits=32)


def varint64(data: bytes | memoryview, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position + 1
    return _long_varint(data, position, bits=64)


def after_varint(data: bytes | memoryview, position: int) -> int:
    """The position after a number that has been read before."""
    while data[position] >= 0x80:
        position += 1
    return position + 1


def _long_varint(data: bytes | memoryview, position: int, *, bits: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        value = 1 << bits
    if value >> bits:
        raise CorruptBatch(f"a varint has more than {bits} bits")
    return value >> 1 ^ -(value & 1), position
