"""The words that every room shares. Frozen values only; a name that came from outside is checked here, once."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> str:
    """The name, if Kafka's rule allows it: the rule also keeps every topic's folder inside the data directory."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name[:300]!r} is not a topic name: use 1 to 249 of a-z A-Z 0-9 . _ - (and neither '.' nor '..')",
        )
    return name
