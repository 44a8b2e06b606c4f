"""Every example runs, as a user would start it, and says at its end what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMISES = {
    "01_a_log_on_disk.py": "nothing lost, nothing doubled: 1,000,000 of 1,000,000",
    "02_a_broker_that_is_killed.py": "nothing lost, nothing doubled: 60,000 of 60,000",
}


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_keeps_its_promise(example: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert PROMISES[example] in done.stdout
