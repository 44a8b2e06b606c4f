"""`kafkalite serve` runs a broker: its command line, and the broker's configuration from it."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kafkalite.cli import settings
from kafkalite.client.address import Address
from kafkalite.errors import KafkaliteError
from kafkalite.options import ConfigError

if TYPE_CHECKING:
    from kafkalite.config import BrokerConfig

_DESCRIPTION = """\
Run a broker until Ctrl-C or SIGTERM. It prints "kafkalite ready on HOST:PORT" to standard output when clients can
connect. Settings have Kafka's names and are listed by: kafkalite config. Flags beat --set, which beats the file."""
_EXAMPLE = "Example: kafkalite serve --data /var/lib/kafkalite --set retention.ms=86400000"


class CannotServe(KafkaliteError):
    """The machine does not give the broker what it needs: an address, a directory."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; see: {self.prog} --help\n")


def serve(arguments: Sequence[str]) -> None:
    """Runs a broker as the command line says, until it is stopped."""
    options = _parser().parse_args(arguments)
    config = broker_config(options)
    from kafkalite.server.broker import run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run(config, options.metrics)
    except OSError as error:
        raise CannotServe(_explained(error)) from None


def broker_config(options: argparse.Namespace) -> BrokerConfig:
    """What the file, `--set` and the flags say together."""
    from kafkalite.config import BrokerConfig

    values: dict[str, str] = {}
    if options.config is not None:
        try:
            values |= settings.from_toml(options.config.read_bytes(), str(options.config))
        except OSError as error:
            raise ConfigError(f"cannot read {options.config}: {error.strerror}") from None
    values |= settings.from_pairs(options.set)
    if options.data is not None:
        values["log.dirs"] = options.data
    if options.listen is not None:
        values["listeners"] = options.listen
    config = BrokerConfig.from_strings(values)
    for name, text in (("listeners", config.listeners), ("--metrics", options.metrics)):
        if text is not None and not options.insecure and not settings.is_loopback(_host(name, text)):
            raise ConfigError(
                f"{name}: other machines reach {text}, and nothing there is encrypted or checks who they are; "
                "listen on 127.0.0.1, or add --insecure if the network is trusted"
            )
    return config


def _explained(error: OSError) -> str:
    if error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}; choose a writable data directory with --data"
    return f"cannot listen: {error.strerror or error}; is another broker running? Choose an address with --listen"


def _host(name: str, text: str) -> str:
    try:
        return Address.parse(text.removeprefix("PLAINTEXT://")).host
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("kafkalite serve", description=_DESCRIPTION, epilog=_EXAMPLE, allow_abbrev=False)
    parser.add_argument("--data", metavar="DIR", help="where the data lives, log.dirs (default: kafkalite-data)")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to accept clients, listeners (default: 127.0.0.1:9092); port 0 takes a free one",
    )
    parser.add_argument("--config", metavar="FILE.toml", type=Path, help="settings in a file")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="one setting; may be repeated")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics there")
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines reach, in plain text"
    )
    return parser
