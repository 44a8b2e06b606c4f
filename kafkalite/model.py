"""The words that every room shares. Frozen values only; a name that came from outside is checked here, once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError

OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC})
"""Written by the broker itself; clients may read them."""

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker, and where clients reach it."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, and who leads it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic; `config` has what was set for it, not the defaults."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionState, ...]
    config: Mapping[str, str]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def all_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(len(self.partitions))]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that is known of a cluster at one moment."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]
    topics: Mapping[str, TopicState]


def check_topic_name(name: str) -> str:
    """The name, if Kafka's rule allows it: the rule also keeps every topic's folder inside the data directory."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name[:300]!r} is not a topic name: use 1 to 249 of a-z A-Z 0-9 . _ - (and neither '.' nor '..')",
        )
    return name
