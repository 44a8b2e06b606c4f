"""`kafkalite config` lists what can be set, of the broker and of topics."""

from __future__ import annotations

from typing import Annotated

import typer


def config(
    part: Annotated[str, typer.Argument(help="List only the settings whose name contains this.")] = "",
) -> None:
    """List every setting of the broker and of topics, with its default and meaning."""
    from kafkalite.cli.tables import print_table
    from kafkalite.config import BrokerConfig

    rows = [row for row in BrokerConfig.documentation() if part in row[0]]
    print_table(["SETTING", "DEFAULT", "MEANING"], rows)
