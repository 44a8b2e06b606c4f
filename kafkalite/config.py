"""Every option of topics and of the broker's storage: name, meaning, default and bounds, each written once.

A field `segment_bytes` is Kafka's option `segment.bytes`. Values come in as strings, from a file or from the
wire; an unknown name or a value out of bounds is an error that names the option and what it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from kafkalite.errors import ErrorCode, KafkaError

NEVER: Final = 2**63 - 1
"""Kafka's way to say that a limit in messages or milliseconds does not apply."""

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


def _option(
    default: object,
    meaning: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    return field(
        default=default, metadata={"meaning": meaning, "at_least": at_least, "at_most": at_most, "choices": choices}
    )


class ConfigError(KafkaError):
    """An option that does not exist, or a value that it does not accept."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What topic and broker options have in common: parsing, bounds, and their way back to strings."""

    def __post_init__(self) -> None:
        for option in fields(self):
            _check(_kafka_name(option.name), getattr(self, option.name), option.metadata)

    @classmethod
    def from_strings(cls, values: Mapping[str, str]) -> Self:
        """The options with these values set and the rest at their defaults."""
        known = {_kafka_name(option.name): option for option in fields(cls)}
        parsed: dict[str, object] = {}
        for name, text in values.items():
            if name not in known:
                raise ConfigError(f"there is no option {name!r}; the options are {', '.join(sorted(known))}")
            parsed[known[name].name] = _parse(name, text, known[name].default)
        return cls(**parsed)

    def as_strings(self) -> dict[str, str]:
        """Every option by its Kafka name, in the form that `from_strings` reads."""
        return {_kafka_name(option.name): _format(getattr(self, option.name)) for option in fields(self)}

    @classmethod
    def documentation(cls) -> list[tuple[str, str, str]]:
        """(name, default, meaning) of every option, for --help and the reference."""
        return [(_kafka_name(o.name), _format(o.default), o.metadata["meaning"]) for o in fields(cls)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Options):
    """The options of one topic."""

    cleanup_policy: tuple[str, ...] = _option(
        ("delete",), "delete old segments, compact to the last value per key, or both", choices=("delete", "compact")
    )
    delete_retention_ms: int = _option(_DAY_MS, "how long a compacted topic keeps a tombstone", at_least=0)
    flush_messages: int = _option(
        NEVER, "fsync after this many records; then records are shown to consumers only once flushed", at_least=1
    )
    flush_ms: int = _option(
        NEVER, "fsync after this long; then records are shown to consumers only once flushed", at_least=0
    )
    index_interval_bytes: int = _option(4 * _KIB, "bytes of log between two entries of the offset index", at_least=0)
    max_compaction_lag_ms: int = _option(NEVER, "compact a record at the latest this long after its time", at_least=1)
    max_message_bytes: int = _option(_MIB + 12, "the largest record batch accepted", at_least=0, at_most=2**31 - 1)
    message_timestamp_after_max_ms: int = _option(_HOUR_MS, "how far in the future a create time may lie", at_least=0)
    message_timestamp_before_max_ms: int = _option(NEVER, "how far in the past a create time may lie", at_least=0)
    message_timestamp_type: str = _option(
        "CreateTime", "whose clock stamps the records", choices=("CreateTime", "LogAppendTime")
    )
    min_cleanable_dirty_ratio: float = _option(
        0.5, "share of uncompacted bytes at which a log is compacted", at_least=0, at_most=1
    )
    min_compaction_lag_ms: int = _option(0, "leave a record uncompacted at least this long", at_least=0)
    retention_bytes: int = _option(
        -1, "delete the oldest segments above this size of a partition; -1: no limit", at_least=-1
    )
    retention_ms: int = _option(7 * _DAY_MS, "delete segments older than this; -1: no limit", at_least=-1)
    segment_bytes: int = _option(1024 * _MIB, "size at which a new segment file begins", at_least=14, at_most=2**31 - 1)
    segment_index_bytes: int = _option(10 * _MIB, "size of the offset index at which a new segment begins", at_least=12)
    segment_ms: int = _option(7 * _DAY_MS, "time span of records after which a new segment begins", at_least=1)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def shows_only_flushed(self) -> bool:
        """P2: with a flush setting of its own, a topic shows a record only after it is flushed."""
        return self.flush_messages != NEVER or self.flush_ms != NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig(Options):
    """The options of a broker's data directories."""

    log_cleaner_dedupe_buffer_size: int = _option(
        128 * _MIB, "memory for the keys of one compaction pass; a pass ends early where it is full", at_least=_MIB
    )
    log_cleaner_io_max_bytes_per_second: int = _option(
        NEVER, "bytes per second that compaction may read and write", at_least=1
    )
    log_open_segments_max: int = _option(256, "closed segments kept open for readers, over all partitions", at_least=1)
    producer_id_expiration_ms: int = _option(_DAY_MS, "forget an idempotent producer after this long", at_least=1)


def _kafka_name(field_name: str) -> str:
    return field_name.replace("_", ".")


def _parse(name: str, text: str, default: object) -> object:
    try:
        if isinstance(default, tuple):
            return tuple(part.strip() for part in text.split(","))
        return type(default)(text)  # type: ignore[call-arg]
    except ValueError:
        raise ConfigError(f"{name}={text!r} is not a {type(default).__name__}; the default is {default}") from None


def _format(value: object) -> str:
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
