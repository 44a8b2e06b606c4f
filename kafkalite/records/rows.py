"""Record by record: the plain form of a records section, for small batches, the log cleaner and per-record checks.

`Row` is one record with its values copied out; `Span` is where a record lies, for code that keeps or drops
records as bytes. Whole fetches and Spark go through `columns`, which this module is the oracle of. A record:

    +--------+------------+-----------------+--------------+------------+-----+--------------+-------+
    | length | attributes | timestamp delta | offset delta | key length | key | value length | value |
    | varint | 1 byte = 0 | varint, 64 bits | varint       | varint     |     | varint       |       |
    +--------+------------+-----------------+--------------+------------+-----+--------------+-------+
    | header count | then, each: | key length | key, UTF-8 | value length | value |
    | varint       |             | varint     |            | varint       |       |
    +--------------+-------------+------------+------------+--------------+-------+

`length` counts what follows it; varints are zig-zag and have 32 bits but for the one; a length of −1 is null.
Every length is checked against the bytes that remain; only `CorruptBatch` and `InvalidBatch` leave a decoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkalite.errors import CorruptBatch, ErrorCode, InvalidBatch
from kafkalite.records.batch import NO_PRODUCER, NO_SEQUENCE, RecordBatch, TimestampType, build_batch
from kafkalite.records.compression import Codec, compress, decompress
from kafkalite.records.varints import after_varint, append_varint, varint32, varint64

_MAX_REPORTED: Final = 10
_MAX_CHECKED: Final = 250_000
"""Records of a batch that a broker looks at while its other clients wait: a quarter of a second."""


class Row(NamedTuple):
    """One record; `timestamp` is in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Span(NamedTuple):
    """Where one record lies in a decompressed records section, its length varint included."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    has_value: bool


class InvalidRecords(InvalidBatch):
    """Records that break a rule; `record_errors` has the first of their indexes, which Produce answers from v8 on."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[int, ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


# Encoding


