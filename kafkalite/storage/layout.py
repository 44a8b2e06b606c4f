"""All file names of a data directory, made and read here only.

DATA/.lock                                          held while a broker uses the directory
DATA/cluster.json                                   the embedded broker's topics and their options
DATA/TOPIC-PARTITION/                               one folder a partition
    00000000000000000042.log                        the batches from offset 42 on
    00000000000000000042.index  .timeindex          sparse indexes of that file
    00000000000000000042.snapshot                   what is known of producers before offset 42
    checkpoint                                      recovery point, log start, high watermark, epochs
    00000000000000000042-00000000000000000099.cleaned   a compaction's result, being written
    00000000000000000042-00000000000000000099.swap      the same, complete: it replaces the segments in [42, 99)
    *.tmp  *.deleted                                left by a crash: removed at the next open
DATA/TOPIC-PARTITION.HEX-delete/                    a deleted partition, being removed
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.model import TopicPartition, check_topic_name
from kafkalite.storage.disk import TEMPORARY

DELETED: Final = ".deleted"

_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot)")
_SWAP_FILE: Final = re.compile(r"(\d{20})-(\d{20})\.swap")
_PARTITION_FOLDER: Final = re.compile(r"(.+)-(\d{1,10})")
_DELETED_FOLDER: Final = re.compile(r".+\.[0-9a-f]{16}-delete")


def lock_file(data_dir: Path) -> Path:
    return data_dir / ".lock"


def cluster_file(data_dir: Path) -> Path:
    return data_dir / "cluster.json"


def partition_folder(data_dir: Path, partition: TopicPartition) -> Path:
    """The folder of a partition; a name that is not a topic's raises, so the result is always inside `data_dir`."""
    return data_dir / f"{check_topic_name(partition.topic)}-{partition.partition:d}"


def deleted_partition_folder(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.{secrets.token_hex(8)}-delete")


def is_deleted_partition(folder: Path) -> bool:
    return _DELETED_FOLDER.fullmatch(folder.name) is not None


def parse_partition_folder(folder: Path) -> TopicPartition | None:
    match = _PARTITION_FOLDER.fullmatch(folder.name)
    return TopicPartition(match[1], int(match[2])) if match else None


def log_file(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020d}.log"


def offset_index_file(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020d}.index"


def time_index_file(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020d}.timeindex"


def snapshot_file(folder: Path, offset: int) -> Path:
    return folder / f"{offset:020d}.snapshot"


def checkpoint_file(folder: Path) -> Path:
    return folder / "checkpoint"


def cleaned_file(folder: Path, base_offset: int, end_offset: int) -> Path:
    return folder / f"{base_offset:020d}-{end_offset:020d}.cleaned"


def swap_file(folder: Path, base_offset: int, end_offset: int) -> Path:
    return folder / f"{base_offset:020d}-{end_offset:020d}.swap"


def index_files(folder: Path, base_offset: int) -> list[Path]:
    return [offset_index_file(folder, base_offset), time_index_file(folder, base_offset)]


def segment_files(folder: Path, base_offset: int) -> list[Path]:
    """Every file that goes when this segment goes; the log itself last, so that a crash midway can be repeated."""
    return [
        snapshot_file(folder, base_offset),
        *index_files(folder, base_offset),
        log_file(folder, base_offset),
    ]


def deleted_file(path: Path) -> Path:
    return path.with_name(path.name + DELETED)


class Swap(NamedTuple):
    """A complete compaction result that waits to replace the segments whose base is in [base_offset, end_offset)."""

    path: Path
    base_offset: int
    end_offset: int


class Listing(NamedTuple):
    """What a partition's folder holds, sorted by offset."""

    segments: list[int]
    snapshots: list[int]
    indexes: Counter[int]
    """How many of its two index files a segment has."""
    swaps: list[Swap]
    leftovers: list[Path]


def list_partition(paths: Iterable[Path]) -> Listing:
    listing = Listing([], [], Counter(), [], [])
    for path in paths:
        if match := _SEGMENT_FILE.fullmatch(path.name):
            base_offset, kind = int(match[1]), match[2]
            if kind == "log":
                listing.segments.append(base_offset)
            elif kind == "snapshot":
                listing.snapshots.append(base_offset)
            else:
                listing.indexes[base_offset] += 1
        elif match := _SWAP_FILE.fullmatch(path.name):
            listing.swaps.append(Swap(path, int(match[1]), int(match[2])))
        elif path.name.endswith((TEMPORARY, DELETED, ".cleaned")):
            listing.leftovers.append(path)
    listing.segments.sort()
    listing.snapshots.sort()
    return listing
