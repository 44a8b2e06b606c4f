"""Arrow columns into a Kafka log on disk, a crash in the middle of a write, and every record back again.

It uses record batches and the log, and no broker.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter

import pyarrow as pa
from rich.console import Console
from rich.progress import track

from kafkalite.clock import SystemClock
from kafkalite.config import StorageConfig, TopicConfig
from kafkalite.model import TopicPartition
from kafkalite.records.columns import decode_columns, encode_columns
from kafkalite.storage.manager import LogManager

PAGE_VIEWS = TopicPartition("page-views", 0)
BATCHES, RECORDS = 200, 5_000
MIB = 1024 * 1024


def page_views(first: int) -> tuple[pa.Array, pa.Array]:
    """Keys and values of one batch: who looked at what."""
    users = pa.array([b"user-%d" % (n * 7919 % 1000) for n in range(first, first + RECORDS)], pa.binary())
    views = pa.array([b'{"page": "/item/%d", "view": %d}' % (n % 5000, n) for n in range(first, first + RECORDS)])
    return users, views


def open_logs(data: Path) -> LogManager:
    logs = LogManager([data], StorageConfig(), SystemClock())
    logs.open(lambda _partition: TopicConfig(segment_bytes=16 * MIB))
    return logs


def main(data: Path, console: Console) -> None:
    logs = open_logs(data)
    log = logs.create(PAGE_VIEWS, TopicConfig(segment_bytes=16 * MIB))
    columns = [page_views(at * RECORDS) for at in track(range(BATCHES), "making page views", console=console)]

    now_ms = SystemClock().now_ms()
    begun = perf_counter()
    for users, views in columns:
        batch = encode_columns(views, key=users, default_timestamp=now_ms)
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    seconds = perf_counter() - begun
    written, segments = log.log_end_offset, len(log.segments)
    console.print(f"wrote {written:,} records into {segments} segments: {written / seconds:,.0f} records/s")

    console.print("now a crash: no close, and half a batch torn off at the end of the last segment")
    with log.segments[-1].path.open("ab") as file:
        file.write(bytes(encode_columns(columns[0][1]))[:10_000])
    del log, logs

    begun = perf_counter()
    log = open_logs(data).logs[PAGE_VIEWS]
    console.print(
        f"recovered in {(perf_counter() - begun) * 1000:.0f} ms, the log ends at offset {log.log_end_offset:,}"
    )

    begun = perf_counter()
    offset = read = 0
    while offset < log.log_end_offset:
        fetched = b"".join(found.read() for found in log.read(offset, 4 * MIB, up_to=log.log_end_offset))
        records = decode_columns(fetched, limit=64 * MIB, start_offset=offset)
        assert records.column("offset")[0].as_py() == offset
        read += records.num_rows
        offset = records.column("offset")[-1].as_py() + 1
    console.print(f"read {read:,} records back as Arrow: {read / (perf_counter() - begun):,.0f} records/s")
    assert read == written, f"{written - read} records are missing"
    console.print(f"[green]nothing lost, nothing doubled[/]: {read:,} of {written:,}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder), Console(force_terminal=None if os.isatty(1) else False))
