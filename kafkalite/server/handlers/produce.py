"""Produce, versions 3 to 9: one batch to each of a set of partitions.

Each partition is answered by itself (R7). acks=0 has no answer: an error closes the connection, which is all that can
be said. With acks=all the answer comes when the batch is as durable as the topic's flush settings say (R1), or
with REQUEST_TIMED_OUT after the client's timeout; the batch stays in the log then, as in Kafka.

A batch is appended before this returns: `records` is a view of a buffer that is used again.
Not implemented: transactional produce, which is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import INTERNAL_TOPICS
from kafkalite.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalite.records.batch import is_transactional
from kafkalite.records.rows import InvalidRecords
from kafkalite.replication.partition import ACKS_ALL, Partition
from kafkalite.server.handlers.transactions import NOT_BUILT
from kafkalite.server.services import Call, CloseConnection, Services

_ZSTD_SINCE: Final = 7

_Waiting = tuple[Partition, int, asyncio.Future[None], PartitionProduceResponse]
"""A partition, the offset that must become durable, when it is, and the answer to change if it does not."""


def handle(
    services: Services, call: Call, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    acks = request.acks
    now_ms = services.clock.now_ms()
    zstd_allowed = call.header.api_version >= _ZSTD_SINCE
    waiting: list[_Waiting] = []
    topics = []
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            try:
                _check(request, topic.name)
                partition = services.partitions.get(topic.name, data.index)
                answers.append(_append(services, partition, data, acks, now_ms, zstd_allowed, waiting))
            except KafkaError as error:
                services.metrics.failed_produces[error.code.name] += 1
                if acks == 0:
                    raise CloseConnection(f"{topic.name}-{data.index}: {error}") from error
                answers.append(_refusal(data.index, error))
        topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
    if acks == 0:
        return None
    response = ProduceResponse(responses=topics)
    return _when_durable(response, waiting, request.timeout_ms) if waiting else response


def _check(request: ProduceRequest, topic: str) -> None:
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}; it must be 0, 1 or -1 (all)")
    if request.transactional_id is not None:
        raise KafkaError(NOT_BUILT, "this broker has no transactions yet")
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker writes to {topic}")


def _append(
    services: Services,
    partition: Partition,
    data: PartitionProduceData,
    acks: int,
    now_ms: int,
    zstd_allowed: bool,
    waiting: list[_Waiting],
) -> PartitionProduceResponse:
    records = data.records or b""
    if is_transactional(records):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the batch is part of no transaction that this broker knows")
    appended = partition.append_as_leader(records, acks=acks, now_ms=now_ms, zstd_allowed=zstd_allowed)
    topic = partition.id.topic
    services.metrics.records_in[topic] += appended.last_offset - appended.base_offset + 1
    services.metrics.bytes_in[topic] += len(records)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    if acks == ACKS_ALL and appended.last_offset >= partition.durable_to:
        end_offset = appended.last_offset + 1
        waiting.append((partition, end_offset, partition.waiters.until_durable(end_offset), answer))
    return answer


def _refusal(index: int, error: KafkaError) -> PartitionProduceResponse:
    wrong = error.record_errors if isinstance(error, InvalidRecords) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(batch_index=at) for at in wrong],
        error_message=error.message,
    )


async def _when_durable(response: ProduceResponse, waiting: list[_Waiting], timeout_ms: int) -> ProduceResponse:
    await asyncio.wait([durable for _, _, durable, _ in waiting], timeout=max(timeout_ms, 0) / 1000)
    for partition, offset, durable, answer in waiting:
        durable.cancel()
        if partition.log.offline_reason is not None:
            answer.error_code, answer.error_message = ErrorCode.KAFKA_STORAGE_ERROR, partition.log.offline_reason
        elif partition.durable_to < offset:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            answer.error_message = f"not flushed within {timeout_ms} ms"
    return response
