"""Records as lines, lines as records."""

from __future__ import annotations

import json

import pytest

from kafkalite.cli.records import (
    BadLine,
    Columns,
    iso_time,
    json_line,
    parse_line,
    parse_separator,
    ranges,
    text_writer,
)
from kafkalite.model import TopicPartition
from kafkalite.records.rows import Row

PLACE = TopicPartition("t", 3)
ROW = Row(7, 1_700_000_000_123, b"k", b"v", (("a", b"1"), ("b", None)))


def test_text_has_the_value_alone_unless_told_otherwise() -> None:
    assert text_writer(Columns())(PLACE, ROW) == b"v\n"


def test_text_has_the_columns_asked_for_before_the_value() -> None:
    line = text_writer(Columns(timestamps=True, headers=True, keys=True))(PLACE, ROW)
    assert line == b"2023-11-14T22:13:20.123Z\ta=1,b=null\tk\tv\n"


def test_text_keeps_every_byte() -> None:
    value = bytes(range(256))
    assert text_writer(Columns(keys=True))(PLACE, Row(0, 0, None, value)) == b"null\t" + value + b"\n"


def test_json_has_everything() -> None:
    assert json.loads(json_line(PLACE, ROW)) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": "v",
        "headers": [["a", "1"], ["b", None]],
    }


def test_json_tells_null_from_text_and_from_bytes() -> None:
    record = json.loads(json_line(PLACE, Row(0, 0, b"\xff\x00", None)))
    assert (record["key"], record["value"]) == ({"base64": "/wA="}, None)
    assert json.loads(json_line(PLACE, Row(0, 0, b"null", "Zoë\n".encode())))["value"] == "Zoë\n"


def test_json_is_one_line() -> None:
    assert json_line(PLACE, Row(0, 0, None, b"a\nb\rc")).count(b"\n") == 1


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_a_number(timestamp: int) -> None:
    assert iso_time(timestamp) == str(timestamp)


def test_a_line_is_split_at_the_first_separator() -> None:
    assert parse_line(b"k:v:w", 1, b":") == (b"k", b"v:w")
    assert parse_line(b":v", 1, b":") == (b"", b"v")
    assert parse_line(b"k:v", 1, None) == (None, b"k:v")
    assert parse_separator("\\t") == b"\t"


def test_a_line_without_separator_is_refused_with_its_number() -> None:
    with pytest.raises(BadLine, match="line 12 has no key: ':' is not in 'no key'"):
        parse_line(b"no key", 12, b":")


def test_ranges_that_meet_are_joined() -> None:
    assert ranges([range(3), range(3, 5), range(9, 10)]) == "0–4, 9"
