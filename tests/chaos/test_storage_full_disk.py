"""A full disk in every phase of a log's life: a retriable error, nothing lost, and on it goes when space returns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.child_process import ROOT

AS_ROOT = ["unshare", "--mount"]
AS_USER = ["unshare", "--map-root-user", "--mount"]


def namespace(folder: Path) -> list[str] | None:
    """The command in front of another that lets it mount a disk which nobody else sees; None if there is none."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return None
    for prefix in (AS_ROOT, AS_USER):
        probe = [*prefix, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return prefix
    return None


def test_a_full_disk_loses_nothing_and_the_log_goes_on_when_space_returns(
    tmp_path: Path, count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    prefix = namespace(tmp_path)
    if prefix is None:
        pytest.skip("neither `unshare -m` nor `unshare -rm` may mount a tmpfs here")
    only = request.config.getoption("--seed")
    seeds = [str(only), "1"] if only is not None else ["0", str(count(6, 100))]
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "tests.support.full_disk_child", str(tmp_path), *seeds],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert len(done.stdout.split()) == int(seeds[1])
