"""The checkpoint file: replaced whole, and read only if it is exactly what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.storage import checkpoint, disk, layout
from kafkalite.storage.checkpoint import Checkpoint
from kafkalite.storage.epochs import EpochStart

CHECKPOINT = Checkpoint(100, 5, 90, 40, (EpochStart(0, 5), EpochStart(3, 60)))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, CHECKPOINT)
    assert checkpoint.read(tmp_path) == CHECKPOINT
    assert "recovery_point 100" in layout.checkpoint_file(tmp_path).read_text(), "an operator can read it"


def test_any_flipped_bit_and_any_cut_is_noticed(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, CHECKPOINT)
    path = layout.checkpoint_file(tmp_path)
    good = path.read_bytes()
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        assert checkpoint.read(tmp_path) is None, bit
    for length in range(len(good)):
        path.write_bytes(good[:length])
        assert checkpoint.read(tmp_path) is None


def test_a_crash_while_writing_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, CHECKPOINT)

    def crash(*_: object) -> None:
        raise OSError("no more")

    monkeypatch.setattr(disk, "rename", crash)
    with pytest.raises(OSError, match="no more"):
        checkpoint.write(tmp_path, CHECKPOINT._replace(recovery_point=200))
    assert checkpoint.read(tmp_path) == CHECKPOINT


def test_a_missing_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.read(tmp_path) is None
