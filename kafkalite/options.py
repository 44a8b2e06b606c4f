"""What all options have in common: they are declared once, read from strings, checked, and written back.

A class of options is a frozen dataclass whose fields are made by `option`; a field `segment_bytes` is Kafka's option
`segment.bytes`. An unknown name, or a value out of bounds, is a `ConfigError` that names the option and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, Self

from kafkalite.errors import ErrorCode, KafkaError

_BOOLEANS: Final = {"true": True, "false": False}
_KINDS: Final[Mapping[type, str]] = {bool: "true or false", int: "a whole number", float: "a number"}


def option(
    default: object,
    meaning: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    broker_name: str | None = None,
) -> Any:
    """A field of a class of options. `broker_name`: what a broker's configuration also calls a topic's option."""
    return field(
        default=default,
        metadata={
            "meaning": meaning,
            "at_least": at_least,
            "at_most": at_most,
            "choices": choices,
            "broker_name": broker_name,
        },
    )


class ConfigError(KafkaError):
    """An option that does not exist, or a value that it does not accept."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What topic and broker options have in common: parsing, bounds, and their way back to strings."""

    def __post_init__(self) -> None:
        for name, found in self.options().items():
            _check(name, getattr(self, found.name), found.metadata)

    @classmethod
    def options(cls) -> dict[str, Field[Any]]:
        """The options by their Kafka names."""
        return {found.name.replace("_", "."): found for found in fields(cls) if found.metadata}

    @classmethod
    def from_strings(cls, values: Mapping[str, str]) -> Self:
        """The options with these values set and the rest at their defaults."""
        return cls(**parse(values, cls.options()))

    def as_strings(self) -> dict[str, str]:
        """Every option by its Kafka name, in the form that `from_strings` reads."""
        return {name: _format(getattr(self, found.name)) for name, found in self.options().items()}

    @classmethod
    def documentation(cls) -> list[tuple[str, str, str]]:
        """(name, default, meaning) of every option, for --help and the reference."""
        return [(name, _format(o.default), o.metadata["meaning"]) for name, o in cls.options().items()]


def parse(values: Mapping[str, str], known: Mapping[str, Field[Any]], also_known: Iterable[str] = ()) -> dict[str, Any]:
    """The values by the names of their fields; raises for a name that is in neither of the two."""
    parsed: dict[str, Any] = {}
    for name, text in values.items():
        if name not in known:
            names = sorted({*known, *also_known})
            near = difflib.get_close_matches(name, names, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(names)}"
            raise ConfigError(f"there is no option {name!r}; {remedy}")
        parsed[known[name].name] = _parse(name, text, known[name].default)
    return parsed


def _parse(name: str, text: str, default: object) -> object:
    try:
        if isinstance(default, bool):
            return _BOOLEANS[text.strip().lower()]
        if isinstance(default, tuple):
            return tuple(part.strip() for part in text.split(","))
        return type(default)(text)  # type: ignore[call-arg]
    except (ValueError, KeyError):
        raise ConfigError(
            f"{name}={text!r} is not {_KINDS[type(default)]}; the default is {_format(default)}"
        ) from None


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _check(name: str, value: Any, bounds: Mapping[str, Any]) -> None:
    at_least, at_most, choices = bounds["at_least"], bounds["at_most"], bounds["choices"]
    if at_least is not None and value < at_least:
        raise ConfigError(f"{name}={value} is too small: it must be at least {at_least}")
    if at_most is not None and value > at_most:
        raise ConfigError(f"{name}={value} is too large: it must be at most {at_most}")
    if choices:
        chosen = value if isinstance(value, tuple) else (value,)
        if not chosen or any(choice not in choices for choice in chosen):
            raise ConfigError(f"{name}={_format(value)!r} is not allowed: choose from {', '.join(choices)}")
