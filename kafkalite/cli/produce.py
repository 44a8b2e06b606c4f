"""`kafkalite produce`: lines of standard input become records.

Lines are gathered into batches for as long as more of them are waiting, and sent when the input pauses: a pipe is
fast, and what a person types is there at once. A line counts as sent when the broker has acknowledged it. Nothing that
was read is dropped silently: a bad line is an error after everything before it has been sent.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafkalite.cli.arguments import DEFAULT_ADDRESS, Bootstrap, connect, parse_pairs
from kafkalite.cli.records import BadLine, parse_line, parse_separator, ranges

if TYPE_CHECKING:
    from kafkalite.client.simple import SimpleProducer
    from kafkalite.model import TopicPartition
    from kafkalite.records.compression import Codec
    from kafkalite.records.rows import Row

EXAMPLE: Final = 'Example: echo "42:shipped" | kafkalite produce orders --key-separator :'

_READ_BYTES: Final = 1024 * 1024
_BATCH_BYTES: Final = 512 * 1024
"""Half of what a broker accepts by default, so that a batch never is too large; a line that is, is alone."""
_PAUSE_SECONDS: Final = 0.02
_PROGRESS_AFTER_SECONDS: Final = 1.0


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help=r"A line is KEY TEXT VALUE; \t is a tab.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="The key of all records.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of all records. Repeatable.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Where all records go; else the key decides, or they take turns.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, metavar="LINES", help="Send at the latest after so many lines.")] = 1000,
    compression: Annotated[str, typer.Option(metavar="none|gzip|snappy|lz4|zstd")] = "none",
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Send each line of standard input as a record, acknowledged by all in-sync replicas."""
    from kafkalite.client.simple import SimpleProducer
    from kafkalite.errors import KafkaError
    from kafkalite.model import TopicPartition
    from kafkalite.records.compression import Codec

    if key is not None and key_separator is not None:
        raise typer.BadParameter("--key and --key-separator exclude each other")
    if key_separator == "":
        raise typer.BadParameter("a separator has at least one character", param_hint="--key-separator")
    try:
        codec = Codec.named(compression)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--compression") from None
    headers = tuple((name, value.encode()) for name, value in parse_pairs(header or [], "--header"))
    with connect(bootstrap) as cluster:
        places = cluster.partitions_of(topic, may_create=True)
        if partition is not None:
            if TopicPartition(topic, partition) not in places:
                raise typer.BadParameter(
                    f"topic {topic!r} has the partitions 0 to {len(places) - 1}", param_hint="--partition"
                )
            places = [TopicPartition(topic, partition)]
        sender = Sender(SimpleProducer(cluster), places, codec, headers, batch)
        separator = None if key_separator is None else parse_separator(key_separator)
        was_interrupted = False
        try:
            try:
                _send_all(sender, None if key is None else key.encode(), separator)
            except KeyboardInterrupt:
                was_interrupted = True
            finally:
                sender.flush()
        except KafkaError as error:
            raise KafkaError(error.code, f"{error.message}; {sender.sent} records before were acknowledged") from None
        except BadLine as error:
            raise BadLine(f"{error}; the {sender.sent} lines before it were sent and acknowledged") from None
    typer.echo(sender.summary(), err=True)
    if was_interrupted:
        raise typer.Exit(130)


def _send_all(sender: Sender, key: bytes | None, separator: bytes | None) -> None:
    progress = _Progress()
    number = 0
    for line in read_lines(sys.stdin.fileno()):
        if line is None:
            sender.flush()
            continue
        number += 1
        own_key, value = parse_line(line, number, separator)
        if sender.add(key if separator is None else own_key, value):
            progress.show(sender.sent)


def read_lines(fd: int) -> Iterator[bytes | None]:
    """The lines of an input without their ends; None wherever it pauses."""
    rest = b""
    while True:
        if not select.select([fd], [], [], _PAUSE_SECONDS)[0]:
            yield None
        chunk = os.read(fd, _READ_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


class Sender:
    """Gathers records by partition, and sends them."""

    def __init__(
        self,
        producer: SimpleProducer,
        places: list[TopicPartition],
        codec: Codec,
        headers: tuple[tuple[str, bytes], ...],
        batch_lines: int,
    ) -> None:
        self.sent = 0
        """Records that were acknowledged."""
        self._producer = producer
        self._places = places
        self._codec = codec
        self._headers = headers
        self._batch_lines = batch_lines
        self._turn = 0
        self._waiting: defaultdict[TopicPartition, list[Row]] = defaultdict(list)
        self._waiting_lines = 0
        self._waiting_bytes = 0
        self._written: defaultdict[int, list[range]] = defaultdict(list)

    def add(self, key: bytes | None, value: bytes) -> bool:
        """Takes a record; whether a batch was sent for it."""
        from kafkalite.client.partitioner import partition_for_key
        from kafkalite.records.rows import Row

        size = len(value) + len(key or b"")
        is_full = self._waiting_lines >= self._batch_lines or self._waiting_bytes + size > _BATCH_BYTES
        if is_full:
            self.flush()
        count = len(self._places)
        place = self._places[self._turn % count if key is None else partition_for_key(key, count)]
        rows = self._waiting[place]
        rows.append(Row(len(rows), time.time_ns() // 1_000_000, key, value, self._headers))
        self._waiting_lines += 1
        self._waiting_bytes += size
        return is_full

    def flush(self) -> None:
        """Sends what is waiting, and waits for the acknowledgements; what fails is not tried a second time."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._waiting_lines = self._waiting_bytes = 0
        self._turn += 1
        for place, rows in waiting.items():
            first = self._producer.send(place, rows, self._codec)
            self.sent += len(rows)
            self._written[place.partition].append(range(first, first + len(rows)))

    def summary(self) -> str:
        places = "; ".join(
            f"partition {number}: offsets {ranges(found)}" for number, found in sorted(self._written.items())
        )
        return f"sent {self.sent} records" + (f" ({places})" if places and len(places) < 500 else "")


class _Progress:
    """How many records have been sent, on a terminal, if it takes a while."""

    def __init__(self) -> None:
        self._begin = self._shown = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def show(self, sent: int) -> None:
        now = time.monotonic()
        if self._is_terminal and now - self._begin > _PROGRESS_AFTER_SECONDS and now - self._shown > 0.2:
            self._shown = now
            sys.stderr.write(f"\r{sent:,} records, {sent / (now - self._begin):,.0f}/s ")
            sys.stderr.flush()
