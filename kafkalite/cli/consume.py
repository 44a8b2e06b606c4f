"""`kafkalite consume`: records become lines of standard output.

Without an end (`--max`, `--until-end`) it follows the topic until Ctrl-C, or until nobody reads the pipe that it
writes to.
"""

from __future__ import annotations

import os
import select
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafkalite.cli.arguments import DEFAULT_ADDRESS, Bootstrap, connect, only_one, parse_time
from kafkalite.cli.records import Columns, LineWriter, json_line, text_writer

if TYPE_CHECKING:
    from kafkalite.client.cluster import Cluster
    from kafkalite.model import TopicPartition

EXAMPLE: Final = "Example: kafkalite consume orders --from-beginning --keys --max 10"


class Format(StrEnum):
    """How a record becomes a line."""

    TEXT = "text"
    JSON = "json"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin at the first record, not at what comes from now on.")
    ] = False,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Read only this partition. Repeatable.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Begin here; needs one --partition.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin at this time: ISO 8601 (UTC) or milliseconds.")
    ] = None,
    max_records: Annotated[int | None, typer.Option("--max", min=1, metavar="N", help="Stop after N records.")] = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="Stop at the end that the topic has now.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    form: Annotated[
        Format, typer.Option("--format", help="text: one line a record, the bytes as they are; json: everything.")
    ] = Format.TEXT,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Print the records of a topic."""
    only_one({"--from-beginning": from_beginning, "--offset": offset is not None, "--timestamp": timestamp is not None})
    if offset is not None and len(partition or ()) != 1:
        raise typer.BadParameter("an offset belongs to one partition: add --partition", param_hint="--offset")
    time = None if timestamp is None else parse_time(timestamp, "--timestamp")
    columns = Columns(timestamps=timestamps, headers=headers, keys=keys)
    write = json_line if form is Format.JSON else text_writer(columns)
    try:
        with connect(bootstrap) as cluster:
            places = _chosen(cluster, topic, partition)
            positions = _starts(cluster, places, from_beginning=from_beginning, offset=offset, time=time)
            _copy(cluster, positions, _ends(cluster, places) if until_end else None, max_records, write)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Whoever reads has enough. What is still buffered must not be tried again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _chosen(cluster: Cluster, topic: str, numbers: list[int] | None) -> list[TopicPartition]:
    places = cluster.partitions_of(topic)
    if wrong := [number for number in numbers or () if number >= len(places)]:
        raise typer.BadParameter(
            f"topic {topic!r} has the partitions 0 to {len(places) - 1}, not {wrong[0]}", param_hint="--partition"
        )
    return places if numbers is None else [places[number] for number in numbers]


def _starts(
    cluster: Cluster, places: list[TopicPartition], *, from_beginning: bool, offset: int | None, time: int | None
) -> dict[TopicPartition, int]:
    from kafkalite.client.offsets import EARLIEST, LATEST, list_offsets

    if offset is not None:
        return dict.fromkeys(places, offset)
    if time is None:
        found = list_offsets(cluster, dict.fromkeys(places, EARLIEST if from_beginning else LATEST))
        return {place: found[place].offset for place in places}
    found = list_offsets(cluster, dict.fromkeys(places, time))
    if later := [place for place in places if found[place].offset < 0]:  # no record is that new
        found |= list_offsets(cluster, dict.fromkeys(later, LATEST))
    return {place: found[place].offset for place in places}


def _ends(cluster: Cluster, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    from kafkalite.client.offsets import LATEST, list_offsets

    return {place: found.offset for place, found in list_offsets(cluster, dict.fromkeys(places, LATEST)).items()}


def _copy(
    cluster: Cluster,
    positions: dict[TopicPartition, int],
    ends: dict[TopicPartition, int] | None,
    max_records: int | None,
    write: LineWriter,
) -> None:
    from kafkalite.client.simple import SimpleConsumer

    consumer = SimpleConsumer(cluster)
    # Not `sys.stdout.buffer`: with PYTHONUNBUFFERED that is a raw file, whose `write` may write a part only.
    output = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115
    written = 0
    while True:
        if ends is not None:
            positions = {place: at for place, at in positions.items() if at < ends[place]}
        if not positions:
            return
        for place, fetched in consumer.fetch(positions).items():
            positions[place] = fetched.next_offset
            for row in fetched.rows:
                if ends is not None and row.offset >= ends[place]:
                    break
                output.write(write(place, row))
                written += 1
                if written == max_records:
                    output.flush()
                    return
        output.flush()
        if _reader_is_gone(output.fileno()):
            raise BrokenPipeError


def _reader_is_gone(fd: int) -> bool:
    """Whether the other end of a pipe is closed: `| head` must end a command that has nothing to write, too."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))
