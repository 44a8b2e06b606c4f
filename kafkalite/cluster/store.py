"""What a broker asks of the place where a cluster's topics are kept; `local_store` is the embedded one.

Invariant: a change is durable before its method returns, and `snapshot` shows it from then on. A deleted topic is
named by `deleting` until `forget_deleted` says that its logs are gone, so that a crash in between is finished later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkalite.model import ClusterSnapshot, TopicState


class MetadataStore(Protocol):
    """The cluster's topics, their options, and the ids that are given out once."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...

    @property
    def deleting(self) -> frozenset[str]: ...

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        """A new topic with a new id; raises TOPIC_ALREADY_EXISTS."""

    async def add_partitions(self, name: str, total: int) -> TopicState:
        """The topic with more partitions than before; raises INVALID_PARTITIONS for fewer."""

    async def set_config(self, name: str, config: Mapping[str, str]) -> TopicState:
        """Replace what is set for a topic."""

    async def delete_topic(self, name: str) -> TopicState:
        """Take a topic away; gives what it was."""

    async def forget_deleted(self, name: str) -> None:
        """The logs of a deleted topic are gone."""

    async def next_producer_id(self) -> int:
        """An id that no producer has had."""
