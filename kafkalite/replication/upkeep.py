"""What a broker does to its logs from time to time: retention, recovery points, compaction.

Each is a task of its own that waits, looks, and lets a thread do what waits for the disk. One that fails says so and
is tried again at its next turn: none may end the others, or the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kafkalite.config import BrokerConfig
from kafkalite.replication.manager import Partitions
from kafkalite.storage.checkpoint import Checkpoint
from kafkalite.storage.cleaner import Cleaning, CleaningCancelled
from kafkalite.storage.log import PartitionLog

logger = logging.getLogger(__name__)


class Upkeep:
    """The periodic tasks of one broker."""

    def __init__(self, config: BrokerConfig, partitions: Partitions) -> None:
        self._config = config
        self._partitions = partitions
        self._logs = partitions.logs
        self._tasks: list[asyncio.Task[None]] = []
        self._saved: dict[PartitionLog, Checkpoint] = {}
        self._cleaning: Cleaning | None = None

    def start(self) -> None:
        config = self._config
        self._tasks = [
            asyncio.create_task(_every(config.log_retention_check_interval_ms, self.retain)),
            asyncio.create_task(_every(config.log_flush_offset_checkpoint_interval_ms, self.checkpoint)),
            asyncio.create_task(_every(config.log_cleaner_backoff_ms, self.clean)),
        ]

    async def stop(self) -> None:
        """Ends within the step that a running compaction is at; what it has put in place stays."""
        if self._cleaning is not None:
            self._cleaning.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def retain(self) -> None:
        self._logs.retain()
        await self._partitions.remove_obsolete_files()

    async def checkpoint(self) -> None:
        """Save what has changed of every log's recovery point, log start and high watermark."""
        logs = [log for log in self._logs.logs.values() if log.offline_reason is None]
        self._saved = {log: self._saved[log] for log in logs if log in self._saved}
        for log in logs:
            state = log.checkpoint()
            if self._saved.get(log) != state:
                await self._partitions.save_checkpoint(log, state)
                self._saved[log] = state

    async def clean(self) -> None:
        """Compact logs one after the other until none needs it."""
        while (plan := self._logs.plan_cleaning()) is not None:
            log, cleaning = plan
            self._cleaning = cleaning
            running = asyncio.ensure_future(asyncio.to_thread(cleaning.run))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                cleaning.cancel()
                await asyncio.wait([running])
                raise
            except CleaningCancelled:
                return
            finally:
                self._cleaning = None
                log.finish_cleaning(cleaning)


async def _every(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except Exception:
            logger.exception("%s failed; it is tried again in %d ms", work.__qualname__, interval_ms)
