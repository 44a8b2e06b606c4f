"""All partitions that this broker leads: made and taken away as the cluster's metadata say, flushed, and kept up.

The event loop owns them. What waits for the disk runs in threads, and comes back to the loop: flushes in a pool, so
that one slow fsync does not hold up another partition's; everything else in one thread, in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kafkalite.clock import Clock
from kafkalite.config import NEVER, BrokerConfig, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError, StorageError
from kafkalite.model import ClusterSnapshot, TopicPartition, TopicState
from kafkalite.replication.partition import Partition
from kafkalite.storage.checkpoint import Checkpoint
from kafkalite.storage.flush import Flush
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.manager import LogManager

T = TypeVar("T")

_FLUSH_THREADS: Final = 4


class Partitions:
    """The partitions of this broker, by topic and number."""

    def __init__(self, config: BrokerConfig, logs: LogManager, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.logs = logs
        self._partitions: dict[TopicPartition, Partition] = {}
        self._flush_timers: dict[TopicPartition, asyncio.TimerHandle] = {}
        self._flush_threads = ThreadPoolExecutor(_FLUSH_THREADS, thread_name_prefix="flush")
        self._disk_thread = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._running_flushes: set[asyncio.Future[None]] = set()
        self.flushes = 0
        self.flush_seconds = 0.0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def find(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get(TopicPartition(topic, partition))

    def get(self, topic: str, partition: int) -> Partition:
        """The partition, or Kafka's error for why it cannot be used."""
        key = TopicPartition(topic, partition)
        found = self._partitions.get(key)
        if found is not None:
            return found
        reason = self.logs.failed.get(key)
        if reason is not None:
            raise StorageError(f"{key} could not be opened: {reason}")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {topic!r}")

    async def on_disk(self, work: Callable[[], T]) -> T:
        """Run what waits for the disk, after all such work that came before it."""
        return await asyncio.get_running_loop().run_in_executor(self._disk_thread, work)

    # As the metadata say.

    async def open(self, snapshot: ClusterSnapshot, deleting: Iterable[str]) -> None:
        """Open every log of the data directories, finish deletions, and make what is missing."""
        gone = frozenset(deleting)
        await self.on_disk(lambda: self.logs.open(lambda partition: self._config_of(partition, snapshot, gone)))
        for partition in [partition for partition in self.logs.logs if partition.topic in gone]:
            self.logs.delete(partition)
        for topic in snapshot.topics.values():
            await self.add_topic(topic)

    def _config_of(
        self, partition: TopicPartition, snapshot: ClusterSnapshot, gone: frozenset[str]
    ) -> TopicConfig | None:
        topic = snapshot.topics.get(partition.topic)
        if topic is not None and partition.partition < len(topic.partitions):
            return self._config.topic_config(topic.config)
        return self._config.topic_defaults if partition.topic in gone else None

    async def add_topic(self, topic: TopicState) -> None:
        """Lead every partition of a topic that this broker does not lead yet."""
        config = self._config.topic_config(topic.config)
        missing = [
            (partition, self.logs.choose_folder(partition))
            for partition in topic.all_partitions
            if partition not in self.logs.logs and partition not in self.logs.failed
        ]
        made: list[PartitionLog] = []

        def make() -> None:
            for partition, folder in missing:
                made.append(self.logs.open_new(partition, folder, config))

        try:
            if missing:
                await self.on_disk(make)
        finally:  # those that could be made are there, to be used or to be removed with their topic
            for log in made:
                self.logs.add(log)
            for partition, state in zip(topic.all_partitions, topic.partitions, strict=True):
                if partition in self.logs.logs and partition not in self._partitions:
                    self._partitions[partition] = Partition(self.logs.logs[partition], state, self._flush_if_due)

    def set_config(self, topic: TopicState) -> None:
        """A topic's options have changed."""
        config = self._config.topic_config(topic.config)
        now_ms = self._clock.now_ms()
        for key in topic.all_partitions:
            if (partition := self._partitions.get(key)) is not None:
                partition.log.config = config
                self._cancel_flush_timer(key)
                partition.flushed()
                self._flush_if_due(partition, now_ms)

    async def remove_topic(self, topic: TopicState) -> None:
        """Drop a deleted topic's logs; whoever waits for them is told."""
        removed = [self._partitions.pop(key) for key in topic.all_partitions if key in self._partitions]
        for key in topic.all_partitions:
            self._cancel_flush_timer(key)
            if key in self.logs.logs:
                self.logs.delete(key)
        for partition in removed:
            partition.waiters.wake_all()
        await self.remove_obsolete_files()

    async def remove_obsolete_files(self) -> None:
        obsolete = self.logs.take_obsolete_files()
        if obsolete:
            await self.on_disk(lambda: self.logs.remove_files(obsolete))

    async def save_checkpoint(self, log: PartitionLog, state: Checkpoint) -> None:
        """Make a log's state durable. Of a log that was deleted meanwhile, there is none to save."""
        if log.offline_reason is None:
            await self.on_disk(lambda: log.write_checkpoint(state))
            log.note_checkpoint(state)

    # Flushing.

    def _flush_if_due(self, partition: Partition, now_ms: int) -> None:
        log = partition.log
        if log.offline_reason is None and log.flush_is_due(now_ms) and (flush := log.start_flush()) is not None:
            begun = self._clock.monotonic()
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._flush_threads, flush.run)
            running.add_done_callback(lambda _: self._flush_ended(partition, flush, begun))
            self._running_flushes.add(running)
            running.add_done_callback(self._running_flushes.discard)
        elif log.recovery_point < log.log_end_offset:
            self._flush_later(partition)

    def _flush_later(self, partition: Partition) -> None:
        """Look again once `flush.ms` has passed."""
        delay_ms = partition.log.config.flush_ms
        if delay_ms != NEVER and partition.id not in self._flush_timers:
            loop = asyncio.get_running_loop()
            self._flush_timers[partition.id] = loop.call_later(delay_ms / 1000, self._flush_timer, partition)

    def _flush_timer(self, partition: Partition) -> None:
        del self._flush_timers[partition.id]
        self._flush_if_due(partition, self._clock.now_ms())

    def _cancel_flush_timer(self, key: TopicPartition) -> None:
        if (timer := self._flush_timers.pop(key, None)) is not None:
            timer.cancel()

    def _flush_ended(self, partition: Partition, flush: Flush, begun: float) -> None:
        now_ms = self._clock.now_ms()
        self.flushes += 1
        self.flush_seconds += self._clock.monotonic() - begun
        try:
            partition.log.finish_flush(flush, now_ms)
        except StorageError:
            # The log is offline and has said why; whoever waits for it gets that error.
            partition.waiters.wake_all()
            return
        partition.flushed()
        self._flush_if_due(partition, now_ms)

    # The end.

    async def close(self) -> None:
        """Flush and close every log, so that the next start has nothing to check."""
        for timer in self._flush_timers.values():
            timer.cancel()
        if self._running_flushes:
            await asyncio.wait(self._running_flushes)
        for partition in self:
            partition.waiters.wake_all()
        try:
            await self.on_disk(self.logs.close)
        finally:
            self._flush_threads.shutdown()
            self._disk_thread.shutdown()
