"""Every snippet of the README, run: the Python ones as they stand, the commands against a broker of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.testing import EmbeddedBroker

README = (Path(__file__).parents[2] / "README.md").read_text()
SETUP = "make setup"
SERVE = "kafkalite serve "


@pytest.mark.parametrize("snippet", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_a_python_snippet_runs(snippet: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(snippet, "README.md", "exec"), {})
    assert "b'paid'" in capsys.readouterr().out


def test_the_quick_starts_commands_run(tmp_path: Path) -> None:
    (snippet,) = (text for text in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if SERVE in text)
    setup, serve, *commands = snippet.splitlines()
    assert setup.startswith(SETUP)
    assert serve.startswith(SERVE)
    with EmbeddedBroker(data=tmp_path / "kafkalite-data") as broker:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KAFKALITE_BOOTSTRAP": broker.bootstrap,
        }
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
            if "consume" in command:
                assert sorted(done.stdout.split()) == ["ann", "ann", "bob", "cart", "home", "paid"]
