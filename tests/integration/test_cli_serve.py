"""`kafkalite serve`: from the ready line to a clean stop, and every way not to start."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.testing import EmbeddedBroker
from tests.integration.cli_process import COMMAND, environment, kafkalite


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_where_it_is_ready_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(f'log.dirs = "{tmp_path / "data"}"\n[num]\npartitions = 7\n')
    command = [*COMMAND, "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("kafkalite ready on 127.0.0.1:")
            bootstrap = line.split()[-1]
            assert kafkalite("topics", "create", "t", bootstrap=bootstrap).exit_code == 0
            assert kafkalite("topics", "list", bootstrap=bootstrap).text.splitlines()[1].split() == ["t", "7", "1"]
            process.send_signal(number)
            _, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr


def test_serving_loads_neither_typer_nor_rich_nor_numpy() -> None:
    script = (
        "import sys; from kafkalite.cli.serve import serve; import kafkalite.cli.main, kafkalite.server.broker;"
        "print([name for name in ('typer', 'rich', 'pydantic', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"


def test_client_commands_load_neither_numpy_nor_the_broker() -> None:
    script = (
        "import sys; import kafkalite.cli.commands, kafkalite.client.admin, kafkalite.client.simple;"
        "print([name for name in ('numpy', 'pyarrow', 'asyncio', 'kafkalite.server') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "retention.mss=1"], "there is no option 'retention.mss'; did you mean 'retention.ms'?"),
        (["--set", "num.partitions=many"], "num.partitions='many' is not a whole number"),
        (["--set", "num.partitions"], "write NAME=VALUE"),
        (["--listen", "9092"], "'9092' is not HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "--insecure"),
        (["--config", "/nowhere/broker.toml"], "cannot read /nowhere/broker.toml"),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_a_wrong_configuration_ends_with_2_and_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = kafkalite("serve", "--data", str(tmp_path / "data"), *arguments)
    assert ended.exit_code == 2
    assert ended.stderr.startswith("error: ")
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_an_address_in_use_ends_with_1_and_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = kafkalite("serve", "--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert ended.exit_code == 1
    assert "error: cannot listen: " in ended.stderr
    assert str(port) in ended.stderr
    assert "--listen" in ended.stderr


def test_a_data_directory_in_use_ends_with_1_and_names_it() -> None:
    with EmbeddedBroker() as broker:
        ended = kafkalite("serve", "--data", str(broker.data), "--listen", "127.0.0.1:0")
    assert ended.exit_code == 1
    assert ended.stderr.startswith(f"error: the data directory {broker.data} is in use by another broker")


def test_a_data_directory_that_cannot_be_ends_with_1_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = kafkalite("serve", "--data", str(tmp_path / "file" / "data"), "--listen", "127.0.0.1:0")
    assert ended.exit_code == 1
    assert ended.stderr.startswith(f"error: cannot use {tmp_path / 'file' / 'data'}: Not a directory")
