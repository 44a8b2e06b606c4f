"""Fetch, versions 4 to 12: whole batches from a set of partitions, as file ranges that `sendfile` sends.

Long poll: answered at once if there are `min_bytes`, an error, or nothing to wait for; else when the bytes come or
`max_wait_ms` has passed, with what there is then. The first partition that has anything gives at least one batch,
however small the limits are; so every reader gets on.

Not implemented: fetch sessions (every answer has session id 0, which tells clients to send whole requests), reading
from followers, and fetches of other brokers' followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkalite.replication.waiters import BytesWaiter
from kafkalite.server.outbox import FileRanges
from kafkalite.server.services import Call, Services

_READ_COMMITTED: Final = 1


def handle(services: Services, _call: Call, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    if request.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    reading = _Reading(services, request)
    return reading.answer() if reading.is_enough or request.max_wait_ms <= 0 else _wait(services, request)


async def _wait(services: Services, request: FetchRequest) -> FetchResponse:
    waiter = BytesWaiter(asyncio.get_running_loop())
    waited_for = [
        found.waiters.for_bytes
        for topic in request.topics
        for wanted in topic.partitions
        if (found := services.partitions.find(topic.topic, wanted.partition)) is not None
    ]
    for waiters in waited_for:
        waiters.add(waiter)
    try:
        # Something may have come between the first look and this task's first step.
        reading = _Reading(services, request)
        if reading.is_enough:
            return reading.answer()
        waiter.missing_bytes = request.min_bytes - reading.found_bytes
        await asyncio.wait([waiter.done], timeout=request.max_wait_ms / 1000)
    finally:
        for waiters in waited_for:
            waiters.discard(waiter)
    return _Reading(services, request).answer()


class _Reading:
    """One look at everything that a request asks for."""

    def __init__(self, services: Services, request: FetchRequest) -> None:
        self.found_bytes = 0
        self._has_errors = False
        self._min_bytes = request.min_bytes
        self._services = services
        self._is_committed = request.isolation_level == _READ_COMMITTED
        self._left_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
        self._response = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic, partitions=[self._read(topic.topic, wanted) for wanted in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    @property
    def is_enough(self) -> bool:
        return self.found_bytes >= self._min_bytes or self._has_errors

    def answer(self) -> FetchResponse:
        """The response, to be sent."""
        for topic in self._response.responses:
            for data in topic.partitions:
                if isinstance(data.records, FileRanges):
                    self._services.metrics.bytes_out[topic.topic] += data.records.length
        return self._response

    def _read(self, topic: str, wanted: FetchPartition) -> PartitionData:
        try:
            partition = self._services.partitions.get(topic, wanted.partition)
            partition.check_leader_epoch(wanted.current_leader_epoch)
            high_watermark, last_stable_offset = partition.high_watermark, partition.last_stable_offset
            limit = min(wanted.partition_max_bytes, self._left_bytes)
            ranges = FileRanges()
            if limit > 0 or not self.found_bytes:
                up_to = last_stable_offset if self._is_committed else high_watermark
                ranges = FileRanges(partition.read(wanted.fetch_offset, limit, up_to=up_to))
        except KafkaError as error:
            self._has_errors = True
            self._services.metrics.failed_fetches[error.code.name] += 1
            return PartitionData(
                partition_index=wanted.partition, error_code=error.code, high_watermark=-1, records=b""
            )
        if self.found_bytes and ranges.length > limit:
            ranges = FileRanges()
        self.found_bytes += ranges.length
        self._left_bytes -= ranges.length
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=() if self._is_committed else None,
            records=ranges if ranges else b"",
        )
