"""Asking the leaders of partitions for offsets: the earliest, the latest, or the first at or after a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkalite.client.address import Address
from kafkalite.client.cluster import Cluster, check
from kafkalite.errors import KafkaError
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST: Final = -2
LATEST: Final = -1


class FoundOffset(NamedTuple):
    """An offset and its record's timestamp; -1 where there is no such record."""

    offset: int
    timestamp: int


def list_offsets(cluster: Cluster, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
    """The offset for each partition's time in milliseconds, or for `EARLIEST` or `LATEST`."""

    def ask(
        broker: Address, share: dict[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        topics = [
            ListOffsetsTopic(
                name=topic, partitions=[_wanted(each, time) for each, time in share.items() if each.topic == topic]
            )
            for topic in dict.fromkeys(each.topic for each in share)
        ]
        answer = cluster.call(broker, ListOffsetsRequest(topics=topics), ListOffsetsResponse, timeout)
        found: dict[TopicPartition, FoundOffset | KafkaError] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                place = TopicPartition(topic.name, partition.partition_index)
                try:
                    check(partition.error_code, f"offsets of partition {place} at {broker}")
                    found[place] = FoundOffset(partition.offset, partition.timestamp)
                except KafkaError as error:
                    found[place] = error
        return found

    return cluster.call_leaders(times, ask)


def _wanted(partition: TopicPartition, time: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=partition.partition, timestamp=time)
