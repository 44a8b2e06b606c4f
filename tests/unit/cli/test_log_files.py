"""Looking into a log's files: every damage is found where it is, and nothing is changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafkalite.cli.commands import app
from kafkalite.cli.log_files import DamagedRange, NoLog, partition_folders, segments, walk
from kafkalite.storage.scan import Placed
from tests.support.stored_log import End, StoredLog, make_stored_log


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compacted"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StoredLog:
    return make_stored_log(tmp_path_factory.mktemp("data") / "chaos-0", End.CLOSED, is_compacted=request.param)


@pytest.fixture
def folder(stored: StoredLog, tmp_path: Path) -> Path:
    return stored.copy_to(tmp_path / "data" / "chaos-0")


def look(folder: Path) -> tuple[list[Placed], list[DamagedRange]]:
    found = [each for segment in segments(folder) for each in walk(segment)]
    return [each for each in found if isinstance(each, Placed)], [
        each for each in found if isinstance(each, DamagedRange)
    ]


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)


def test_every_batch_of_a_good_log_is_found(stored: StoredLog, folder: Path) -> None:
    good, damaged = look(folder)
    assert not damaged
    assert [range(each.batch.base_offset, each.batch.next_offset) for each in good] == [
        p.offsets for p in stored.places
    ]


def test_a_log_without_its_indexes_is_still_good(folder: Path) -> None:
    for path in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        path.unlink()
    assert look(folder)[1] == []


@pytest.mark.parametrize("field", [0, 3, 7, 10, 12, 15, 16, 20, 30, 60, 70])
def test_a_flipped_bit_anywhere_in_a_batch_is_found_where_it_is(stored: StoredLog, folder: Path, field: int) -> None:
    for hit in (stored.places[3], stored.places[len(stored.places) // 2]):
        flip(folder / hit.file, hit.start + field)
        good, (damaged,) = look(folder)
        assert (damaged.start, damaged.end) == (hit.start, hit.end)
        assert damaged.first_offset <= hit.offsets.start
        assert damaged.next_offset is not None
        assert damaged.next_offset >= hit.offsets.stop
        assert len(good) == len(stored.places) - 1
        flip(folder / hit.file, hit.start + field)


@pytest.mark.parametrize("has_indexes", [True, False])
def test_a_base_offset_that_is_off_by_one_is_found_where_it_is(
    stored: StoredLog, folder: Path, has_indexes: bool
) -> None:
    if not has_indexes:
        if stored.config.is_compacted:
            pytest.skip("only an index tells a gap of compaction from such damage")
        for path in folder.glob("*.index"):
            path.unlink()
    for hit in stored.places:
        path = folder / hit.file
        content = path.read_bytes()
        path.write_bytes(content[: hit.start] + (hit.offsets.start + 1).to_bytes(8, "big") + content[hit.start + 8 :])
        _, damaged = look(folder)
        assert [each.start for each in damaged] == [hit.start]
        path.write_bytes(content)


def test_a_file_that_was_cut_short_has_a_damaged_end(stored: StoredLog, folder: Path) -> None:
    last = stored.places[-1]
    path = folder / last.file
    for size in (last.end - 1, last.start + 30, last.start):
        path.write_bytes(path.read_bytes()[:size])
        _, (damaged,) = look(folder)
        assert damaged.start == last.start
        assert damaged.first_offset == last.offsets.start


def test_a_segment_that_lost_whole_batches_is_noticed(stored: StoredLog, folder: Path) -> None:
    if stored.config.is_compacted:
        pytest.skip("there its index goes with it, and compaction may have left the gap")
    first = stored.places[0].file
    inside = [place for place in stored.places if place.file == first]
    path = folder / first
    path.write_bytes(path.read_bytes()[: inside[-1].start])
    _, (damaged,) = look(folder)
    assert (damaged.first_offset, damaged.next_offset) == (inside[-1].offsets.start, inside[-1].offsets.stop)


def test_looking_changes_nothing(folder: Path) -> None:
    flip(next(folder.glob("*.log")), 100)
    for path in folder.glob("*.index"):
        path.unlink()
    before = content_of(folder)
    look(folder)
    assert content_of(folder) == before


def test_a_segment_that_is_removed_meanwhile_is_left_out(folder: Path) -> None:
    files = segments(folder)
    files[0].path.unlink()
    assert list(walk(files[0])) == []


def test_a_data_directory_has_its_partitions(folder: Path) -> None:
    data = folder.parent
    (data / "not-a-log-7").mkdir()
    (data / "cluster.json").touch()
    assert partition_folders(data) == [folder] == partition_folders(folder)


def test_a_place_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match="there are no logs in it"):
        partition_folders(tmp_path)
    with pytest.raises(NoLog, match="is not a directory"):
        partition_folders(tmp_path / "none")


def test_verify_names_the_damaged_range_and_fails(stored: StoredLog, folder: Path) -> None:
    good = CliRunner().invoke(app, ["log", "verify", str(folder.parent)])
    assert good.exit_code == 0
    assert f"{len(stored.places)} batches" in good.stdout
    hit = stored.places[3]
    flip(folder / hit.file, hit.start + 70)
    bad = CliRunner().invoke(app, ["log", "verify", str(folder.parent)])
    assert bad.exit_code == 1
    assert f"{hit.file}: bytes {hit.start}–{hit.end - 1}, offsets" in bad.stdout
    assert "the CRC does not match" in bad.stdout


def test_dump_prints_batches_and_records(stored: StoredLog, folder: Path) -> None:
    result = CliRunner().invoke(app, ["log", "dump", str(folder), "--records"])
    assert result.exit_code == 0
    assert result.stdout.count("CRC ok") == len(stored.places)
    assert result.stdout.count("  key ") == len(stored.intact.rows)
    assert "epoch 0" in result.stdout
