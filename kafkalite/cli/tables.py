"""Tables on standard output: fitted to a terminal, in full when piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNLIMITED_COLUMNS: Final = 100_000


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Numbers go to the right; None is shown as `-`."""
    shown = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for at, column in enumerate(columns):
        is_number = {type(row[at]) for row in shown} - {type(None)} == {int}
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in shown:
        table.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _UNLIMITED_COLUMNS
    Console(width=width, highlight=False).print(table)
