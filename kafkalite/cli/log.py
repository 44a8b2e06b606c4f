"""`kafkalite log`: dump and verify the files of a log, also while a broker uses them. Nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkalite.cli.records import iso_time
from kafkalite.errors import KafkaliteError

if TYPE_CHECKING:
    from kafkalite.records.batch import RecordBatch
    from kafkalite.records.rows import Row

app = typer.Typer(help="Look into the files of a log; nothing is changed.", no_args_is_help=True)

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", show_default=False, help="A partition's folder or a data directory.")
]


class DamagedLog(KafkaliteError):
    """What was looked at is damaged; where, has been printed."""


@app.command(epilog="Example: kafkalite log dump kafkalite-data/orders-0 --records")
def dump(
    directory: Directory,
    records: Annotated[bool, typer.Option("--records", help="Print the records of each batch, too.")] = False,
) -> None:
    """Print the batches of a log: offsets, times, codec, size, producer, CRC."""
    from kafkalite.cli.log_files import DamagedRange, partition_folders, segments, walk

    damaged = 0
    for folder in partition_folders(directory):
        for segment in segments(folder):
            typer.echo(f"{segment.path}  ({segment.size} bytes)")
            for found in walk(segment):
                if isinstance(found, DamagedRange):
                    damaged += 1
                    typer.echo(f"  DAMAGED {found}")
                    continue
                typer.echo("  " + describe_batch(found.position, found.batch))
                if records:
                    for line in _record_lines(found.batch):
                        typer.echo("    " + line)
    if damaged:
        raise DamagedLog(f"{damaged} damaged ranges in {directory}")


@app.command(epilog="Example: kafkalite log verify kafkalite-data")
def verify(directory: Directory) -> None:
    """Check every batch of every segment; exit code 1 and the exact ranges if any is damaged."""
    from kafkalite.cli.log_files import check, partition_folders, segments

    folders = partition_folders(directory)
    files = [segment for folder in folders for segment in segments(folder)]
    batches = good_bytes = damaged = 0
    with _progress(sum(segment.size for segment in files)) as advance:

        def on_good(size: int) -> None:
            nonlocal batches, good_bytes
            batches += 1
            good_bytes += size
            advance(size)

        for segment in files:
            for found in check(segment, on_good):
                damaged += 1
                typer.echo(f"{segment.path}: {found}")
    typer.echo(f"{len(folders)} partitions, {len(files)} segments, {batches} batches, {good_bytes} bytes are good")
    if damaged:
        raise DamagedLog(f"{damaged} damaged ranges in {directory}")


def describe_batch(position: int, batch: RecordBatch) -> str:
    """One line about a batch whose CRC holds."""
    from kafkalite.records.compression import Codec

    codec = Codec(batch.codec_id).kafka_name if batch.codec_id in list(Codec) else f"codec {batch.codec_id}"
    parts = [
        f"offsets {batch.base_offset}–{batch.last_offset}",
        f"at byte {position}",
        f"{batch.size} bytes",
        f"{batch.count} records",
        codec,
        f"time {iso_time(batch.base_timestamp)} – {iso_time(batch.max_timestamp)}",
        f"epoch {batch.leader_epoch}",
        f"producer {batch.producer_id}/{batch.producer_epoch} sequence {batch.base_sequence}"
        if batch.producer_id >= 0
        else "no producer id",
        *(["transactional"] if batch.is_transactional else []),
        *(["control"] if batch.is_control else []),
        "CRC ok",
    ]
    return "  ".join(parts)


def _record_lines(batch: RecordBatch) -> Iterator[str]:
    from kafkalite.records.rows import iter_rows
    from kafkalite.storage.reading import DECOMPRESSED_LIMIT

    for row in iter_rows(batch, limit=DECOMPRESSED_LIMIT):
        yield describe_record(row)


def describe_record(row: Row) -> str:
    headers = "".join(f"  header {name!r}={_shown(value)}" for name, value in row.headers)
    return f"{row.offset}  {iso_time(row.timestamp)}  key {_shown(row.key)}  value {_shown(row.value)}{headers}"


def _shown(data: bytes | None) -> str:
    """Text in quotes with control characters escaped, other bytes as Python writes them."""
    if data is None:
        return "null"
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)


@contextmanager
def _progress(total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Takes the bytes that are done; shows a bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=total_bytes)
        yield lambda size: progress.advance(task, size)
