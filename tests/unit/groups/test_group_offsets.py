from __future__ import annotations

import logging

import pytest

from kafkalite.groups.offsets import OffsetTable, Replayed, expired_offsets
from kafkalite.groups.records import CommittedOffset, GroupMetadata, GroupRow, OffsetRow, Row, encode_row
from kafkalite.model import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def at(offset: int, commit_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", commit_ms)


def group(generation: int) -> GroupMetadata:
    return GroupMetadata(protocol_type="consumer", generation=generation, protocol=None, leader=None, members=[])


def test_the_table_keeps_the_last_position_of_each_partition() -> None:
    table = OffsetTable()
    table.put("g", T0, at(1))
    table.put("g", T0, at(2))
    table.put("h", U0, at(3))
    assert table.of("g") == {T0: at(2)}
    assert table.of("nobody") == {}


def test_a_group_whose_positions_are_all_removed_takes_no_room() -> None:
    table = OffsetTable()
    table.put("g", T0, at(1))
    table.remove("g", [T0, T1])
    table.remove("nobody", [T0])
    assert list(table.groups()) == []


def test_a_topics_positions_are_found_in_all_groups() -> None:
    table = OffsetTable()
    for group_id, partition in (("g", T0), ("g", T1), ("g", U0), ("h", T1), ("i", U0)):
        table.put(group_id, partition, at(1))
    assert dict(table.of_topic("t")) == {"g": [T0, T1], "h": [T1]}


@pytest.mark.parametrize(
    ("empty_since_ms", "keep_topics", "expired"),
    [
        (-1, (), [T0, U0]),  # counted from the commits
        (500, (), [T0, U0]),  # empty for as long as the retention
        (501, (), []),
        (-1, ("t",), [U0]),  # the group has members that read t
    ],
)
def test_what_expires_depends_on_commits_on_the_groups_end_and_on_its_subscription(
    empty_since_ms: int, keep_topics: tuple[str, ...], expired: list[TopicPartition]
) -> None:
    offsets = {T0: at(1, 400), T1: at(1, 501), U0: at(1, 500)}
    found = expired_offsets(
        offsets, now_ms=1_500, retention_ms=1_000, empty_since_ms=empty_since_ms, keep_topics=keep_topics
    )
    assert found == expired


def test_a_replay_ends_with_the_last_word_on_every_key() -> None:
    rows: list[Row] = [
        OffsetRow("g", T0, at(1)),
        GroupRow("g", group(1)),
        OffsetRow("g", T1, at(1)),
        OffsetRow("g", T0, at(5)),
        GroupRow("gone", group(3)),
        OffsetRow("g", T1, None),
        GroupRow("g", group(2)),
        GroupRow("gone", None),
        GroupRow("never was", None),
    ]
    state = Replayed()
    state.take(encode_row(row) for row in rows[:4])
    state.take(encode_row(row) for row in rows[4:])
    assert state.offsets.of("g") == {T0: at(5)}
    assert state.groups == {"g": group(2)}
    assert state.skipped == 0


def test_damaged_and_unknown_records_are_skipped_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    key, value = encode_row(OffsetRow("g", T0, at(1)))
    assert value is not None
    state = Replayed()
    with caplog.at_level(logging.WARNING):
        state.take([(None, b"x"), (b"\x00\x63new kind", b"x"), (key, value[:-1]), (b"\x00", None), (key, value)])
    assert state.offsets.of("g") == {T0: at(1)}
    assert state.skipped == len(caplog.records) == 2
