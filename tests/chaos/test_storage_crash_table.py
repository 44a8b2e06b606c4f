"""Every way in which the end of a log can be torn, and what the next open makes of it (R3).

Below the recovery point the disk had promised every byte: what is missing there is refused, loudly. Above it the log is
cut where the damage begins. Every damaged folder is opened again and again, read, and appended to.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalite.records.batch import HEADER_SIZE, RecordBatch
from tests.support.content import batch_of
from tests.support.damaged_log import check_damaged_log
from tests.support.stored_log import End, StoredLog, make_stored_log

pytestmark = pytest.mark.usefixtures("without_fsync", "quietly")

ENDS = [pytest.param(end, id=end.value.replace(" ", "-")) for end in End]
KINDS = [pytest.param(False, id="plain"), pytest.param(True, id="compacted")]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_compacted", KINDS)
def test_last_segment_cut_at_every_byte_of_its_last_three_batches(
    tmp_path: Path, end: End, is_compacted: bool, count: Callable[[int, int], int]
) -> None:
    stored = make_stored_log(tmp_path / "stored", end, is_compacted=is_compacted)
    step = count(5, 1) if is_compacted else 1
    last_three = [place for place in stored.places if place.file == stored.last_segment][-3:]
    for hit in last_three:
        first = hit.offsets.start
        is_flushed = first < stored.recovery_point
        may_refuse = range(stored.refusable(hit).start, stored.recovery_point) if is_flushed else range(0)
        may_lose_from = max(first, stored.recovery_point)
        for size in range(hit.start, hit.end, step):
            copy = stored.copy_to(tmp_path / "copy")
            os.truncate(copy / hit.file, size)
            check_damaged_log(stored, copy, may_refuse=may_refuse, may_lose_from=may_lose_from)
            shutil.rmtree(copy)


def strange_tails(stored: StoredLog) -> dict[str, bytes]:
    batch = batch_of(stored.history.seed, 50, 0)
    parsed = RecordBatch(memoryview(batch))
    tails = {f"{count} zeros": bytes(count) for count in (1, 60, 61, 62, 4096, 300_000)}
    tails |= {f"{count} random bytes": random.Random(count).randbytes(count) for count in (1, 17, 61, 5000)}
    tails["half a header"] = bytes(batch[: HEADER_SIZE // 2])
    end_offset = stored.history.next_offset
    for name, base_offset in (("low", end_offset - 1), ("very low", 0), ("high", end_offset + 1)):
        parsed.assign(base_offset, 3)
        if not (name == "high" and stored.config.is_compacted):  # there it is what a follower may have been given
            tails[f"a batch with a base offset too {name}"] = bytes(batch)
    parsed.assign(end_offset, 3)
    tails["a header and no body"] = bytes(batch[:HEADER_SIZE])
    tails["a header and a short body"] = bytes(batch[:-1])
    tails["a batch and a flipped bit"] = bytes([*batch[:-1], batch[-1] ^ 4])
    parsed.assign(end_offset, 1)
    tails["a batch of an old epoch"] = bytes(batch)
    return tails


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_compacted", KINDS)
def test_whatever_follows_the_last_batch_is_cut_off(tmp_path: Path, end: End, is_compacted: bool) -> None:
    stored = make_stored_log(tmp_path / "stored", end, is_compacted=is_compacted)
    for name, tail in strange_tails(stored).items():
        copy = stored.copy_to(tmp_path / "copy")
        with (copy / stored.last_segment).open("ab") as file:
            file.write(tail)
        try:
            check_damaged_log(stored, copy, is_log_damaged=False)
        except Exception as error:
            error.add_note(f"appended: {name}")
            raise
        shutil.rmtree(copy)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_compacted", KINDS)
def test_a_segment_file_cut_or_emptied_in_the_middle_of_the_log(tmp_path: Path, end: End, is_compacted: bool) -> None:
    stored = make_stored_log(tmp_path / "stored", end, is_compacted=is_compacted)
    files = sorted({place.file for place in stored.places})
    for file in files[:-1]:
        hit = [place for place in stored.places if place.file == file]
        next_base = next(place.offsets[0] for place in stored.places if place.file > file)
        for place in hit:
            for size in (place.start, place.start + 20, place.end - 1):
                copy = stored.copy_to(tmp_path / "copy")
                os.truncate(copy / file, size)
                is_flushed = place.offsets.start < stored.recovery_point
                is_all_flushed = next_base <= stored.recovery_point
                check_damaged_log(
                    stored,
                    copy,
                    may_refuse=range(stored.refusable(place).start, next_base) if is_flushed else range(0),
                    may_lose_from=None if is_all_flushed else max(place.offsets.start, stored.recovery_point),
                )
                shutil.rmtree(copy)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_compacted", KINDS)
@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "*.snapshot", "checkpoint"])
def test_missing_and_empty_side_files_lose_nothing(tmp_path: Path, end: End, is_compacted: bool, pattern: str) -> None:
    stored = make_stored_log(tmp_path / "stored", end, is_compacted=is_compacted)
    for is_emptied in (False, True):
        copy = stored.copy_to(tmp_path / "copy")
        for path in copy.glob(pattern):
            path.write_bytes(b"") if is_emptied else path.unlink()
        # Without any snapshot a compacted log cannot know a producer whose last batch was compacted away.
        check_damaged_log(stored, copy, is_log_damaged=is_compacted and pattern == "*.snapshot")
        shutil.rmtree(copy)
