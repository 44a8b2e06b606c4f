from __future__ import annotations

import random
import struct

import pytest

from kafkalite.errors import MalformedMessage
from kafkalite.groups.records import (
    CommittedOffset,
    GroupMetadata,
    GroupRow,
    OffsetRow,
    StoredMember,
    decode_row,
    encode_row,
)
from kafkalite.model import TopicPartition
from tests.conftest import Trials


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text.encode())) + text.encode()


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


OFFSET = OffsetRow("grüppe", TopicPartition("topic", 7), CommittedOffset(123456789012, 4, "note", 1_700_000_000_000))
OFFSET_KEY = struct.pack(">h", 1) + string("grüppe") + string("topic") + struct.pack(">i", 7)
OFFSET_VALUE = struct.pack(">hqi", 3, 123456789012, 4) + string("note") + struct.pack(">q", 1_700_000_000_000)

GROUP = GroupRow(
    "g",
    GroupMetadata(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m1",
        current_state_timestamp=1_700_000_000_001,
        members=[
            StoredMember(
                member_id="m1",
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=b"sub",
                assignment=b"ass",
            ),
            StoredMember(
                member_id="m2",
                group_instance_id="i",
                client_id="c",
                client_host="h",
                rebalance_timeout=1,
                session_timeout=2,
                subscription=b"",
                assignment=b"",
            ),
        ],
    ),
)
GROUP_KEY = struct.pack(">h", 2) + string("g")
GROUP_VALUE = (
    struct.pack(">h", 3)
    + string("consumer")
    + struct.pack(">i", 5)
    + string("range")
    + string("m1")
    + struct.pack(">qi", 1_700_000_000_001, 2)
    + string("m1")
    + string(None)
    + string("c")
    + string("/127.0.0.1")
    + struct.pack(">ii", 60_000, 10_000)
    + sized(b"sub")
    + sized(b"ass")
    + string("m2")
    + string("i")
    + string("c")
    + string("h")
    + struct.pack(">ii", 1, 2)
    + sized(b"")
    + sized(b"")
)


@pytest.mark.parametrize(
    ("row", "key", "value"),
    [
        (OFFSET, OFFSET_KEY, OFFSET_VALUE),
        (OFFSET._replace(committed=None), OFFSET_KEY, None),
        (GROUP, GROUP_KEY, GROUP_VALUE),
        (GROUP._replace(metadata=None), GROUP_KEY, None),
    ],
)
def test_rows_have_the_bytes_that_kafka_documents(row: OffsetRow | GroupRow, key: bytes, value: bytes | None) -> None:
    assert encode_row(row) == (key, value)
    assert decode_row(key, value) == row


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (struct.pack(">hq", 0, 9) + string("m") + struct.pack(">q", 8), CommittedOffset(9, -1, "m", 8)),
        (struct.pack(">hq", 1, 9) + string("m") + struct.pack(">qq", 8, 7), CommittedOffset(9, -1, "m", 8)),
        (struct.pack(">hq", 2, 9) + string("m") + struct.pack(">q", 8), CommittedOffset(9, -1, "m", 8)),
        # Version 4 is flexible, and newer brokers add a tagged topic id to it.
        (struct.pack(">hqi", 4, 9, 2) + b"\x02m" + struct.pack(">q", 8) + b"\x00", CommittedOffset(9, 2, "m", 8)),
        (
            struct.pack(">hqi", 4, 9, 2) + b"\x02m" + struct.pack(">q", 8) + b"\x01\x00\x10" + bytes(16),
            CommittedOffset(9, 2, "m", 8),
        ),
    ],
)
def test_offset_values_of_all_versions_are_read(value: bytes, expected: CommittedOffset) -> None:
    row = decode_row(OFFSET_KEY, value)
    assert isinstance(row, OffsetRow)
    assert row.committed == expected


def test_a_group_value_of_version_0_has_no_rebalance_timeout() -> None:
    value = struct.pack(">h", 0) + string("consumer") + struct.pack(">i", 1) + string("range") + string("m")
    value += struct.pack(">i", 1) + string("m") + string("c") + string("h") + struct.pack(">i", 10)
    row = decode_row(GROUP_KEY, value + sized(b"s") + sized(b"a"))
    assert isinstance(row, GroupRow)
    assert row.metadata is not None
    assert row.metadata.members[0].rebalance_timeout == -1


@pytest.mark.parametrize("version", [3, 5, 99, -1])
def test_keys_of_other_kinds_are_passed_over(version: int) -> None:
    assert decode_row(struct.pack(">h", version) + b"whatever", b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (OFFSET_KEY[:-1], None),
        (OFFSET_KEY + b"\x00", None),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, OFFSET_VALUE[:-1]),
        (OFFSET_KEY, b"\x00\x09" + OFFSET_VALUE[2:]),
        (GROUP_KEY, GROUP_VALUE[:-1]),
        (GROUP_KEY, b"\xff\xff" + GROUP_VALUE[2:]),
    ],
)
def test_damaged_rows_are_malformed(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode_row(key, value)


def test_random_damage_gives_a_row_or_is_malformed_and_nothing_else(trials: Trials) -> None:
    def trial(seed: int) -> None:
        pick = random.Random(seed)
        for good_key, good_value in ((OFFSET_KEY, OFFSET_VALUE), (GROUP_KEY, GROUP_VALUE)):
            key, value = bytearray(good_key), bytearray(good_value)
            for _ in range(pick.randint(1, 4)):
                target = pick.choice([key, value, value])
                target[pick.randrange(len(target))] = pick.randrange(256)
            try:
                decode_row(bytes(key), bytes(value[: pick.randint(0, len(value))] if pick.random() < 0.3 else value))
            except MalformedMessage:
                continue

    trials(trial, small=2_000, large=200_000)
