"""What a handler may use, and what it knows of who asks."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.clock import Clock
from kafkalite.cluster.store import MetadataStore
from kafkalite.config import BrokerConfig
from kafkalite.errors import KafkaliteError
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.protocol.headers import RequestHeader
from kafkalite.replication.manager import Partitions
from kafkalite.server.metrics import Metrics
from kafkalite.server.topics import Topics


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a broker, as handlers see them."""

    config: BrokerConfig
    clock: Clock
    store: MetadataStore
    partitions: Partitions
    topics: Topics
    groups: GroupCoordinator
    metrics: Metrics


@dataclass(slots=True)
class Call:
    """Who asks, and in which version. Not frozen: a frozen one takes three times as long to make."""

    header: RequestHeader
    client_host: str


class CloseConnection(KafkaliteError):
    """A request has failed that has no answer; the end of the connection is how its sender learns of it."""
