"""Record headers as a column: `list<struct<key: string, value: binary>>`, null where a record has none.

Header k of all records is read in one go, so the work grows with the largest number of headers, not with the
number of records; what a record has beyond a sensible number is read singly. After a record's value come

    +--------------+-------------+------------+------------+--------------+-------+
    | header count | then, each: | key length | key, UTF-8 | value length | value |
    | varint       |             | varint     |            | varint       |       |
    +--------------+-------------+------------+------------+--------------+-------+
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch
from kafkalite.records.ragged import Column, Ragged, cut, from_arrow, row_sizes, validity, weave
from kafkalite.records.varint_columns import Bytes, Ints, Varints, read_varints
from kafkalite.records.varints import varint32

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_TOGETHER: Final = 64
"""So many headers of each record are read in step with those of the others; then one by one."""

_NO_HEADERS: Final = 0


def read_headers(data: Bytes, at: Ints, ends: Ints) -> Any:
    """The headers whose counts stand at `at`; each record must end where `ends` says, however many it has."""
    if (at + 1 == ends).all() and not data[at].any():
        return pa.nulls(len(at), HEADERS_TYPE)
    counts, at = read_varints(data, at, bits=32)
    # A header has two bytes at least: no count can make the work larger than the bytes that are there.
    if (counts < 0).any() or (counts > (ends - at) // 2).any():
        raise CorruptBatch("a record has more headers than fit into its length")
    list_offsets = np.append(0, np.cumsum(counts))
    fields = np.empty((4, list_offsets[-1]), np.int64)
    rows = np.flatnonzero(counts)
    for ordinal in range(_TOGETHER):
        if not len(rows):
            break
        slots = list_offsets[rows] + ordinal
        fields[1, slots], fields[0, slots] = lengths, at_key = read_varints(data, at[rows], bits=32)
        fields[3, slots], fields[2, slots] = value_lengths, at_value = read_varints(data, at_key + lengths, bits=32)
        if (lengths < 0).any() or (value_lengths < -1).any():
            raise CorruptBatch("a header's key or value has a negative length")
        at[rows] = at_value + np.maximum(value_lengths, 0)
        rows = rows[counts[rows] > ordinal + 1]
    for row in rows.tolist():
        first, last = list_offsets[row] + _TOGETHER, list_offsets[row + 1]
        fields[:, first:last], at[row] = _read_singly(data[at[row] : ends[row]].tobytes(), int(at[row]), last - first)
    # Positions only grow: what led past a record's end on the way is still there.
    if (at != ends).any():
        raise CorruptBatch("a record's headers do not end where the record does")
    pairs = [_text(cut(data, fields[0], fields[1])), cut(data, fields[2], fields[3])]
    structs = pa.StructArray.from_arrays(pairs, fields=list(HEADERS_TYPE.value_type))
    buffers = [validity(counts > 0), pa.py_buffer(list_offsets.astype(np.int32))]
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), buffers, children=[structs])


def _read_singly(data: bytes, begin: int, count: int) -> tuple[Ints, int]:
    fields = []
    position = 0
    try:
        for _ in range(count):
            key_length, key = varint32(data, position)
            value_length, value = varint32(data, key + key_length)
            if key_length < 0 or value_length < -1:
                raise CorruptBatch("a header's key or value has a negative length")
            fields.append((begin + key, key_length, begin + value, value_length))
            position = value + max(value_length, 0)
    except IndexError:
        position = len(data) + 1
    if position > len(data):
        raise CorruptBatch("a header leads past the end of its record")
    return np.array(fields, np.int64).T, begin + position


def _text(keys: Any) -> Any:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # Keys are UTF-8 by the protocol, but no broker looks; Java's client replaces what is not, and so do we.
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def header_fields(column: Any, rows: int) -> list[Column]:
    """What to weave in after the values.

    `column` has lists of structs with a `key`, which must not be null, and a `value`. A null list is an empty one.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    structs = None if column is None or column.null_count == rows else column.flatten()
    if structs is None or not len(structs):
        return [_NO_HEADERS]
    fields = dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
    keys, key_lengths = from_arrow(fields["key"])
    values, value_lengths = from_arrow(fields["value"])
    if (key_lengths < 0).any():
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a header's key is null; only its value may be")
    header: list[Column] = [Varints(key_lengths), keys, Varints(value_lengths), values]
    counts = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    bounds = np.append(0, np.cumsum(row_sizes(header, len(structs))))[np.append(0, np.cumsum(counts))]
    return [Varints(counts), Ragged(np.frombuffer(weave(header), np.uint8), bounds)]
