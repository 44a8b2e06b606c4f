"""The log on disk against plain system calls on the same bytes, in the same run, alternating.

Goals: append at least 0.6 × of `os.write`; the cost of an append does not grow with the number of segments.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table

from kafkalite.config import TopicConfig
from kafkalite.model import TopicPartition
from kafkalite.records.batch import HEADER_SIZE, build_batch
from kafkalite.storage.disk import FileRange
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.open_segments import OpenSegments
from measure import medians_in_turns

MIB = 1024 * 1024
PARTITION = TopicPartition("bench", 0)
APPEND_GOAL = 0.6
RECORDS_PER_BATCH = 80
READ_BATCH_BYTES = 16 * 1024


def open_log(folder: Path, **options: int) -> PartitionLog:
    config = TopicConfig(max_message_bytes=8 * MIB, **options)  # type: ignore[arg-type]
    return PartitionLog(PARTITION, folder, config, now_ms=0, open_segments=OpenSegments(64))


def produced_batch(size: int) -> bytearray:
    """A batch as a producer sends it; what is in its records is of no concern to the log."""
    return build_batch(
        os.urandom(size - HEADER_SIZE),
        count=RECORDS_PER_BATCH,
        last_offset_delta=RECORDS_PER_BATCH - 1,
        base_timestamp=0,
        max_timestamp=0,
    )


def copies_of(batch: bytearray, total: int) -> list[bytearray]:
    """Enough separate buffers that neither side works from the CPU's cache alone; used again with base offset 0."""
    return [bytearray(batch) for _ in range(max(8, min(64, total // len(batch))))]


def append_seconds(batches: list[bytearray], count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(Path(folder))
        begun = perf_counter()
        for at in range(count):
            batch = batches[at % len(batches)]
            batch[:8] = b"\0\0\0\0\0\0\0\0"  # a producer sends base offset 0
            log.append_as_leader(batch, leader_epoch=0, now_ms=0)
        return perf_counter() - begun


def write_seconds(batches: list[bytearray], count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        fd = os.open(Path(folder, "plain"), os.O_WRONLY | os.O_CREAT)
        begun = perf_counter()
        for at in range(count):
            batch = batches[at % len(batches)]
            batch[:8] = b"\0\0\0\0\0\0\0\0"
            os.write(fd, batch)
        seconds = perf_counter() - begun
        os.close(fd)
        return seconds


class Sink:
    """A socket whose other end, a process of its own, reads everything away."""

    def __init__(self) -> None:
        self.socket, far_end = socket.socketpair()
        self._reader = multiprocessing.get_context("fork").Process(target=self._drain, args=(far_end,))
        self._reader.start()
        far_end.close()

    def _drain(self, far_end: socket.socket) -> None:
        self.socket.close()
        buffer = bytearray(MIB)
        while far_end.recv_into(buffer):
            pass

    def send(self, file_range: FileRange) -> None:
        position, end = file_range.position, file_range.position + file_range.length
        while position < end:
            position += os.sendfile(self.socket.fileno(), file_range.file.fd, position, end - position)

    def close(self) -> None:
        self.socket.close()
        self._reader.join()


def read_seconds(log: PartitionLog, max_bytes: int, sink: Sink) -> float:
    """Read the whole log as ranges of `max_bytes` and send them."""
    begun = perf_counter()
    offset, end, sent = 0, log.log_end_offset, 0
    while offset < end:
        for file_range in log.read(offset, max_bytes, up_to=end):
            sink.send(file_range)
            sent += file_range.length
            offset += file_range.length // READ_BATCH_BYTES * RECORDS_PER_BATCH
    assert sent == log.size
    return perf_counter() - begun


def plain_read_seconds(log: PartitionLog, max_bytes: int, sink: Sink) -> float:
    """Send the same bytes of the same files with nothing but `sendfile`."""
    begun = perf_counter()
    for segment in log.segments:
        for position in range(0, segment.size, max_bytes):
            sink.send(FileRange(segment.file, position, min(max_bytes, segment.size - position)))
    return perf_counter() - begun


def bench_appends(table: Table, rounds: int, total: int) -> bool:
    met = True
    for name, size in (("append 16 KB batches", 16 * 1024), ("append 1 MB batches", MIB)):
        batches = copies_of(produced_batch(size), total)
        count = total // size
        ours, plain = medians_in_turns(
            rounds, partial(append_seconds, batches, count), partial(write_seconds, batches, count)
        )
        ratio = plain / ours
        met = met and ratio >= APPEND_GOAL
        table.add_row(name, _rate(total, ours), _rate(total, plain), f"{ratio:.2f}", f"≥ {APPEND_GOAL} × os.write")
    return met


def bench_reads(table: Table, rounds: int, total: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(Path(folder), segment_bytes=64 * MIB)
        batch = produced_batch(READ_BATCH_BYTES)
        for _ in range(total // READ_BATCH_BYTES):
            batch[:8] = bytes(8)
            log.append_as_leader(batch, leader_epoch=0, now_ms=0)
        log.close(0)
        sink = Sink()
        for max_bytes in (200 * 1024 // READ_BATCH_BYTES * READ_BATCH_BYTES, MIB):
            name = f"read as ranges of {max_bytes // 1024} KB"
            log = open_log(Path(folder), segment_bytes=64 * MIB)
            first = read_seconds(log, max_bytes, sink)
            ours, plain = medians_in_turns(
                rounds,
                partial(read_seconds, log, max_bytes, sink),
                partial(plain_read_seconds, log, max_bytes, sink),
            )
            table.add_row(name, _rate(total, ours), _rate(total, plain), f"{plain / ours:.2f}", "os.sendfile")
            table.add_row(
                "  … first time after open", _rate(total, first), _rate(total, plain), f"{plain / first:.2f}", ""
            )
        sink.close()


def bench_open(table: Table, rounds: int, segments: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        batch = produced_batch(1000)
        log = open_log(Path(folder), segment_bytes=1000)
        for _ in range(segments):
            batch[:8] = bytes(8)
            log.append_as_leader(batch, leader_epoch=0, now_ms=0)
        log.close(0)

        def reopen() -> float:
            begun = perf_counter()
            opened = open_log(Path(folder), segment_bytes=1000)
            seconds = perf_counter() - begun
            assert len(opened.segments) == segments
            return seconds

        def listing() -> float:
            begun = perf_counter()
            for entry in os.scandir(folder):
                entry.stat()
            return perf_counter() - begun

        ours, plain = medians_in_turns(rounds, reopen, listing)
        table.add_row(
            f"open {segments} segments",
            f"{ours * 1000:.1f} ms",
            f"{plain * 1000:.1f} ms",
            f"{plain / ours:.2f}",
            "os.scandir and stat",
        )


def bench_growth(table: Table, rounds: int, appends: int) -> None:
    """The same appends to a log of 1, 10 and 100 segments."""
    batch = produced_batch(16 * 1024)
    with tempfile.TemporaryDirectory() as folder:
        logs = []
        for segments in (1, 10, 100):
            log = open_log(Path(folder, str(segments)), segment_bytes=1024 * MIB)
            for _ in range(segments - 1):
                batch[:8] = bytes(8)
                log.append_as_leader(batch, leader_epoch=0, now_ms=0)
                log.roll()
            logs.append((segments, log))

        def append(log: PartitionLog) -> float:
            begun = perf_counter()
            for _ in range(appends):
                batch[:8] = bytes(8)
                log.append_as_leader(batch, leader_epoch=0, now_ms=0)
            return (perf_counter() - begun) / appends

        costs = medians_in_turns(rounds, *(partial(append, log) for _, log in logs))
        for (segments, _), cost in zip(logs, costs, strict=True):
            table.add_row(
                f"an append of 16 KB, {segments} segments",
                f"{cost * 1e6:.1f} µs",
                f"{costs[0] * 1e6:.1f} µs",
                f"{costs[0] / cost:.2f}",
                "1 segment",
            )


def _rate(total: int, seconds: float) -> str:
    return f"{total / seconds / 1e6:,.0f} MB/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short form, for a first impression")
    quick = parser.parse_args().quick
    rounds, total = (3, 64 * MIB) if quick else (9, 256 * MIB)
    table = Table("what", "kafkalite", "plain", "ratio", "plain is / goal", title="The log on disk")
    met = bench_appends(table, rounds, total)
    bench_reads(table, rounds, total)
    bench_open(table, rounds, 1000)
    bench_growth(table, rounds=31, appends=100)
    Console().print(table)
    Console().print(f"append goal (≥ {APPEND_GOAL} × os.write): {'met' if met else 'MISSED'}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
