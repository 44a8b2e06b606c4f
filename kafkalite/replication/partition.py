"""One partition as its leader serves it: who may append, how far consumers see, who waits for what.

    log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset

The high watermark is the end of what every in-sync replica has and, on topics with flush settings, of what is
flushed (P2). A broker that stands alone is its only in-sync replica. The event loop owns a partition; the only thing
that leaves it is a `Flush`, through `flush_if_due`, which the one who made the partition provides.

Acknowledgement (R1): with acks=all an append is acknowledged when no more than the topic's settings allow is unflushed:
with `flush.messages=1` once the batch itself is on disk, with N once fewer than N records up to its end are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalite.config import NEVER
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import PartitionState, TopicPartition
from kafkalite.records.batch import Buffer
from kafkalite.replication.waiters import Waiters
from kafkalite.storage.disk import FileRange
from kafkalite.storage.log import Appended, PartitionLog

ACKS_ALL: Final = -1
ANY_EPOCH: Final = -1


class Partition:
    """A partition that this broker leads."""

    def __init__(
        self, log: PartitionLog, state: PartitionState, flush_if_due: Callable[[Partition, int], None]
    ) -> None:
        self.log = log
        self.state = state
        self.waiters = Waiters()
        self._flush_if_due = flush_if_due
        self._hidden_bytes = 0
        """Appended since the high watermark moved last; what a waiting fetch is told of."""
        log.advance_high_watermark(log.log_end_offset)

    @property
    def id(self) -> TopicPartition:
        return self.log.partition

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """How far readers of committed records see."""
        return self.log.high_watermark

    @property
    def durable_to(self) -> int:
        """Appends that end at or below this offset are acknowledged, whatever acks they asked for."""
        log = self.log
        if log.config.flush_ms == 0:
            return log.recovery_point
        return log.recovery_point + log.config.flush_messages - 1

    def check_leader_epoch(self, epoch: int) -> None:
        """Raises if a client has seen another leader than this one (KIP-320)."""
        if epoch in (ANY_EPOCH, self.leader_epoch):
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"{self.id}: the leader epoch is {self.leader_epoch}, the request says {epoch}")

    def append_as_leader(self, records: Buffer, *, acks: int, now_ms: int, zstd_allowed: bool = True) -> Appended:
        """Append what a producer sent, and show it as far as the topic's settings allow."""
        log = self.log
        if acks == ACKS_ALL and len(self.state.isr) < log.config.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.id} has {len(self.state.isr)} in-sync replicas, "
                f"min.insync.replicas is {log.config.min_insync_replicas}",
            )
        appended = log.append_as_leader(
            records, leader_epoch=self.state.leader_epoch, now_ms=now_ms, zstd_allowed=zstd_allowed
        )
        if log.config.flush_ms != NEVER or log.flush_is_due(now_ms):
            self._flush_if_due(self, now_ms)
        if not appended.is_duplicate:
            self._hidden_bytes += len(records)
            self._advance()
        return appended

    def _advance(self) -> None:
        log = self.log
        end_offset = log.exposable_end_offset
        if end_offset > log.high_watermark:
            log.advance_high_watermark(end_offset)
            if self.waiters.for_bytes:
                self.waiters.readable(self._hidden_bytes)
            self._hidden_bytes = 0

    def flushed(self) -> None:
        """A flush has ended: more is durable, and perhaps more is to be seen."""
        self._advance()
        self.waiters.durable_to(self.durable_to)

    def read(self, offset: int, max_bytes: int, *, up_to: int) -> list[FileRange]:
        """Whole batches from the one that holds `offset` on, none at or past `up_to`.

        An offset between `up_to` and the log's end is not an error: it waits for what comes.
        """
        log = self.log
        if offset == up_to and log.offline_reason is None:
            return []
        return log.read(offset, max_bytes, up_to=up_to)
