"""How long the codec takes per message, next to kio and kafka-python.

    python benchmarks/protocol.py [--quick]

All libraries read or write the same bytes, in turns within one run, so that a noisy machine disturbs all alike; the
medians of many rounds are shown. kio's reader is native code, its writer is Python. kio and kafka-python copy records;
kafkalite's time for 1 MB shows that it does not.
"""

from __future__ import annotations

import argparse
import io
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol import consumer as kafka_consumer
from kafka.protocol import metadata as kafka_metadata
from kafka.protocol import producer as kafka_producer
from kio.schema.fetch.v12.request import FetchRequest as KioFetchRequest
from kio.schema.metadata.v12.response import MetadataResponse as KioMetadataResponse
from kio.schema.produce.v9.request import ProduceRequest as KioProduceRequest
from kio.schema.produce.v9.response import ProduceResponse as KioProduceResponse
from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from kafkalite.protocol import api
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalite.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalite.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkalite.protocol.schema import Message
from measure import medians_in_turns

Operation = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to do, and who can do it: kafkalite, kio, kafka-python."""

    name: str
    target_us: float | None
    ours: Operation
    kio: Operation | None = None
    kafka_python: Operation | None = None


# ---------------------------------------------------------------- the messages


def produce_request(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="events", partition_data=[partition])]
    )


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, base_offset=123_456, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="events", partition_responses=[partition])])


def fetch_request() -> FetchRequest:
    partitions = [FetchPartition(partition=p, fetch_offset=1_000 + p, partition_max_bytes=1 << 20) for p in range(4)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="events", partitions=partitions)])


def metadata_response() -> MetadataResponse:
    def topic(number: int) -> MetadataResponseTopic:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        return MetadataResponseTopic(name=f"topic-{number:03}", topic_id=uuid.uuid4(), partitions=[partition])

    brokers = [MetadataResponseBroker(node_id=n, host="localhost", port=9092 + n) for n in (1, 2, 3)]
    return MetadataResponse(
        brokers=brokers, cluster_id="kafkalite", controller_id=1, topics=[topic(number) for number in range(100)]
    )


# ---------------------------------------------------------------- the operations


def reading(
    name: str, target_us: float | None, message: Message, version: int, kio_class: Any, kafka_class: Any
) -> Case:
    wire = message.encode(version)
    received = memoryview(bytearray(wire))  # as a server gets it
    cls, kio_read = type(message), entity_reader(kio_class)
    return Case(
        name,
        target_us,
        lambda: cls.decode(received, version),
        lambda: kio_read(wire, 0),
        lambda: kafka_class.decode(wire, version=version),
    )


def writing(
    name: str, target_us: float | None, message: Message, version: int, kio_class: Any, kafka_class: Any
) -> Case:
    wire = message.encode(version)
    kio_message, _ = entity_reader(kio_class)(wire, 0)
    kio_write = entity_writer(kio_class)
    kafka_message = kafka_class.decode(wire, version=version)
    # What kafka-python decodes cannot be encoded unless it has these.
    kafka_message._header = kafka_message._min_version = kafka_message._max_version = None
    assert kafka_message.encode(version=version) == wire
    return Case(
        name,
        target_us,
        lambda: message.encode(version),
        lambda: kio_write(io.BytesIO(), kio_message),
        lambda: kafka_message.encode(version=version),
    )


def whole_frame(name: str, request: Message, key: api.ApiKey, version: int) -> Case:
    """What a server does with a frame: header, dispatch to the class, message."""
    header = RequestHeader(key, version, 42, "benchmark")
    frame = memoryview(bytearray(api.encode_request(header, request)))[4:]
    return Case(name, None, lambda: api.decode_request(frame))


def cases() -> list[Case]:
    small, large = bytes(200), bytes(1_000_000)
    produce, produced = kafka_producer.ProduceRequest, kafka_producer.ProduceResponse
    return [
        writing(
            "Metadata v12 response, 100 topics: write",
            250,
            metadata_response(),
            12,
            KioMetadataResponse,
            kafka_metadata.MetadataResponse,
        ),
        reading("Produce v9 request, 200 B: parse", 2, produce_request(small), 9, KioProduceRequest, produce),
        writing("Produce v9 response: write", 1, produce_response(), 9, KioProduceResponse, produced),
        reading(
            "Fetch v12 request, 4 partitions: parse",
            3.5,
            fetch_request(),
            12,
            KioFetchRequest,
            kafka_consumer.FetchRequest,
        ),
        reading("Produce v9 request, 1 MB: parse", None, produce_request(large), 9, KioProduceRequest, produce),
        whole_frame("Produce v9, 200 B: frame with header", produce_request(small), api.ApiKey.PRODUCE, 9),
        whole_frame("Fetch v12, 4 partitions: frame with header", fetch_request(), api.ApiKey.FETCH, 12),
        Case("Produce v9 response: frame with header", None, _produce_answer()),
    ]


def _produce_answer() -> Operation:
    header, response = RequestHeader(api.ApiKey.PRODUCE, 9, 42, "benchmark"), produce_response()
    return lambda: api.encode_response(header, response)


# ---------------------------------------------------------------- measuring


def time_once(operation: Operation, repetitions: int) -> float:
    """Microseconds per call, without what calling an operation that does nothing takes."""
    started = time.perf_counter()
    for _ in range(repetitions):
        operation()
    ended = time.perf_counter()
    for _ in range(repetitions):
        _nothing()
    return (2 * ended - started - time.perf_counter()) / repetitions * 1e6


_nothing: Operation = lambda: None  # noqa: E731 — the operations are lambdas, too


def measure(case: Case, rounds: int, seconds_per_round: float) -> list[float]:
    """The median time of each library that can do it, in the order of `Case`."""
    operations = [operation for operation in (case.ours, case.kio, case.kafka_python) if operation]
    measures = []
    for operation in operations:
        repetitions = max(1, int(seconds_per_round * 1e6 / max(time_once(operation, 20), 0.1)))
        measures.append(partial(time_once, operation, repetitions))
    return medians_in_turns(rounds, *measures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick: bool = parser.parse_args().quick
    rounds, seconds = (5, 0.01) if quick else (25, 0.03)

    table = Table(title="µs per message (median)")
    table.add_column("")
    for column in ("target", "kafkalite", "kio", "kafka-python", "kio ÷ kafkalite"):
        table.add_column(column, justify="right")
    for case in cases():
        ours, *peers = measure(case, rounds, seconds)
        kio, kafka_python = peers or (None, None)
        met = case.target_us is None or ours <= case.target_us
        table.add_row(
            case.name,
            _number(case.target_us),
            f"[{'green' if met else 'red'}]{_number(ours)}",
            _number(kio),
            _number(kafka_python),
            f"{kio / ours:.1f}×" if kio else "",
        )
    Console().print(table)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
