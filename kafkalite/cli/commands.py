"""All commands in one tree, for typer to parse and to explain."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkalite.cli import config, consume, groups, log, produce, topics
from kafkalite.cli.serve import serve

app = typer.Typer(
    name="kafkalite",
    help="A small broker that every Kafka client can talk to, and the tools to use it.",
    epilog="Begin with: kafkalite serve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command(
    "serve", add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def _serve(context: typer.Context) -> None:
    """Run a broker until Ctrl-C or SIGTERM."""
    serve(context.args)


app.command("config", epilog="Example: kafkalite config retention")(config.config)
app.add_typer(topics.app, name="topics")
app.command("produce", epilog=produce.EXAMPLE)(produce.produce)
app.command("consume", epilog=consume.EXAMPLE)(consume.consume)
app.add_typer(groups.app, name="groups")
app.add_typer(log.app, name="log")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kafkalite {version('kafkalite')}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
