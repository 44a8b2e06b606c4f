"""The picture of `broker.py`: what was measured beside its limit, how partitions and load change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS, LIMIT, THIRD = "#1f6f8b", "#c9ced6", "#d1495b"


@dataclass
class Findings:
    """What the picture shows; each benchmark adds its own."""

    throughput: list[tuple[str, float, float]] = field(default_factory=list)
    """(what, MB/s, the bare server's MB/s)"""
    round_trips: list[tuple[str, float, float]] = field(default_factory=list)
    """(what, per second, the echo server's)"""
    partitions: dict[str, Mapping[int, float]] = field(default_factory=dict)
    """way → partitions → MB/s"""
    latencies: dict[str, Sequence[float]] = field(default_factory=dict)
    """way → seconds"""
    footnote: str = ""


def draw(findings: Findings, path: Path) -> None:
    """Raises `ImportError` without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ((produce_fetch, trips), (partitions, latency)) = pyplot.subplots(2, 2, figsize=(13, 8.5))
    _bars(produce_fetch, findings.throughput, "bare server", "MB/s", "Produce and fetch, one connection")
    _bars(trips, findings.round_trips, "asyncio echo", "per second", "Round trips of one 200-byte message")
    _partitions(partitions, findings.partitions)
    _latencies(latency, findings.latencies)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)
    figure.text(0.5, 0.01, findings.footnote, ha="center", fontsize=9, color="#444444")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(axes: Any, bars: Sequence[tuple[str, float, float]], peer: str, unit: str, title: str) -> None:
    at = range(len(bars))
    axes.bar([x - 0.2 for x in at], [ours for _, ours, _ in bars], 0.4, color=OURS, label="kafkalite")
    axes.bar([x + 0.2 for x in at], [limit for _, _, limit in bars], 0.4, color=LIMIT, label=peer)
    for x, (_, ours, limit) in enumerate(bars):
        axes.text(x - 0.2, ours, f"{ours / limit:.2f}×", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(list(at), [name.replace(", ", "\n") for name, _, _ in bars], fontsize=8)
    axes.set_ylabel(unit)
    axes.set_title(title)
    axes.legend(frameon=False)


def _partitions(axes: Any, ways: Mapping[str, Mapping[int, float]]) -> None:
    for (name, rates), colour in zip(ways.items(), (OURS, THIRD), strict=False):
        shares = [rate / next(iter(rates.values())) for rate in rates.values()]
        axes.plot(list(rates), shares, marker="o", color=colour, label=name)
    axes.axhline(0.75, color="#888888", linestyle=":", label="goal for produce at 100")
    axes.set_xscale("log")
    axes.set_ylim(0, None)
    axes.set_xlabel("partitions")
    axes.set_ylabel("throughput, share of one partition's")
    axes.set_title("Throughput over partitions")
    axes.legend(frameon=False)


def _latencies(axes: Any, ways: Mapping[str, Sequence[float]]) -> None:
    for (name, seconds), colour in zip(ways.items(), (OURS, THIRD, "#888888"), strict=False):
        ordered = sorted(seconds)
        nines = [1 / (1 - at / len(ordered)) for at in range(len(ordered))]
        axes.plot(nines, [value * 1000 for value in ordered], color=colour, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([2, 10, 100, 1000], ["p50", "p90", "p99", "p99.9"])
    axes.set_xlim(1, 3000)
    axes.set_ylabel("ms")
    axes.set_title("Latency under a steady 10 MB/s")
    axes.legend(frameon=False)
