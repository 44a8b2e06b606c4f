"""`kafkalite groups`: list, describe with lag, reset positions, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kafkalite.cli.arguments import DEFAULT_ADDRESS, Bootstrap, Yes, connect, only_one, parse_time

if TYPE_CHECKING:
    from kafkalite.client.admin import Admin
    from kafkalite.model import TopicPartition

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


@app.command("list", epilog="Example: kafkalite groups list")
def list_groups(bootstrap: Bootstrap = DEFAULT_ADDRESS) -> None:
    """List the groups and their states."""
    from kafkalite.cli.tables import print_table
    from kafkalite.client.admin import Admin

    with connect(bootstrap) as cluster:
        groups = Admin(cluster).groups()
    print_table(
        ["GROUP", "STATE", "TYPE"], [(group.name, group.state or None, group.protocol_type) for group in groups]
    )


@app.command(epilog="Example: kafkalite groups describe billing")
def describe(name: Name, bootstrap: Bootstrap = DEFAULT_ADDRESS) -> None:
    """Show how far a group has read each partition, how far it lags behind, and which member reads it."""
    from kafkalite.cli.tables import print_table
    from kafkalite.client.admin import Admin
    from kafkalite.client.offsets import LATEST
    from kafkalite.errors import ErrorCode, KafkaError

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        group = admin.group(name)
        committed = admin.committed(name)
        if group.state == "Dead" and not committed:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name!r} at {cluster}")
        owners = {place: member for member in group.members for place in member.assignment}
        places = sorted({*committed, *owners})
        ends = admin.list_offsets(dict.fromkeys(_existing(admin, places), LATEST))
    typer.echo(f"Group {name}: {group.state}, {len(group.members)} members")
    rows = []
    for place in places:
        position, end, owner = committed.get(place), ends.get(place), owners.get(place)
        rows.append(
            (
                place.topic,
                place.partition,
                position,
                end.offset if end else None,
                end.offset - position if end and position is not None else None,
                owner.member_id if owner else None,
                owner.host if owner else None,
            )
        )
    print_table(["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"], rows)


@app.command(epilog="Example: kafkalite groups reset billing --topic orders --to-earliest --execute")
def reset(
    name: Name,
    topic: Annotated[
        list[str] | None, typer.Option(help="Reset this topic; else all that the group has read. Repeatable.")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Go to the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Go to the end.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="Go to this offset.")] = None,
    to_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go to this time: ISO 8601 (UTC) or milliseconds.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(metavar="N", help="Go N records on; back, if N is negative.")] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else the change is only shown.")] = False,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Move the positions of a group that has no members now. Offsets outside of the log become its start or end."""
    from kafkalite.cli.tables import print_table
    from kafkalite.client.admin import Admin
    from kafkalite.client.offsets import EARLIEST, LATEST
    from kafkalite.errors import ErrorCode, KafkaError

    only_one(
        {
            "--to-earliest": to_earliest,
            "--to-latest": to_latest,
            "--to-offset": to_offset is not None,
            "--to-timestamp": to_timestamp is not None,
            "--shift-by": shift_by is not None,
        },
        required=True,
    )
    time = None if to_timestamp is None else parse_time(to_timestamp, "--to-timestamp")
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        group = admin.group(name)
        if group.members:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {name!r} is {group.state} with {len(group.members)} members; stop its consumers first",
            )
        committed = admin.committed(name)
        if topic:
            places = [place for each in topic for place in cluster.partitions_of(each)]
        else:
            places = _existing(admin, sorted(committed))
        if not places:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"group {name!r} has read nothing; say what to reset with --topic"
            )
        starts = _offsets(admin, places, EARLIEST)
        ends = _offsets(admin, places, LATEST)
        if time is not None:
            targets = {place: at if at >= 0 else ends[place] for place, at in _offsets(admin, places, time).items()}
        elif shift_by is not None:
            targets = {place: committed[place] + shift_by for place in places if place in committed}
        elif to_offset is not None:
            targets = dict.fromkeys(places, to_offset)
        else:
            targets = starts if to_earliest else ends
        targets = {place: min(max(at, starts[place]), ends[place]) for place, at in targets.items()}
        if execute and targets:
            admin.commit(name, targets)
    rows = [(place.topic, place.partition, committed.get(place), at) for place, at in sorted(targets.items())]
    print_table(["TOPIC", "PARTITION", "COMMITTED", "NEW"], rows)
    if not execute:
        typer.echo("Nothing is changed yet: add --execute to do it.", err=True)


@app.command(epilog="Example: kafkalite groups delete billing --yes")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Delete groups without members, and their positions."""
    from kafkalite.client.admin import Admin

    with connect(bootstrap) as cluster:
        if not yes:
            typer.confirm(f"Delete {', '.join(names)} with all positions?", abort=True)
        for name in names:
            Admin(cluster).delete_group(name)
            typer.echo(f"deleted group {name!r}")


def _existing(admin: Admin, places: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Without those whose topic has been deleted since."""
    counts = {topic.name: len(topic.partitions) for topic in admin.topics()}
    return [place for place in places if place.partition < counts.get(place.topic, 0)]


def _offsets(admin: Admin, places: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    return {place: found.offset for place, found in admin.list_offsets(dict.fromkeys(places, time)).items()}
