"""File names: made and read back, and never outside the data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import TopicPartition
from kafkalite.storage import layout

HOSTILE = ["", ".", "..", "../up", "a/b", "/etc", "a\0b", "a b", "ä", "x" * 250, "a\n", "a\\b", "..\\up", "~", "a:b"]


@pytest.mark.parametrize("topic", HOSTILE)
def test_a_name_that_is_no_topics_has_no_folder(tmp_path: Path, topic: str) -> None:
    with pytest.raises(KafkaError, match="is not a topic name") as caught:
        layout.partition_folder(tmp_path, TopicPartition(topic, 0))
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("topic", ["a", "...", "-", "a-1", "a.b_c-D9", "x" * 249, "__consumer_offsets"])
def test_a_partitions_folder_is_right_inside_and_names_it(tmp_path: Path, topic: str) -> None:
    partition = TopicPartition(topic, 12)
    folder = layout.partition_folder(tmp_path, partition)
    assert folder.resolve().parent == tmp_path.resolve()
    assert layout.parse_partition_folder(folder) == partition


@pytest.mark.parametrize("name", ["plain", "a-b", "-1", "a-12345678901", ".lock"])
def test_other_folders_are_no_partitions(tmp_path: Path, name: str) -> None:
    assert layout.parse_partition_folder(tmp_path / name) is None


def test_a_deleted_partitions_folder_is_told_apart(tmp_path: Path) -> None:
    folder = layout.partition_folder(tmp_path, TopicPartition("a", 1))
    deleted = layout.deleted_partition_folder(folder)
    assert deleted.parent == tmp_path
    assert layout.is_deleted_partition(deleted)
    assert not layout.is_deleted_partition(folder)
    assert layout.parse_partition_folder(deleted) is None


def test_a_folder_is_listed_by_what_its_files_are(tmp_path: Path) -> None:
    files = [*layout.segment_files(tmp_path, 42), *layout.segment_files(tmp_path, 7)]
    swap = layout.swap_file(tmp_path, 7, 42)
    leftovers = [
        layout.cleaned_file(tmp_path, 7, 42),
        layout.deleted_file(layout.log_file(tmp_path, 1)),
        tmp_path / "checkpoint.tmp",
    ]
    others = [layout.checkpoint_file(tmp_path), tmp_path / "notes.txt", tmp_path / "12.log"]
    listing = layout.list_partition([*files, swap, *leftovers, *others])
    assert listing.segments == [7, 42]
    assert listing.snapshots == [7, 42]
    assert listing.indexes == {7: 2, 42: 2}
    assert listing.swaps == [layout.Swap(swap, 7, 42)]
    assert listing.leftovers == leftovers
