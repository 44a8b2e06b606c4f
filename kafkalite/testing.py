"""A broker for tests: `EmbeddedBroker` runs one in a process of its own; pytest has it as fixture `kafkalite_broker`.

    with EmbeddedBroker({"num.partitions": "3"}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

The package brings the fixture along as a pytest plugin: a test just takes `kafkalite_broker`. It is one broker for the
whole session (one per worker under pytest-xdist), so use topic and group names that are a test's own. Its settings are
the fixture `kafkalite_config`, which a conftest.py may override.

Invariants: no broker outlives the process that started it, however that ends. The broker's standard error goes into a
file, so that it never blocks and an error can quote it. This module imports nothing of kafkalite, because every run of
pytest loads it.
"""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

_READY: Final = "kafkalite ready on "
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 30.0
_QUOTED_CHARACTERS: Final = 5_000

# Standard input is a pipe whose other end only the parent holds, so its end is the parent's, even by kill -9. Linux's
# PR_SET_PDEATHSIG would need code between fork and exec, and fires when the *thread* that started the broker ends.
# A broker that hangs has 15 seconds to stop as it should.
_SERVE_UNTIL_PARENT_ENDS: Final = """
import os, runpy, signal, threading, time
def watch():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(15)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("kafkalite", run_name="__main__", alter_sys=True)
"""


class BrokerFailed(Exception):
    """The broker did not start, or did not stop; the message quotes what it wrote to standard error."""


class EmbeddedBroker:
    """A broker on a free port of 127.0.0.1, in its own process. Use as a context manager, or `start` and `close` it."""

    def __init__(self, config: Mapping[str, str] | None = None, data: Path | None = None) -> None:
        """`config` has Kafka's names, as in `{"num.partitions": "3"}`. Without `data`, a temporary folder is used."""
        self.config = dict(config or {})
        self.port = _free_port()
        """Stays the same over restarts."""
        self._folder = tempfile.TemporaryDirectory(prefix="kafkalite-")
        self.data = data or Path(self._folder.name, "data")
        self._stderr = Path(self._folder.name, "stderr.log")
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Starts the broker; returns when it accepts connections, or raises `BrokerFailed`."""
        if self._process is not None:
            raise BrokerFailed(f"the broker on {self.bootstrap} is running already; use restart()")
        arguments = ["serve", "--data", str(self.data), "--listen", self.bootstrap]
        for name, value in self.config.items():
            arguments += ["--set", f"{name}={value}"]
        with self._stderr.open("ab") as stderr:
            process = self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE_UNTIL_PARENT_ENDS, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop the broker
            )
        try:
            self._wait_until_ready(process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> int:
        """Asks the broker to stop, as an operator would, and waits until it has; gives its exit code."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"the broker did not stop within {_STOP_SECONDS:g} s and was killed") from None
        return self._ended()

    def kill(self) -> None:
        """Ends the broker as a crash would (SIGKILL)."""
        self._running().kill()
        self._ended()

    def restart(self) -> Self:
        """Stops the broker if it runs, and starts it with the same data on the same port."""
        if self._process is not None:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stops the broker if it runs, and removes its temporary folder."""
        try:
            if self._process is not None:
                self.stop()
        finally:
            self._folder.cleanup()

    def stderr(self) -> str:
        """What the broker has written to standard error, over all its starts."""
        return self._stderr.read_text(errors="replace")

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        overdue = threading.Timer(_START_SECONDS, process.kill)
        overdue.start()
        try:
            for line in process.stdout:
                if line.startswith(_READY):
                    return
        finally:
            overdue.cancel()
        code = process.wait()
        if code == -signal.SIGKILL:
            raise self._failure(f"the broker was not ready within {_START_SECONDS:g} s")
        raise self._failure(f"the broker ended with {code} before it was ready")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BrokerFailed("the broker is not running; call start() first")
        return self._process

    def _ended(self) -> int:
        process = self._running()
        self._process = None
        with process:  # waits, and closes the pipes
            pass
        return process.returncode

    def _failure(self, what: str) -> BrokerFailed:
        said = self.stderr()[-_QUOTED_CHARACTERS:].strip()
        return BrokerFailed(f"{what}. Its standard error:\n{said or '(nothing)'}")


def _free_port() -> int:
    """A free port below those that systems give to outgoing connections.

    So nobody else gets it while the broker is down. A port from above can even be taken by the very client that tries
    to reach the broker: TCP lets it connect to itself.
    """
    while True:
        port = secrets.choice(range(20_000, 32_768))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


if "pytest" in sys.modules:
    import pytest

    @pytest.fixture(scope="session")
    def kafkalite_config() -> Mapping[str, str]:
        """The settings of `kafkalite_broker`; override this fixture to change them."""
        return {}

    @pytest.fixture(scope="session")
    def kafkalite_broker(kafkalite_config: Mapping[str, str]) -> Iterator[EmbeddedBroker]:
        """A running broker, one for the whole session; clients connect to `kafkalite_broker.bootstrap`."""
        with EmbeddedBroker(kafkalite_config) as broker:
            yield broker
