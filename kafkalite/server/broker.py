"""The broker: where all rooms are joined, and its life from start to stop, in order.

    start   lock and recover the data folder → read the groups → listen → say that it is ready
    stop    stop accepting → answer what waits → flush and close every log, so that the next start has nothing to check

Both SIGTERM and Ctrl-C stop it; a second one stops it at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from kafkalite.client.address import Address
from kafkalite.clock import Clock, SystemClock
from kafkalite.cluster.local_store import LocalStore
from kafkalite.config import BrokerConfig
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.groups.journal import OffsetsTopic
from kafkalite.model import BrokerInfo
from kafkalite.options import ConfigError
from kafkalite.replication.manager import Partitions
from kafkalite.replication.upkeep import Upkeep
from kafkalite.server.connection import Connection
from kafkalite.server.listener import Listener
from kafkalite.server.metrics import Metrics, TimedSelector
from kafkalite.server.services import Services
from kafkalite.server.topics import Topics
from kafkalite.storage.manager import LogManager

logger = logging.getLogger(__name__)

_WILDCARDS: Final = ("0.0.0.0", "::")


class Broker:
    """One broker. `start` and `stop` it on a running event loop."""

    def __init__(self, config: BrokerConfig, clock: Clock | None = None) -> None:
        """Take hold of the data directories. Blocking, for a moment."""
        self.config = config
        self._clock = clock or SystemClock()
        self.address = _address("listeners", config.listeners)
        if self.address.host in _WILDCARDS and not config.advertised_listeners:
            raise ConfigError(
                f"listeners={config.listeners}: clients cannot connect to {self.address.host}; set "
                "advertised.listeners=HOST:PORT to the name or address by which they reach this machine"
            )
        data_dirs = [Path(folder) for folder in config.log_dirs]
        self._logs = LogManager(data_dirs, config, self._clock)
        self._store = LocalStore(data_dirs[0], config.node_id)

    async def start(self) -> None:
        """Recover, and accept connections."""
        _raise_open_files_limit()
        config = self.config
        self._partitions = Partitions(config, self._logs, self._clock)
        groups = GroupCoordinator(config, self._clock, OffsetsTopic(config, self._clock, self._store, self._partitions))
        topics = Topics(config, self._store, self._partitions, groups.forget_topic)
        await topics.open()
        groups.start()
        await groups.loaded()
        await topics.finish_deletions()
        self.services = Services(config, self._clock, self._store, self._partitions, topics, groups, Metrics())
        self._upkeep = Upkeep(config, self._partitions)
        self._upkeep.start()
        self.listener = Listener(self.services, self.services.metrics)
        self.address = Address(self.address.host, await self.listener.start(*self.address, Connection))
        advertised = self.address
        if config.advertised_listeners:
            advertised = _address("advertised.listeners", config.advertised_listeners)
        self._store.set_broker(BrokerInfo(config.node_id, *advertised))

    async def stop(self) -> None:
        """Answer what can be answered, and leave everything on disk."""
        await self.services.groups.stop()
        for partition in self._partitions:
            partition.waiters.wake_all()
        await self.listener.stop(self.config.shutdown_timeout_ms / 1000)
        await self.services.topics.close()
        await self._upkeep.stop()
        await self._partitions.close()


def _address(option: str, text: str) -> Address:
    try:
        return Address.parse(text.removeprefix("PLAINTEXT://"))
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _raise_open_files_limit() -> None:
    """A connection has two descriptors, a segment one: the usual soft limit of 1,024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(config: BrokerConfig, metrics: str | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. Says on standard output where, once connections are accepted."""
    selector = TimedSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(_serve(config, metrics, selector))


async def _serve(config: BrokerConfig, metrics: str | None, selector: TimedSelector) -> None:
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    broker = Broker(config)
    await broker.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_once, number, asked_to_stop)
    gc.collect()
    gc.freeze()  # what is there now stays: the collector need not look at it again
    scrapes = None
    if metrics is not None:
        from kafkalite.server.exposition import BrokerCollector, serve_metrics  # costs 30 ms, and few ask for it

        scrapes = await serve_metrics(
            BrokerCollector(broker.services, broker.listener, selector), *_address("--metrics", metrics)
        )
        logger.info("metrics on http://%s:%d/metrics", *scrapes.sockets[0].getsockname()[:2])
    sys.stdout.write(f"kafkalite ready on {broker.address}\n")
    sys.stdout.flush()
    await asked_to_stop.wait()
    logger.info("stopping")
    if scrapes is not None:
        scrapes.close()
    await broker.stop()


def _stop_once(number: signal.Signals, asked_to_stop: asyncio.Event) -> None:
    asyncio.get_running_loop().remove_signal_handler(number)
    asked_to_stop.set()
