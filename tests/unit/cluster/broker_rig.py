"""The parts of a broker that administration needs, without sockets: built on a folder, as often as a test likes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from kafkalite.clock import SystemClock
from kafkalite.cluster.local_store import LocalStore
from kafkalite.config import BrokerConfig
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.model import BrokerInfo
from kafkalite.protocol.headers import RequestHeader
from kafkalite.replication.manager import Partitions
from kafkalite.server.metrics import Metrics
from kafkalite.server.services import Call, Services
from kafkalite.server.topics import Topics
from kafkalite.storage.manager import LogManager

T = TypeVar("T")

NODE_ID = 3
CALL = Call(RequestHeader(0, 0, 0, None), "127.0.0.1")
NO_GROUPS = cast(GroupCoordinator, None)
"""Administration reaches groups by `forget_offsets` only."""


class BrokerRig:
    """Opened on a data folder; `crash` leaves everything as the end of a process would."""

    def __init__(self, data_dir: Path, options: Mapping[str, str] = {}) -> None:
        self.forgotten: list[str] = []
        self.config = BrokerConfig.from_strings({"node.id": str(NODE_ID), **options})
        self._runner: asyncio.Runner | None = asyncio.Runner()
        clock = SystemClock()
        self.logs = LogManager([data_dir], self.config, clock)
        self.store = LocalStore(data_dir, NODE_ID)
        self.store.set_broker(BrokerInfo(NODE_ID, "127.0.0.1", 9092))
        self.partitions = Partitions(self.config, self.logs, clock)
        self.topics = Topics(self.config, self.store, self.partitions, self.forgotten.append)
        self.services = Services(self.config, clock, self.store, self.partitions, self.topics, NO_GROUPS, Metrics())
        self.run(self._open())

    async def _open(self) -> None:
        await self.topics.open()
        await self.topics.finish_deletions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._runner is not None
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self.partitions.close())
        self.crash()

    def crash(self) -> None:
        """Nothing is flushed or closed; only the lock of the folder goes, as it does with a process."""
        assert self._runner is not None
        self._runner.close()
        self._runner = None
        self.logs._locks.clear()
