"""Options that several commands have, and how their texts are read. A text that cannot be read is a usage error."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from kafkalite.client.cluster import Cluster

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="KAFKALITE_BOOTSTRAP",
        help="A broker of the cluster, or several with commas between.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def connect(bootstrap: str) -> Cluster:
    """The cluster behind `--bootstrap`; nothing is sent yet."""
    from kafkalite.client.address import Address
    from kafkalite.client.cluster import Cluster

    try:
        return Cluster(Address.parse_list(bootstrap))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap") from None


def parse_pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """`["a=1", "b="]` → `[("a", "1"), ("b", "")]`."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs.append((name.strip(), value))
    return pairs


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970, or a date and time by ISO 8601, which is UTC unless it says otherwise."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither milliseconds nor a time like 2026-01-31T12:00:00Z", param_hint=option
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def only_one(given: dict[str, bool], *, required: bool = False) -> None:
    """Refuses options that exclude each other, and the lack of any if one is required."""
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} exclude each other")
    if required and not chosen:
        raise typer.BadParameter(f"choose one of {', '.join(given)}")
