"""The processes that are measured: a broker, or a bare server of `limits`. Each ends with its `with` block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from raw_client import Address

LIMITS = Path(__file__).with_name("limits.py")
STOP_SECONDS = 30


class Server:
    """A process that says `… ready on HOST:PORT` when it accepts connections."""

    def __init__(self, command: Sequence[str]) -> None:
        begun = perf_counter()
        self._process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.start_seconds = perf_counter() - begun
        if "ready on " not in line:
            raise RuntimeError(f"{' '.join(command)} ended with {self._process.wait()} before it was ready; see above")
        host, _, port = line.split()[-1].rpartition(":")
        self.address: Address = (host, int(port))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        with self._process:  # waits, and closes the pipe
            pass

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def resident_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_resident_bytes(self) -> int:
        """The most that was ever resident since the start."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"/proc/{self._process.pid}/status has no {name}")


def start_broker(data: Path) -> Server:
    return Server(["-m", "kafkalite", "serve", "--data", str(data), "--listen", "127.0.0.1:0"])


def start_limit(kind: str, folder: Path) -> Server:
    return Server([str(LIMITS), kind, str(folder)])