def encode_rows(
    rows: Sequence[Row],
    *,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """One batch of at least one row, in order of offset; the first row gives the base offset and base timestamp."""
    base_offset, base_timestamp = rows[0].offset, rows[0].timestamp
    records = bytearray()
    for row in rows:
        body = bytearray(1)
        append_varint(body, _int64(row.timestamp - base_timestamp, "timestamp delta"))
        append_varint(body, row.offset - base_offset)
        _append_sized(body, row.key)
        _append_sized(body, row.value)
        append_varint(body, len(row.headers))
        for key, value in row.headers:
            _append_sized(body, key.encode())
            _append_sized(body, value)
        append_varint(records, len(body))
        records += body
    return build_batch(
        compress(codec, records),
        count=len(rows),
        last_offset_delta=rows[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(row.timestamp for row in rows),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def retimestamp(records: memoryview, spans: Iterable[Span], shift: int) -> bytes:
    """The given records with `shift` added to their timestamp deltas and not one other field changed.

    A cleaner that puts a delete horizon into `base_timestamp` (KIP-534) keeps the records' times by it.
    """
    output = bytearray()
    for span in spans:
        body = after_varint(records, span.start)
        body_rest = after_varint(records, body + 1)
        encoded = bytearray(records[body : body + 1])
        append_varint(encoded, _int64(span.timestamp_delta + shift, "timestamp delta"))
        append_varint(output, len(encoded) + span.end - body_rest)
        output += encoded
        output += records[body_rest : span.end]
    return bytes(output)


def _append_sized(output: bytearray, data: bytes | None) -> None:
    if data is None:
        append_varint(output, -1)
    else:
        append_varint(output, len(data))
        output += data


# Decoding


def decompressed_records(batch: RecordBatch, limit: int) -> memoryview:
    """The records section as it was before compression; at most `limit` bytes."""
    if batch.count < 0:
        raise CorruptBatch(f"the batch at offset {batch.base_offset} has a record count of {batch.count}")
    if batch.count == 0 and not batch.records:
        # A cleaner's empty batch keeps its producer's last sequence; there is nothing that a codec could read.
        return batch.records
    return decompress(batch.codec_id, batch.records, limit)


def iter_rows(batch: RecordBatch, *, limit: int) -> Iterator[Row]:
    """Every record of a batch whose CRC the caller has checked. `limit` bounds the decompressed bytes."""
    records = decompressed_records(batch, limit)
    data = records.tobytes()
    log_append_time = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    for span in iter_spans(records, batch.count):
        position = after_varint(data, after_varint(data, after_varint(data, span.start) + 1))
        key, position = _sized(data, position, span.end)
        value, position = _sized(data, position, span.end)
        headers = _headers(data, position, span.end)
        offset = batch.base_offset + span.offset_delta
        timestamp = batch.base_timestamp + span.timestamp_delta if log_append_time is None else log_append_time
        yield Row(_int64(offset, "offset"), _int64(timestamp, "timestamp"), key, value, headers)


def _headers(data: bytes, position: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    """The rest of a record, which must end where its length says."""
    headers = []
    try:
        count, position = varint32(data, position)
        # A header has two bytes at least: no count can make this loop longer than the record.
        if not 0 <= count <= (end - position) // 2:
            raise CorruptBatch(f"{count} headers do not fit into the {end - position} bytes that remain of a record")
        for _ in range(count):
            key, position = _sized(data, position, end)
            value, position = _sized(data, position, end)
            if key is None:
                raise CorruptBatch("a header's key is null")
            # Keys are UTF-8 by the protocol, but no broker looks; Java's client replaces what is not, and so do we.
            headers.append((key.decode(errors="replace"), value))
    except IndexError:
        raise CorruptBatch("the records end within a header") from None
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last header of a record")
    return tuple(headers)


def _sized(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = varint32(data, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise CorruptBatch(
            f"a field of {length} bytes does not fit into the {end - position} that remain of its record"
        )
    return data[position : position + length], position + length


def iter_spans(records: memoryview, count: int) -> Iterator[Span]:
    """Where each of the `count` records lies; headers are passed over unread, bytes after the last one are an error."""
    data = records.tobytes()  # indexed twice as fast as a memoryview
    size = len(data)
    end = 0
    new = tuple.__new__  # half the cost of `Span(…)`, in the loop that the cleaner's speed depends on
    try:
        for _ in range(count):
            start = end
            length, position = varint32(data, start)
            end = position + length
            if length < 0 or end > size:
                raise CorruptBatch(f"a record of {length} bytes does not fit into the {size - position} that remain")
            timestamp_delta, position = varint64(data, position + 1)
            offset_delta, position = varint32(data, position)
            length, position = varint32(data, position)
            key = None
            if length >= 0:
                key = records[position : position + length]
                position += length
            elif length != -1:
                raise CorruptBatch(f"a key has a length of {length}")
            length, position = varint32(data, position)
            if length > 0:
                position += length
            # Whatever ran past the record's end above is noticed here: a header count must still follow.
            if length < -1 or position >= end:
                raise CorruptBatch("a record's key and value do not fit into its length")
            yield new(Span, (start, end, timestamp_delta, offset_delta, key, length >= 0))
    except IndexError:
        raise CorruptBatch("the records end within a record") from None
    if end != size:
        raise CorruptBatch(f"{size - end} bytes follow the last of {count} records")


def check_records(batch: RecordBatch, *, limit: int, keys_required: bool) -> None:
    """What a produced batch's header cannot tell: offset deltas count up from 0; compacted topics need keys."""
    if batch.count > _MAX_CHECKED:
        raise InvalidRecords(
            ErrorCode.INVALID_RECORD,
            f"{batch.count} records in one batch; at most {_MAX_CHECKED} are checked one by one",
        )
    records = decompressed_records(batch, limit)
    wrong: list[int] = []
    for index, span in enumerate(iter_spans(records, batch.count)):
        if span.offset_delta != index or (keys_required and span.key is None):
            wrong.append(index)
            if len(wrong) == _MAX_REPORTED:
                break
    if wrong:
        named = ", ".join(map(str, wrong)) + (", …" if len(wrong) == _MAX_REPORTED else "")
        rule = "an offset delta equal to its index" + (" and a key, as the topic is compacted" if keys_required else "")
        raise InvalidRecords(ErrorCode.INVALID_RECORD, f"records {named}: each needs {rule}", tuple(wrong))


def _int64(value: int, what: str) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise CorruptBatch(f"{what} {value} does not fit into 64 bits")
    return value
