"""A broker in a process of its own, records in and out over Kafka's wire, a kill -9, and every record back again.

Run it with `make demo`. It uses what the package has; any other Kafka client would do as well.
"""

from __future__ import annotations

from time import perf_counter

from rich.console import Console
from rich.progress import track

from kafkalite.client.address import Address
from kafkalite.client.admin import Admin
from kafkalite.client.cluster import Cluster
from kafkalite.client.simple import SimpleConsumer, SimpleProducer
from kafkalite.clock import SystemClock
from kafkalite.model import TopicPartition
from kafkalite.records.rows import Row
from kafkalite.testing import EmbeddedBroker

CLICKS = [TopicPartition("clicks", partition) for partition in range(3)]
BATCHES, RECORDS = 60, 1_000


def clicks(first: int) -> list[Row]:
    """One batch: offsets within it, time, key and value."""
    now_ms = SystemClock().now_ms()
    return [Row(n, now_ms, b"user-%d" % (n % 100), b'{"click": %d}' % (first + n)) for n in range(RECORDS)]


def read_everything(cluster: Cluster) -> list[bytes | None]:
    consumer = SimpleConsumer(cluster)
    values: list[bytes | None] = []
    positions = dict.fromkeys(CLICKS, 0)
    while len(values) < BATCHES * RECORDS:
        for partition, fetched in consumer.fetch(positions).items():
            values += [row.value for row in fetched.rows]
            positions[partition] = fetched.next_offset
    return values


def main() -> None:
    console = Console()
    begun = perf_counter()
    with EmbeddedBroker() as broker:
        console.print(f"a broker on {broker.bootstrap}, ready after {(perf_counter() - begun) * 1000:.0f} ms")
        with Cluster(Address.parse_list(broker.bootstrap)) as cluster:
            Admin(cluster).create_topic("clicks", partitions=len(CLICKS))
            producer = SimpleProducer(cluster)
            for batch in track(range(BATCHES), "producing, with a kill -9 in the middle", console=console):
                if batch == BATCHES // 2:
                    broker.kill()
                    broker.start()
                producer.send(CLICKS[batch % len(CLICKS)], clicks(batch * RECORDS))
            found = read_everything(cluster)
    sent = {b'{"click": %d}' % n for n in range(BATCHES * RECORDS)}
    assert set(found) == sent
    console.print(f"nothing lost, nothing doubled: {len(found):,} of {len(sent):,}")


if __name__ == "__main__":
    main()
