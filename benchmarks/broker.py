"""The broker against servers that do nothing but move the bytes, in the same run, in turns.

    python benchmarks/broker.py [--quick] [--only PART]… [--picture PATH]

Produce and fetch over raw sockets as a share of a bare server's throughput, round trips as a share of an asyncio echo
server's, confluent-kafka's records per second, latency under a steady load, throughput over partitions, the time from
start to ready, and memory. Every server is a process of its own, this process is the load, and both sides get the same
frames, the same number of them under way, and answer with the same number of bytes. Medians of several rounds.

A missed goal is printed; the exit status is 0 all the same, because a busy machine misses goals, too.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

import broker_latency
import picture
from broker_servers import Server, start_broker, start_limit
from kafkalite.records.rows import Row, encode_rows
from limits import MIB, Terms
from measure import medians_in_turns
from raw_client import (
    RawConnection,
    a_batch,
    create_topic,
    delete_topic,
    end_offset,
    fetch_frame,
    fetched_answer_bytes,
    produce_frame,
    produced_answer_bytes,
    round_trips,
)

KIB16 = 16 * 1024
THROUGHPUT_GOAL, ROUND_TRIP_GOAL, PARTITIONS_GOAL = 0.6, 0.5, 0.75
READY_GOAL_SECONDS, IDLE_GOAL_BYTES, LOAD_GOAL_BYTES = 0.5, 60e6, 150e6
PRODUCE_CASES = ((MIB, 5), (KIB16, 5), (KIB16, 100))
"""(bytes of a batch, requests under way)"""
FETCH_CASES = ((MIB, MIB, 1), (KIB16, MIB, 1), (KIB16, KIB16, 5))
"""(bytes of a batch, bytes of a fetch, requests under way)"""
PARTITION_COUNTS = (1, 10, 100, 1_000)
MESSAGE_BYTES = 200


@dataclass
class Bench:
    """What all parts share: the servers, how much to do, and where results go."""

    broker: Server
    folder: Path
    rounds: int
    is_quick: bool
    findings: picture.Findings = field(default_factory=picture.Findings)
    missed: list[str] = field(default_factory=list)
    _topics: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.table = Table("what", "kafkalite", "limit or peer", "ratio", "goal", "", title="The broker")
        for column in self.table.columns[1:4]:
            column.justify = "right"

    def few_or_many(self, few: int, many: int) -> int:
        return few if self.is_quick else many

    def new_topic(self, admin: RawConnection, partitions: int = 1) -> str:
        name = f"bench-{next(self._topics):06}"
        create_topic(admin, name, partitions)
        return name

    def add(
        self,
        what: str,
        value: str,
        peer: str = "",
        ratio: float | None = None,
        goal: str = "",
        met: bool | None = None,
    ) -> None:
        verdict = {None: "", True: "[green]ok", False: "[red]missed"}[met]
        shown = "" if ratio is None else f"{ratio:.2f}×"
        self.table.add_row(what, value, peer, shown, goal, verdict)
        if met is False:
            self.missed.append(f"{what}: {value}{f', {shown}' if shown else ''} (goal {goal})")

    def add_ratio(self, what: str, value: str, peer: str, ratio: float, goal: float) -> None:
        self.add(what, value, peer, ratio, f"≥ {goal}×", ratio >= goal)


# ---------------------------------------------------------------- produce and fetch


def bench_produce(bench: Bench) -> None:
    total = bench.few_or_many(64, 256) * MIB
    with start_limit("append", bench.folder) as limit, RawConnection(bench.broker.address) as admin:
        for size, in_flight in PRODUCE_CASES:
            count, batches = total // size, [a_batch(size, 80) for _ in range(8 if size == MIB else 64)]

            def ours(batches: list[bytearray], count: int, in_flight: int) -> float:
                topic = bench.new_topic(admin)
                frames = [produce_frame(topic, 0, batch) for batch in batches]
                answer_bytes = produced_answer_bytes(admin, frames[0])
                with RawConnection(bench.broker.address) as connection:
                    seconds = connection.exchange(frames, count, answer_bytes, in_flight)
                assert end_offset(admin, topic) == (count + 1) * 80
                delete_topic(admin, topic)
                return seconds

            def bare(batches: list[bytearray], count: int, in_flight: int) -> float:
                frames = [produce_frame("bench-000000", 0, batch) for batch in batches]
                answer_bytes = 66
                with RawConnection(limit.address, Terms(answer_bytes)) as connection:
                    return connection.exchange(frames, count, answer_bytes, in_flight)

            _add_throughput(
                bench,
                f"produce {_size(size)} batches, {in_flight} in flight",
                total,
                medians_in_turns(
                    bench.rounds, partial(ours, batches, count, in_flight), partial(bare, batches, count, in_flight)
                ),
            )


def bench_fetch(bench: Bench) -> None:
    total = bench.few_or_many(64, 256) * MIB
    with start_limit("sendfile", bench.folder) as limit, RawConnection(bench.broker.address) as admin:
        for size, range_bytes, in_flight in FETCH_CASES:
            topic = bench.new_topic(admin)
            frames = [produce_frame(topic, 0, a_batch(size, 80)) for _ in range(8)]
            answer_bytes = produced_answer_bytes(admin, frames[0])
            admin.exchange(frames, total // size - 1, answer_bytes, 5)
            step = range_bytes // size * 80
            fetches = [fetch_frame(topic, offset, range_bytes) for offset in range(0, total // size * 80, step)]
            answer_bytes = fetched_answer_bytes(admin, fetches[-1], range_bytes)
            count = len(fetches)

            with (
                RawConnection(bench.broker.address) as ours,
                RawConnection(limit.address, Terms(answer_bytes, range_bytes, total)) as bare,
            ):
                seconds = medians_in_turns(
                    bench.rounds,
                    partial(ours.exchange, fetches, count, answer_bytes, in_flight),
                    partial(bare.exchange, fetches, count, answer_bytes, in_flight),
                )
            by = "one by one" if range_bytes == size else f"by {_size(range_bytes)}"
            name = f"fetch {_size(size)} batches {by}, {in_flight} in flight"
            _add_throughput(bench, name, total, seconds)
            delete_topic(admin, topic)


def _add_throughput(bench: Bench, name: str, total: int, seconds: list[float]) -> None:
    ours, bare = (total / each / 1e6 for each in seconds)
    bench.add_ratio(name, f"{ours:,.0f} MB/s", f"{bare:,.0f} MB/s", ours / bare, THROUGHPUT_GOAL)
    bench.findings.throughput.append((name, ours, bare))


# ---------------------------------------------------------------- round trips


def bench_round_trips(bench: Bench) -> None:
    batch = encode_rows([Row(0, 0, None, bytes(MESSAGE_BYTES))])
    count = bench.few_or_many(4_000, 16_000)
    with start_limit("echo", bench.folder) as limit, RawConnection(bench.broker.address) as admin:
        topic = bench.new_topic(admin)
        frame = produce_frame(topic, 0, batch)
        answer_bytes = produced_answer_bytes(admin, frame)
        for connections in (1, 8):
            with ExitStack() as stack:
                ours = [stack.enter_context(RawConnection(bench.broker.address)) for _ in range(connections)]
                echo = [
                    stack.enter_context(RawConnection(limit.address, Terms(answer_bytes))) for _ in range(connections)
                ]
                seconds = medians_in_turns(
                    bench.rounds,
                    partial(round_trips, ours, frame, count, answer_bytes),
                    partial(round_trips, echo, frame, count, answer_bytes),
                )
            ours_rate, echo_rate = (count / each for each in seconds)
            name = f"round trips, {connections} connection{'s' if connections > 1 else ''}"
            bench.add_ratio(
                name, f"{ours_rate:,.0f} /s", f"{echo_rate:,.0f} /s", ours_rate / echo_rate, ROUND_TRIP_GOAL
            )
            bench.findings.round_trips.append((name, ours_rate, echo_rate))
        delete_topic(admin, topic)


# ---------------------------------------------------------------- a client


def bench_client(bench: Bench) -> None:
    """The peer is librdkafka's own mock broker: C, in the client's process, in memory."""
    count = bench.few_or_many(200_000, 1_000_000)
    rates: list[float] = []
    with RawConnection(bench.broker.address) as admin:

        def ours() -> float:
            topic = bench.new_topic(admin)
            seconds = _produce_seconds({"bootstrap.servers": bench.broker.bootstrap}, topic, count)
            assert end_offset(admin, topic) == count
            rates.append(count / _consume_seconds(bench.broker.bootstrap, topic, count))
            delete_topic(admin, topic)
            return seconds

        def mock() -> float:
            return _produce_seconds({"test.mock.num.brokers": 1, "log_level": 3}, "mock", count)

        seconds = medians_in_turns(max(3, bench.rounds // 2), ours, mock)
    produced, peer = (count / each for each in seconds)
    bench.add(
        "confluent-kafka produces 200 B", f"{produced:,.0f} rec/s", f"{peer:,.0f} rec/s", produced / peer, "mock broker"
    )
    bench.add("confluent-kafka consumes 200 B", f"{median(rates):,.0f} rec/s")


def _produce_seconds(config: dict[str, object], topic: str, count: int) -> float:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            **config,
            "linger.ms": 5,
            "acks": 1,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    value = bytes(MESSAGE_BYTES)
    producer.list_topics(topic, 10)  # connected, and the topic known
    begun = perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(120)
    seconds = perf_counter() - begun
    assert left == 0, f"{left} of {count} messages undelivered; first error: {failures[:1]}"
    assert not failures, failures[0]
    return seconds


def _consume_seconds(bootstrap: str, topic: str, count: int) -> float:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    (first,) = consumer.consume(1, 30)
    assert first.error() is None, first.error()
    begun = perf_counter()
    left = count - 1
    while left:
        messages = consumer.consume(min(left, 1_000), 30)
        assert messages, f"{left} of {count} messages did not come"
        left -= len(messages)
    seconds = perf_counter() - begun
    consumer.close()
    return seconds


# ---------------------------------------------------------------- latency


def bench_latency(bench: Bench) -> None:
    count = broker_latency.BATCHES_PER_SECOND * bench.few_or_many(3, 15)
    batch = a_batch(broker_latency.BATCH_BYTES, broker_latency.BATCH_RECORDS)
    with start_limit("append", bench.folder) as limit, RawConnection(bench.broker.address) as admin:
        probe = bench.new_topic(admin)
        answer_bytes = produced_answer_bytes(admin, produce_frame(probe, 0, batch))
        topic = bench.new_topic(admin)
        frame = produce_frame(topic, 0, batch)
        bare = broker_latency.acknowledged(limit.address, frame, count, answer_bytes, Terms(answer_bytes))
        acks, arrivals = broker_latency.end_to_end(bench.broker.address, topic, frame, count, answer_bytes)
        for name in (probe, topic):
            delete_topic(admin, name)
    for percent in (50, 99):
        ours_ms, bare_ms, through_ms = (
            quantiles(seconds, n=100)[percent - 1] * 1000 for seconds in (acks, bare, arrivals)
        )
        bench.add(
            f"p{percent} acknowledged, 10 MB/s",
            f"{ours_ms:.2f} ms",
            f"{bare_ms:.2f} ms",
            bare_ms / ours_ms,
            "bare server",
        )
        bench.add(f"p{percent} end to end, 10 MB/s", f"{through_ms:.2f} ms")
    bench.findings.latencies |= {"acknowledged": acks, "end to end": arrivals, "bare server": bare}


# ---------------------------------------------------------------- partitions


def bench_partitions(bench: Bench) -> None:
    """Batches of 16 KB to each partition in turn; fetches that name every partition and are answered with 1 MB."""
    total = bench.few_or_many(64, 128) * MIB
    count = total // KIB16
    batches = [a_batch(KIB16, 80) for _ in range(64)]
    with RawConnection(bench.broker.address) as admin:
        topics = {partitions: bench.new_topic(admin, partitions) for partitions in PARTITION_COUNTS}
        produces: dict[int, Callable[[], float]] = {}
        fetches: dict[int, Callable[[], float]] = {}
        for partitions, topic in topics.items():
            frames = [produce_frame(topic, at, batches[at % 64]) for at in range(partitions)]
            answer_bytes = produced_answer_bytes(admin, frames[0])
            for _ in range(64 // partitions):
                for frame in frames:
                    produced_answer_bytes(admin, frame)  # each partition has as much as a fetch may take
            produces[partitions] = partial(admin.exchange, frames * (64 // partitions or 1), count, answer_bytes, 5)
            each_bytes = max(MIB // partitions, KIB16)
            fetch = fetch_frame(topic, 0, MIB, range(partitions), each_bytes)
            found = min(MIB, each_bytes // KIB16 * KIB16 * partitions)
            for frame in frames[:64]:
                produced_answer_bytes(admin, frame)
            fetched_bytes = fetched_answer_bytes(admin, fetch, found)
            fetches[partitions] = partial(_fetch_rate, admin, fetch, count // 64, fetched_bytes, found)
        written = medians_in_turns(bench.rounds, *produces.values())
        read = medians_in_turns(bench.rounds, *fetches.values())
        for topic in topics.values():
            delete_topic(admin, topic)
    produced = dict(zip(topics, (total / seconds / 1e6 for seconds in written), strict=True))
    fetched = dict(zip(topics, (1 / seconds_per_mb for seconds_per_mb in read), strict=True))
    for name, rates in (("produce", produced), ("fetch", fetched)):
        for partitions in PARTITION_COUNTS[1:]:
            has_goal = (name, partitions) == ("produce", 100)
            ratio = rates[partitions] / rates[1]
            bench.add(
                f"{name}, {partitions:,} partitions",
                f"{rates[partitions]:,.0f} MB/s",
                f"{rates[1]:,.0f} MB/s",
                ratio,
                f"≥ {PARTITIONS_GOAL}× of 1 partition" if has_goal else "of 1 partition",
                ratio >= PARTITIONS_GOAL if has_goal else None,
            )
    bench.findings.partitions |= {"produce, 16 KB each": produced, "fetch of all, 1 MB": fetched}


def _fetch_rate(connection: RawConnection, frame: bytes, count: int, answer_bytes: int, records_bytes: int) -> float:
    """Seconds per megabyte: not every number of partitions divides one."""
    return connection.exchange([frame], count, answer_bytes, 1) / (count * records_bytes / 1e6)


# ---------------------------------------------------------------- start and memory


def bench_start(bench: Bench) -> None:
    seconds, idle = [], []
    for at in range(max(3, bench.rounds)):
        with start_broker(bench.folder / f"start-{at}") as fresh:
            seconds.append(fresh.start_seconds)
            with RawConnection(fresh.address):
                idle.append(fresh.resident_bytes())
    ready, resident = median(seconds), median(idle)
    bench.add("start to ready", f"{ready:.2f} s", goal=f"≤ {READY_GOAL_SECONDS} s", met=ready <= READY_GOAL_SECONDS)
    bench.add("memory, idle", f"{resident / 1e6:.0f} MB", goal="≤ 60 MB", met=resident <= IDLE_GOAL_BYTES)
    bench.findings.footnote += f"ready after {ready:.2f} s · idle {resident / 1e6:.0f} MB"


def add_memory(bench: Bench) -> None:
    """Last, because it is the peak of everything that was done to the broker."""
    peak = bench.broker.peak_resident_bytes()
    bench.add("memory, peak of all loads", f"{peak / 1e6:.0f} MB", goal="≤ 150 MB", met=peak <= LOAD_GOAL_BYTES)
    bench.findings.footnote += f" · under load at most {peak / 1e6:.0f} MB"


PARTS: dict[str, Callable[[Bench], None]] = {
    "start": bench_start,
    "produce": bench_produce,
    "fetch": bench_fetch,
    "round-trips": bench_round_trips,
    "client": bench_client,
    "latency": bench_latency,
    "partitions": bench_partitions,
}


def _size(count: int) -> str:
    return "1 MB" if count == MIB else f"{count // 1024} KB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, for a first impression")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part alone; may be repeated")
    parser.add_argument("--picture", type=Path, default=Path(__file__).with_suffix(".png"), help="where to draw it")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as folder, ExitStack() as stack:
        broker = stack.enter_context(start_broker(Path(folder, "data")))
        bench = Bench(broker, Path(folder), rounds=3 if arguments.quick else 7, is_quick=arguments.quick)
        for name in arguments.only or PARTS:
            console.print(f"measuring {name} …", style="dim")
            PARTS[name](bench)
        add_memory(bench)
    console.print(bench.table)
    for line in bench.missed:
        console.print(f"missed: {line}", style="red")
    if arguments.only:
        return  # a picture of some parts would be half empty
    try:
        picture.draw(bench.findings, arguments.picture)
        console.print(f"picture: {arguments.picture}")
    except ImportError as error:
        console.print(f"no picture: {error}; install it with: pip install -e '.[bench]'")


if __name__ == "__main__":
    main()
