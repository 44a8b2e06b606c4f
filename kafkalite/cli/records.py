"""A record as a line of output, and a line of input as a record. Pure.

Text is binary-safe: keys and values go out as the bytes that they are, null as `null`. JSON keeps everything apart:
what is not UTF-8 becomes `{"base64": "…"}`, and null is null.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.errors import KafkaliteError

if TYPE_CHECKING:
    from kafkalite.model import TopicPartition
    from kafkalite.records.rows import Row

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LineWriter = Callable[["TopicPartition", "Row"], bytes]


class BadLine(KafkaliteError):
    """A line of input that is not what the options say it is."""


class Columns(NamedTuple):
    """What a line of text shows before the value."""

    timestamps: bool = False
    headers: bool = False
    keys: bool = False


def text_writer(columns: Columns) -> LineWriter:
    """timestamp TAB headers TAB key TAB value, of which only the value is always there."""

    def write(_partition: TopicPartition, row: Row) -> bytes:
        parts = []
        if columns.timestamps:
            parts.append(iso_time(row.timestamp).encode())
        if columns.headers:
            parts.append(b",".join(name.encode() + b"=" + _or_null(value) for name, value in row.headers))
        if columns.keys:
            parts.append(_or_null(row.key))
        parts.append(_or_null(row.value))
        return b"\t".join(parts) + b"\n"

    return write


def json_line(partition: TopicPartition, row: Row) -> bytes:
    record = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": row.offset,
        "timestamp": row.timestamp,
        "key": _json_value(row.key),
        "value": _json_value(row.value),
        "headers": [[name, _json_value(value)] for name, value in row.headers],
    }
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def iso_time(timestamp_ms: int) -> str:
    """UTC with milliseconds; the bare number where no calendar has such a day."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_separator(text: str) -> bytes:
    r"""A separator as typed: `\t` is a tab."""
    return text.replace("\\t", "\t").encode()


def parse_line(line: bytes, number: int, separator: bytes | None) -> tuple[bytes | None, bytes]:
    """(key, value) of a line without its end."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise BadLine(f"line {number} has no key: {separator.decode()!r} is not in {_shortened(line)}")
    return key, value


def ranges(offsets: Sequence[range]) -> str:
    """`0–4, 9`, with neighbours joined."""
    joined: list[range] = []
    for each in offsets:
        if joined and joined[-1].stop == each.start:
            joined[-1] = range(joined[-1].start, each.stop)
        else:
            joined.append(each)
    return ", ".join(str(each.start) if len(each) == 1 else f"{each.start}–{each.stop - 1}" for each in joined)


def _or_null(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _json_value(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _shortened(line: bytes) -> str:
    text = line[:60].decode(errors="replace")
    return repr(text + "…" if len(line) > 60 else text)
