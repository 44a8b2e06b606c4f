"""One flipped bit anywhere in a log's folder: never a wrong record, never a silent loss, never a log that cannot open.

A bit of a flushed batch costs at most that batch, loudly. A bit of a side file (index, time index, snapshot,
checkpoint) costs nothing. A bit above the recovery point may end the log there, as a torn write does.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Trials
from tests.support.damaged_log import check_damaged_log
from tests.support.stored_log import End, Place, StoredLog, make_stored_log

pytestmark = pytest.mark.usefixtures("without_fsync", "quietly")

SHARDS = 4
CASES = [(end, is_compacted) for end in End for is_compacted in (False, True)]


def flip_a_bit(folder: Path, rng: random.Random) -> tuple[Path, int]:
    """One bit of one file: a log half of the time, and there in a batch's header half of the time."""
    files = sorted(path for path in folder.iterdir() if path.stat().st_size)
    logs = [path for path in files if path.suffix == ".log"]
    path = rng.choice(logs if rng.random() < 0.5 else files)
    content = bytearray(path.read_bytes())
    position = rng.randrange(len(content))
    if path.suffix == ".log" and rng.random() < 0.5:
        starts = [start for start in range(len(content) - 61) if content[start + 16] == 2]
        position = rng.choice(starts) + rng.randrange(61)
    content[position] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return path, position


def check_flip(stored: StoredLog, copy: Path, path: Path, position: int) -> None:
    if path.suffix != ".log":
        check_damaged_log(stored, copy, is_log_damaged=False)
        return
    hit = stored.place_of(path.name, position)
    if hit.offsets.start < stored.recovery_point:
        check_damaged_log(stored, copy, may_refuse=stored.refusable(hit))
    elif not is_undecidable(stored, hit, position):
        check_damaged_log(stored, copy, may_lose_from=hit.offsets.start)


def is_undecidable(stored: StoredLog, hit: Place, position: int) -> bool:
    """The base offset of the last batch of a compacted log, unflushed: a follower may have been given such a gap.

    The format leaves it out of the CRC, and nothing follows that could contradict it.
    """
    is_last_and_unflushed = hit == stored.places[-1] and hit.offsets.start >= stored.recovery_point
    return stored.config.is_compacted and is_last_and_unflushed and position < hit.start + 8


@pytest.mark.parametrize("name", ["checkpoint", "*.snapshot", "*.index", "*.timeindex"])
def test_a_flipped_bit_in_each_byte_of_the_newest_side_files_costs_nothing(
    tmp_path: Path, name: str, count: Callable[[int, int], int]
) -> None:
    stored = make_stored_log(tmp_path / "stored", End.CLOSED, batches=9)
    newest = max(stored.folder.glob(name))
    content = newest.read_bytes()
    for position in range(0, len(content), count(3, 1)):
        copy = stored.copy_to(tmp_path / "copy")
        flipped = content[position] ^ 1 << position % 8
        (copy / newest.name).write_bytes(content[:position] + bytes([flipped]) + content[position + 1 :])
        check_damaged_log(stored, copy, is_log_damaged=False)
        shutil.rmtree(copy)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_flipped_bit_never_gives_a_wrong_record_nor_takes_a_good_one(
    tmp_path: Path, trials: Trials, shard: int
) -> None:
    stored = [
        make_stored_log(tmp_path / f"{end.name}-{is_compacted}", end, is_compacted=is_compacted, batches=18)
        for end, is_compacted in CASES
    ]

    def trial(seed: int) -> None:
        rng = random.Random(f"flip {seed}")
        chosen = stored[seed // SHARDS % len(stored)]
        copy = chosen.copy_to(tmp_path / "copy")
        try:
            path, position = flip_a_bit(copy, rng)
            try:
                check_flip(chosen, copy, path, position)
            except Exception as error:
                error.add_note(f"{chosen.folder.name}: a bit of byte {position} of {path.name} was flipped")
                raise
        finally:
            shutil.rmtree(copy)

    trials(trial, small=500, large=20_000, shard=shard, shards=SHARDS)
