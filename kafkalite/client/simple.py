"""Reading and writing without groups, threads or queues: the caller says which partition and offset.

What is read has its CRC checked before it is decoded. What is written is acknowledged by all in-sync replicas when
`send` returns, and is written once: every batch carries a producer id and a sequence, so that one that is sent again is
recognised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafkalite.client.address import Address
from kafkalite.client.cluster import Cluster, check
from kafkalite.client.connection import known_code
from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkalite.records.batch import next_sequence, split_batches
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows, iter_rows

_DECOMPRESSED_LIMIT: Final = 256 * 1024 * 1024
_ANSWER_SECONDS: Final = 10.0
"""How much later than its longest wait a fetch may be answered."""
_ALL_IN_SYNC: Final = -1


class Fetched(NamedTuple):
    """What one fetch found in a partition; reading goes on at `next_offset`."""

    rows: list[Row]
    next_offset: int
    high_watermark: int


class SimpleConsumer:
    """Fetches from partitions at offsets."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        max_bytes: int = 8 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
    ) -> dict[TopicPartition, Fetched]:
        """The records from each partition's position on; empty where none came within `max_wait_ms` (per broker)."""

        def ask(
            broker: Address, share: dict[TopicPartition, int], timeout: float
        ) -> dict[TopicPartition, Fetched | KafkaError]:
            by_topic: defaultdict[str, list[FetchPartition]] = defaultdict(list)
            for partition, offset in share.items():
                by_topic[partition.topic].append(
                    FetchPartition(
                        partition=partition.partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
                    )
                )
            request = FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=max_bytes,
                topics=[FetchTopic(topic=topic, partitions=wanted) for topic, wanted in by_topic.items()],
            )
            wait = min(timeout, max_wait_ms / 1000 + _ANSWER_SECONDS)
            answer = self._cluster.call(broker, request, FetchResponse, wait)
            check(answer.error_code, f"fetching from {broker}")
            return {
                (place := TopicPartition(topic.topic, data.partition_index)): _fetched(
                    place, share[place], data, broker
                )
                for topic in answer.responses
                for data in topic.partitions
            }

        return self._cluster.call_leaders(positions, ask)


def _fetched(partition: TopicPartition, position: int, data: PartitionData, broker: Address) -> Fetched | KafkaError:
    what = f"fetching partition {partition} at offset {position} from {broker}"
    if data.error_code == ErrorCode.CORRUPT_MESSAGE:
        return CorruptBatch(f"{what}: the broker finds that its stored bytes are damaged")
    if data.error_code:
        return KafkaError(known_code(data.error_code), what)
    assert data.records is None or isinstance(data.records, bytes | bytearray | memoryview)
    rows: list[Row] = []
    next_offset = position
    try:
        for batch in split_batches(data.records or b""):
            if batch.next_offset <= position:
                continue
            if not batch.crc_is_valid():
                raise CorruptBatch(f"the CRC of the batch at offset {batch.base_offset} does not match its bytes")
            if not batch.is_control:
                rows += (row for row in iter_rows(batch, limit=_DECOMPRESSED_LIMIT) if row.offset >= position)
            next_offset = batch.next_offset
    except CorruptBatch as error:
        return CorruptBatch(f"{what}: {error.message}")
    except KafkaError as error:
        return KafkaError(error.code, f"{what}: {error.message}")
    return Fetched(rows, next_offset, data.high_watermark)


class SimpleProducer:
    """Appends batches of rows, each acknowledged before the next."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._identity: tuple[int, int] | None = None
        self._next_sequence: defaultdict[TopicPartition, int] = defaultdict(int)

    def send(self, partition: TopicPartition, rows: Sequence[Row], codec: Codec = Codec.NONE) -> int:
        """Writes the rows as one batch; gives the offset of the first. The offsets of the rows must be 0, 1, 2, …"""
        producer_id, producer_epoch = self._identity or self._begin()
        batch = encode_rows(
            rows,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._next_sequence[partition],
        )

        def ask(
            broker: Address, _share: dict[TopicPartition, None], timeout: float
        ) -> dict[TopicPartition, int | KafkaError]:
            data = PartitionProduceData(index=partition.partition, records=batch)
            request = ProduceRequest(
                acks=_ALL_IN_SYNC,
                timeout_ms=int(timeout * 1000),
                topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
            )
            answer = self._cluster.call(broker, request, ProduceResponse, timeout)
            (result,) = answer.responses[0].partition_responses
            if result.error_code:
                what = f"writing {len(rows)} records to partition {partition} at {broker}"
                detail = f": {result.error_message}" if result.error_message else ""
                return {partition: KafkaError(known_code(result.error_code), what + detail)}
            return {partition: result.base_offset}

        base_offset = self._cluster.call_leaders({partition: None}, ask)[partition]
        self._next_sequence[partition] = next_sequence(self._next_sequence[partition], len(rows))
        return base_offset

    def _begin(self) -> tuple[int, int]:
        """Asks for a producer id; any broker gives one out."""

        def attempt(timeout: float) -> tuple[int, int]:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer = self._cluster.call_any(request, InitProducerIdResponse, timeout)
            check(answer.error_code, f"asking {self._cluster} for a producer id")
            return answer.producer_id, answer.producer_epoch

        self._identity = self._cluster.retrying(attempt)
        return self._identity
