"""Columns of byte strings of any length: cut out of a buffer into Arrow, or woven into one run of bytes.

Nothing here knows what the strings mean. Offsets are Arrow's 32 bits; callers keep below 2 GiB.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalite.records.varint_columns import Bytes, Ints, Varints

_MOST_RUNS: Final = 32


class Ragged(NamedTuple):
    """The strings `data[bounds[i]:bounds[i + 1]]`."""

    data: Bytes
    bounds: Ints

    def as_arrow(self) -> Any:
        buffers = [None, pa.py_buffer(self.bounds.astype(np.int32)), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), len(self.bounds) - 1, buffers)


Column = Varints | Ragged | int
"""What a row is woven of; an int is one byte, the same in every row."""


def cut(data: Bytes, begins: Ints, lengths: Ints) -> Any:
    """The strings of `lengths` at `begins`, both in rising order and within `data`, copied; a length of −1 is null."""
    if (lengths == -1).all():
        return pa.nulls(len(lengths), pa.binary())
    # Every second string between these bounds is one of ours; the others are what lies between them.
    bounds = np.empty(2 * len(begins), np.int64)
    bounds[0::2] = begins
    bounds[1::2] = begins + np.maximum(lengths, 0)
    ours = Ragged(data, bounds).as_arrow().take(pa.array(np.arange(0, len(bounds), 2)))
    if (lengths >= 0).all():
        return ours
    return pa.Array.from_buffers(pa.binary(), len(ours), [validity(lengths >= 0), *ours.buffers()[1:]])


def validity(present: NDArray[np.bool_]) -> Any:
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def from_arrow(column: Any) -> tuple[Ragged, Ints]:
    """A column of bytes or strings of any Arrow type, empty where it is null, and the lengths, there −1."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    array = column.cast(pa.binary())
    null = np.asarray(array.is_null()) if array.null_count else None
    if null is not None:
        array = array.fill_null(b"")  # under a null there may be anything
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=array.offset * 4).astype(np.int64)
    lengths = np.diff(bounds)
    if null is not None:
        lengths[null] = -1
    return Ragged(np.frombuffer(data or b"", np.uint8), bounds), lengths


def row_sizes(columns: list[Column], rows: int) -> Ints:
    """How many bytes the columns make together in each row."""
    sizes = np.zeros(rows, np.int64)
    for column in columns:
        sizes += 1 if isinstance(column, int) else _sizes(column)
    return sizes


def weave(columns: list[Column], *, room: int = 0) -> bytearray:
    """All of row 0, then all of row 1 …, after some bytes of room for whatever the caller puts in front.

    If the rows form a few runs in which no column changes its size, as they do for values of one size, numpy copies
    each column of a run as a rectangle; otherwise Arrow's `take` copies string by string.
    """
    sizes = np.array([_sizes(column) for column in columns if not isinstance(column, int)])
    rows = sizes.shape[1]
    changes = np.flatnonzero((sizes[:, 1:] != sizes[:, :-1]).any(axis=0)) + 1
    if len(changes) > _MOST_RUNS:
        return _weave_singly(columns, rows, room)
    output = bytearray(room + int(sizes.sum()) + rows * (len(columns) - len(sizes)))
    begin = room
    for first, last in zip([0, *changes.tolist()], [*changes.tolist(), rows], strict=True):
        width = sum(1 if isinstance(column, int) else int(_sizes(column)[first]) for column in columns)
        _weave_run(columns, first, last, np.ndarray((last - first, width), np.uint8, output, begin))
        begin += (last - first) * width
    return output


def _weave_run(columns: list[Column], first: int, last: int, run: Bytes) -> None:
    """Fill the lines of `run` with rows in which every column has one size."""
    place = 0
    for column in columns:
        if isinstance(column, Ragged):
            strings = column.data[column.bounds[first] : column.bounds[last]].reshape(last - first, -1)
            run[:, place : place + strings.shape[1]] = strings
            place += strings.shape[1]
            continue
        for byte in [column] if isinstance(column, int) else column.bytes_of(first, last):
            run[:, place] = byte
            place += 1


def _sizes(column: Varints | Ragged) -> Ints:
    return column.sizes if isinstance(column, Varints) else np.diff(column.bounds)


def _weave_singly(columns: list[Column], rows: int, room: int) -> bytearray:
    strings = []
    numbers: list[Varints | int] = []
    for column in columns:
        if isinstance(column, Ragged):
            strings += [_packed(numbers, rows), column] if numbers else [column]
            numbers = []
        else:
            numbers.append(column)
    if numbers:
        strings.append(_packed(numbers, rows))
    picks = np.arange(rows * len(strings), dtype=np.int32).reshape(len(strings), rows).T
    woven = pa.concat_arrays([string.as_arrow() for string in strings]).take(pa.array(picks.reshape(-1)))
    _, offsets, data = woven.buffers()
    output = bytearray(room)
    output += memoryview(data)[: np.frombuffer(offsets, np.int32)[len(woven)]]
    return output


def _packed(numbers: list[Varints | int], rows: int) -> Ragged:
    """Columns without strings as one column of strings."""
    bounds = np.append(0, np.cumsum(row_sizes([*numbers], rows)))
    output = np.empty(bounds[-1], np.uint8)
    at = bounds[:-1]
    for column in numbers:
        if isinstance(column, Varints):
            at = column.write(output, at)
        else:
            output[at] = column
            at = at + 1
    return Ragged(output, bounds)
