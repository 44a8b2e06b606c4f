"""Zig-zag varints of whole columns: numpy loops over the at most ten bytes of a number, never over the records.

`varints` explains the format. Reading never leaves `data`: a position past its end reads the last byte again,
and since positions only grow, the one check that a caller makes at the end of a record catches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafkalite.errors import CorruptBatch

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_LOW_BITS: Final = np.uint8(0x7F)
_MORE_BIT: Final = np.uint8(0x80)
_ONE: Final = np.uint64(1)
_SEVEN: Final = np.uint8(7)


def read_varints(data: Bytes, at: Ints, *, bits: int) -> tuple[Ints, Ints]:
    """The number at each position, and the position after each."""
    byte = data.take(at, mode="clip")
    after = at + 1
    more = byte >> _SEVEN
    if not more.any():
        return _signed(byte.astype(np.uint64)), after
    second = data.take(after, mode="clip") * more
    value = (byte & _LOW_BITS).astype(np.uint64) | (second & _LOW_BITS).astype(np.uint64) << np.uint64(7)
    after += more
    # Few numbers have more than two bytes, and one outlier must not cost the whole column ten rounds.
    longer = np.flatnonzero(second & _MORE_BIT)
    for shift in range(14, bits, 7):
        if not len(longer):
            break
        byte = data.take(after[longer], mode="clip")
        value[longer] |= (byte & _LOW_BITS).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        if bits - shift < 7 and (byte >> np.uint8(bits - shift)).any():
            raise CorruptBatch(f"a varint has more than {bits} bits")
        longer = longer[byte >= _MORE_BIT]
    return _signed(value), after


class Varints:
    """A column of numbers on its way into bytes: the zig-zag form, and how many bytes each needs."""

    __slots__ = ("sizes", "zigzag")

    def __init__(self, values: Ints) -> None:
        self.zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
        self.sizes: Ints = np.ones(len(values), np.int64)
        largest = int(self.zigzag.max(initial=0))
        for shift in range(7, largest.bit_length(), 7):
            self.sizes += self.zigzag >= np.uint64(1 << shift)

    def write(self, output: Bytes, at: Ints) -> Ints:
        """Put each number at its position; the positions after them come back."""
        rest, place = self.zigzag, at
        while True:
            more = rest > np.uint64(0x7F)
            output[place] = rest.astype(np.uint8) | more.view(np.uint8) << _SEVEN
            if not more.any():
                return at + self.sizes
            if not more.all():
                longer = np.flatnonzero(more)
                rest, place = rest[longer], place[longer]
            rest, place = rest >> np.uint64(7), place + 1

    def bytes_of(self, first: int, last: int) -> Iterator[Bytes]:
        """The first byte of some rows that all need the same number of them, then the second …"""
        rest = self.zigzag[first:last]
        for left in range(int(self.sizes[first]) - 1, -1, -1):
            byte = rest.astype(np.uint8)
            yield byte | _MORE_BIT if left else byte
            rest = rest >> np.uint64(7)


def _signed(zigzag: NDArray[Any]) -> Ints:
    sign = np.uint64(0) - (zigzag & _ONE)
    return ((zigzag >> _ONE) ^ sign).view(np.int64)
