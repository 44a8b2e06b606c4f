"""The broker's figures as Prometheus' text, over HTTP on the event loop: K9, as far as it applies to one broker.

Nothing is counted here: a scrape reads what the parts of the broker count anyway, on the loop that owns them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from kafkalite.protocol.api import APIS
from kafkalite.server.listener import Listener
from kafkalite.server.metrics import Metrics, TimedSelector
from kafkalite.server.services import Services

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class BrokerCollector(Collector):
    """Reads all figures at the moment of a scrape."""

    def __init__(self, services: Services, listener: Listener, selector: TimedSelector) -> None:
        self._services = services
        self._listener = listener
        self._selector = selector

    def collect(self) -> Iterator[Metric]:
        metrics = self._services.metrics
        yield from _traffic(metrics)
        yield from _requests(metrics)
        yield from self._connections(metrics)
        yield from self._partitions()
        yield from self._groups()
        share = self._selector.idle_seconds / max(perf_counter() - metrics.started_at, 1e-9)
        yield _gauge(
            "event_loop_idle_share", "Share of the time since the start in which there was nothing to do.", share
        )

    def _connections(self, metrics: Metrics) -> Iterator[Metric]:
        yield _gauge("connections", "Open connections.", len(self._listener.connections))
        accepted = CounterMetricFamily("kafkalite_connections_accepted", "Connections that were opened.")
        accepted.add_metric([], metrics.connections_accepted)
        yield accepted
        closed = CounterMetricFamily(
            "kafkalite_connections_closed_by_broker", "Connections that the broker has closed.", labels=["cause"]
        )
        for cause, count in metrics.connections_closed.items():
            closed.add_metric([cause], count)
        yield closed

    def _partitions(self) -> Iterator[Metric]:
        partitions = self._services.partitions
        yield _gauge("partitions", "Partitions that this broker leads.", len(partitions))
        offline = sum(partition.log.offline_reason is not None for partition in partitions)
        yield _gauge("offline_partitions", "Partitions whose disk has failed.", offline + len(partitions.logs.failed))
        short = sum(len(partition.state.isr) < len(partition.state.replicas) for partition in partitions)
        yield _gauge("under_replicated_partitions", "Partitions with fewer in-sync replicas than replicas.", short)
        yield _gauge("active_controllers", "1 if this broker is the controller.", 1)
        waiting = sum(len(partition.waiters.for_bytes) for partition in partitions)
        yield _gauge("fetch_purgatory_size", "Partitions that long-polling fetches wait for.", waiting)
        unflushed = sum(len(partition.waiters) - len(partition.waiters.for_bytes) for partition in partitions)
        yield _gauge("produce_purgatory_size", "Produced batches that wait for a flush.", unflushed)
        yield _gauge("log_bytes", "Bytes of all segments.", sum(partition.log.size for partition in partitions))
        flushes = SummaryMetricFamily("kafkalite_log_flush_seconds", "Flushes of logs, and the time that they took.")
        flushes.add_metric([], partitions.flushes, partitions.flush_seconds)
        yield flushes

    def _groups(self) -> Iterator[Metric]:
        groups = GaugeMetricFamily("kafkalite_groups", "Consumer groups by state.", labels=["state"])
        for state, count in self._services.groups.count_by_state().items():
            groups.add_metric([state.value], count)
        yield groups
        rebalances = CounterMetricFamily("kafkalite_group_rebalances", "Completed rebalances of consumer groups.")
        rebalances.add_metric([], self._services.groups.completed_rebalances)
        yield rebalances


def _traffic(metrics: Metrics) -> Iterator[Metric]:
    for name, label, meaning, counts in (
        ("records_in", "topic", "Records appended by producers.", metrics.records_in),
        ("bytes_in", "topic", "Bytes of record batches appended by producers.", metrics.bytes_in),
        ("bytes_out", "topic", "Bytes of record batches fetched.", metrics.bytes_out),
        ("failed_produces", "error", "Batches that were refused.", metrics.failed_produces),
        ("failed_fetches", "error", "Partitions of fetches that were answered with an error.", metrics.failed_fetches),
    ):
        family = CounterMetricFamily(f"kafkalite_{name}", meaning, labels=[label])
        for value, count in counts.items():
            family.add_metric([value], count)
        yield family


def _requests(metrics: Metrics) -> Iterator[Metric]:
    family = SummaryMetricFamily(
        "kafkalite_request_seconds",
        "Requests, and where their time went: queue, local (handler), remote (waiting), send.",
        labels=["api", "phase"],
    )
    for key, times in metrics.requests.items():
        for phase in ("queue", "local", "remote", "send") if times.count else ():
            family.add_metric([APIS[key].name, phase], times.count, getattr(times, phase))
    yield family


def _gauge(name: str, meaning: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"kafkalite_{name}", meaning)
    family.add_metric([], value)
    return family


async def serve_metrics(collector: Collector, host: str, port: int) -> asyncio.Server:
    """Answer GET /metrics. Anything else is 404; a request that is not one closes its connection."""
    registry = CollectorRegistry()
    registry.register(collector)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                request = await reader.readuntil(b"\r\n\r\n")
                path = request.split(b" ", 2)[1].split(b"?")[0] if request.startswith(b"GET ") else b""
                writer.write(_http(generate_latest(registry)) if path == b"/metrics" else _not_found())
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the scraper has gone, or is none
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


def _http(body: bytes) -> bytes:
    return _head("200 OK", len(body)) + body


def _not_found() -> bytes:
    body = b"the figures are at /metrics\n"
    return _head("404 Not Found", len(body)) + body


def _head(status: str, length: int) -> bytes:
    lines: Iterable[str] = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {_CONTENT_TYPE}",
        f"Content-Length: {length}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode()
