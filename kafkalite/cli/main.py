"""The command `kafkalite`, and how every failure of it ends: one line `error: …` on standard error.

Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.

`serve` is parsed by the standard library and does not load `commands`: typer with what it needs would cost a broker a
quarter of its start and of its memory when idle.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from kafkalite.errors import KafkaError, KafkaliteError
from kafkalite.options import ConfigError


def main() -> None:
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["serve"]:
            from kafkalite.cli.serve import serve

            serve(arguments[1:])
        else:
            from kafkalite.cli.commands import app

            app(arguments, prog_name="kafkalite")
    except ConfigError as error:
        _fail(error.message, 2)
    except KafkaError as error:
        _fail(_described(error), 1)
    except (KafkaliteError, OSError) as error:
        _fail(str(error), 1)


def _described(error: KafkaError) -> str:
    """The message, and Kafka's name for the error, for whoever wants to look it up."""
    from kafkalite.client.connection import BrokerUnreachable

    return error.message if isinstance(error, BrokerUnreachable) else f"{error.message} ({error.code.name})"


def _fail(message: str, exit_code: int) -> NoReturn:
    sys.stderr.write(f"error: {message}\n")
    sys.exit(exit_code)
