"""An fsync of logs that a test holds back, lets go, or makes fail."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kafkalite.storage import disk
from kafkalite.storage.disk import OpenFile


class DiskGate:
    """While it is closed, every fsync of a log waits at it. `begin` when the logs are open: making one fsyncs too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self.passed = 0
        self._is_open = threading.Event()
        self._arrived = threading.Semaphore(0)
        self._real = disk.sync_data
        self._monkeypatch = monkeypatch
        self._is_open.set()

    def begin(self) -> None:
        self._monkeypatch.setattr(disk, "sync_data", self._sync)

    def _sync(self, file: OpenFile) -> None:
        if file.path.suffix == ".log":
            self._arrived.release()
            assert self._is_open.wait(30)
            if self.error is not None:
                raise self.error
            self.passed += 1
        self._real(file)

    def close(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    async def arrival(self) -> None:
        """Until an fsync is at the gate."""
        assert await asyncio.to_thread(self._arrived.acquire, timeout=10), "no fsync has come"
