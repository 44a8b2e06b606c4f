"""`kafkalite topics`: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kafkalite.cli.arguments import DEFAULT_ADDRESS, Bootstrap, Yes, connect, parse_pairs

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

_BROKER_DEFAULT: Final = -1
Name = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Settings = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="An option of the topic. Repeatable.")
]


@app.command(epilog="Example: kafkalite topics create orders --partitions 3 --config retention.ms=86400000")
def create(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="How many partitions; else the broker's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="Replicas of each; else the broker's default.replication.factor.")
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="It is no error if the topic is there.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Create a topic."""
    from kafkalite.client.admin import Admin
    from kafkalite.errors import ErrorCode, KafkaError

    configs = dict(parse_pairs(config or [], "--config"))
    with connect(bootstrap) as cluster:
        try:
            Admin(cluster).create_topic(
                name,
                partitions=partitions or _BROKER_DEFAULT,
                replication_factor=replication_factor or _BROKER_DEFAULT,
                configs=configs,
            )
        except KafkaError as error:
            if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            typer.echo(f"topic {name!r} exists already")
        else:
            typer.echo(f"created topic {name!r}")


@app.command("list", epilog="Example: kafkalite topics list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also those that the broker keeps for itself.")] = False,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """List the topics."""
    from kafkalite.cli.tables import print_table
    from kafkalite.client.admin import Admin

    with connect(bootstrap) as cluster:
        topics = [topic for topic in Admin(cluster).topics() if internal or not topic.is_internal]
    print_table(
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        [
            (topic.name, len(topic.partitions), max((len(each.replicas) for each in topic.partitions), default=0))
            for topic in topics
        ],
    )


@app.command(epilog="Example: kafkalite topics describe orders")
def describe(
    name: Name,
    all_configs: Annotated[bool, typer.Option("--all-configs", help="Also options that have their default.")] = False,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Show a topic's partitions with their offsets, and the options that differ from the default."""
    from kafkalite.cli.tables import print_table
    from kafkalite.client.admin import Admin
    from kafkalite.client.offsets import EARLIEST, LATEST
    from kafkalite.model import TopicPartition

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        (topic,) = admin.topics([name])
        # A partition without a leader has no offsets to tell now; the others do.
        led = [TopicPartition(name, each.number) for each in topic.partitions if each.leader >= 0]
        starts = admin.list_offsets(dict.fromkeys(led, EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(led, LATEST))
        configs = [entry for entry in admin.topic_configs(name) if all_configs or entry.is_own]
    rows = []
    for partition in topic.partitions:
        place = TopicPartition(name, partition.number)
        start, end = (starts[place].offset, ends[place].offset) if place in starts else (None, None)
        rows.append(
            (partition.number, partition.leader, _numbers(partition.replicas), _numbers(partition.in_sync), start, end)
        )
    print_table(["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END"], rows, title=f"Topic {name}")
    if configs:
        typer.echo()
        print_table(["OPTION", "VALUE"], [(entry.name, entry.value) for entry in configs])


@app.command(epilog="Example: kafkalite topics alter orders --partitions 6 --delete-config retention.ms")
def alter(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="The new number of partitions; it can only grow.")
    ] = None,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Take this option back to its default. Repeatable.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Add partitions to a topic, or change its options."""
    from kafkalite.client.admin import Admin

    changed = dict(parse_pairs(config or [], "--config"))
    removed = delete_config or []
    if partitions is None and not changed and not removed:
        raise typer.BadParameter("nothing to change: give --partitions, --config or --delete-config")
    if both := sorted(changed.keys() & set(removed)):
        raise typer.BadParameter(f"{', '.join(both)} cannot be both set and deleted")
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        admin.topics([name])  # a topic that is not there is told at once
        if changed or removed:
            admin.alter_topic_configs(name, changed, removed)
        if partitions is not None:
            admin.set_partition_count(name, partitions)
    typer.echo(f"altered topic {name!r}")


@app.command(epilog="Example: kafkalite topics delete orders --yes")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_ADDRESS,
) -> None:
    """Delete topics with all their records."""
    from kafkalite.client.admin import Admin

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        admin.topics(names)
        if not yes:
            typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True)
        for name in names:
            admin.delete_topic(name)
            typer.echo(f"deleted topic {name!r}")


def _numbers(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
