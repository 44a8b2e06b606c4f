"""A broker's configuration from a TOML file, `--set` and flags: names and texts for `BrokerConfig.from_strings`. Pure.

Names are Kafka's, dots included. In TOML they may be quoted or not: `log.segment.bytes = 1`, `"log.segment.bytes" = 1`
and `[log.segment]` with `bytes = 1` are the same. Flags beat `--set`, which beats the file.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from kafkalite.options import ConfigError


def from_toml(content: bytes, source: str) -> dict[str, str]:
    """The settings in a file; `source` is its name, for errors."""
    try:
        tables = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not TOML: {error}") from None
    found: dict[str, str] = {}
    _flatten(tables, "", found, source)
    return found


def from_pairs(texts: Iterable[str]) -> dict[str, str]:
    """The settings in `NAME=VALUE` texts; the last one of a name counts."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {text}: write NAME=VALUE, as in --set retention.ms=86400000")
        found[name.strip()] = value.strip()
    return found


def _flatten(table: Mapping[str, Any], prefix: str, found: dict[str, str], source: str) -> None:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            _flatten(value, name + ".", found, source)
        elif name in found:
            raise ConfigError(f"{source} sets {name} twice, quoted and not")
        else:
            found[name] = _text(value, name, source)


def _text(value: object, name: str, source: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return ",".join(_text(part, name, source) for part in value)
    raise ConfigError(f"{source}: {name} is a {type(value).__name__}; use text, a number, true, false, or a list")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host; a name other than `localhost` may be anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
