"""Administration of a cluster: topics and their options, groups and their positions.

A method returns when the broker has done it, or raises with the broker's reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kafkalite.client.address import Address
from kafkalite.client.cluster import Cluster, check
from kafkalite.client.offsets import FoundOffset, list_offsets
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kafkalite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kafkalite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafkalite.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafkalite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

BROKER_DEFAULT: Final = -1
"""As a partition count or replication factor: what the broker's configuration says."""

_TIMEOUT_MS: Final = 30_000
_TOPIC: Final = 2
_TOPIC_SOURCE: Final = 1
_SET: Final = 0
_DELETE: Final = 1


class Partition(NamedTuple):
    """A partition and the brokers that hold it; -1 is no leader."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(NamedTuple):
    """A topic as the cluster knows it."""

    name: str
    is_internal: bool
    partitions: tuple[Partition, ...]


class ConfigEntry(NamedTuple):
    """One option of a topic; `is_own` if it was set for this topic and is not a default."""

    name: str
    value: str | None
    is_own: bool


class GroupListing(NamedTuple):
    """A group in a list; brokers before Kafka 2.6 do not tell the state."""

    name: str
    state: str
    protocol_type: str


class Member(NamedTuple):
    """A member of a group and what it is assigned."""

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


class Group(NamedTuple):
    """A group and its members."""

    name: str
    state: str
    protocol: str
    members: tuple[Member, ...]


class Admin:
    """Topics and groups of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )

        def verdict(answer: CreateTopicsResponse) -> None:
            for result in answer.topics:
                check(result.error_code, f"creating topic {name!r} at {self._cluster}", result.error_message)

        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        self._cluster.call_controller(request, CreateTopicsResponse, verdict)

    def topics(self, names: Iterable[str] | None = None) -> list[Topic]:
        """The topics by these names, or all, sorted."""
        return sorted(
            Topic(
                found.name or "",
                found.is_internal,
                tuple(
                    Partition(each.partition_index, each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes))
                    for each in sorted(found.partitions, key=lambda each: each.partition_index)
                ),
            )
            for found in self._cluster.topics(names)
        )

    def topic_configs(self, name: str) -> list[ConfigEntry]:
        resource = DescribeConfigsResource(resource_type=_TOPIC, resource_name=name)

        def verdict(answer: DescribeConfigsResponse) -> None:
            for result in answer.results:
                check(result.error_code, f"options of topic {name!r} at {self._cluster}", result.error_message)

        request = DescribeConfigsRequest(resources=[resource])
        answer = self._cluster.call_controller(request, DescribeConfigsResponse, verdict)
        return sorted(
            ConfigEntry(entry.name, entry.value, entry.config_source == _TOPIC_SOURCE)
            for result in answer.results
            for entry in result.configs
        )

    def alter_topic_configs(self, name: str, changed: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """Sets some options, and takes others back to their default."""
        configs = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in changed.items()]
        configs += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in removed]
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=configs)

        def verdict(answer: IncrementalAlterConfigsResponse) -> None:
            for result in answer.responses:
                check(result.error_code, f"options of topic {name!r} at {self._cluster}", result.error_message)

        request = IncrementalAlterConfigsRequest(resources=[resource])
        self._cluster.call_controller(request, IncrementalAlterConfigsResponse, verdict)

    def set_partition_count(self, name: str, count: int) -> None:
        def verdict(answer: CreatePartitionsResponse) -> None:
            for result in answer.results:
                check(result.error_code, f"partitions of topic {name!r} at {self._cluster}", result.error_message)

        topic = CreatePartitionsTopic(name=name, count=count)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        self._cluster.call_controller(request, CreatePartitionsResponse, verdict)

    def delete_topic(self, name: str) -> None:
        def verdict(answer: DeleteTopicsResponse) -> None:
            for result in answer.responses:
                check(result.error_code, f"deleting topic {name!r} at {self._cluster}", result.error_message)

        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS)
        self._cluster.topics([name])  # a topic that is not there is told at once
        self._cluster.call_controller(request, DeleteTopicsResponse, verdict)

    def list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """By time in milliseconds, `EARLIEST` or `LATEST`."""
        return list_offsets(self._cluster, times)

    # Groups

    def groups(self) -> list[GroupListing]:
        """The groups of all brokers, sorted."""
        found: set[GroupListing] = set()
        for broker in self._cluster.brokers().values():

            def attempt(timeout: float, broker: Address = broker) -> ListGroupsResponse:
                answer = self._cluster.call(broker, ListGroupsRequest(), ListGroupsResponse, timeout)
                check(answer.error_code, f"listing the groups of {broker}")
                return answer

            for group in self._cluster.retrying(attempt).groups:
                found.add(GroupListing(group.group_id, group.group_state, group.protocol_type))
        return sorted(found)

    def group(self, name: str) -> Group:
        """A group; one that does not exist has the state `Dead` and no members."""

        def verdict(answer: DescribeGroupsResponse) -> None:
            for group in answer.groups:
                if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                    check(group.error_code, f"describing group {name!r} at {self._cluster}")

        request = DescribeGroupsRequest(groups=[name])
        answer = self._cluster.call_coordinator(name, request, DescribeGroupsResponse, verdict)
        return _group(answer.groups[0])

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Every position that the group has committed."""

        def verdict(answer: OffsetFetchResponse) -> None:
            what = f"the offsets of group {group!r} at {self._cluster}"
            check(answer.error_code, what)
            for result in answer.groups:
                check(result.error_code, what)

        request = OffsetFetchRequest(
            group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
        )
        answer = self._cluster.call_coordinator(group, request, OffsetFetchResponse, verdict)
        topics = answer.groups[0].topics if answer.groups else answer.topics
        found = {}
        for topic in topics:
            for partition in topic.partitions:
                place = TopicPartition(topic.name, partition.partition_index)
                check(partition.error_code, f"the offset of group {group!r} in {place}")
                if partition.committed_offset >= 0:
                    found[place] = partition.committed_offset
        return found

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets positions of a group without members; one with members refuses."""
        by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for place, offset in offsets.items():
            by_topic[place.topic].append(
                OffsetCommitRequestPartition(
                    partition_index=place.partition, committed_offset=offset, committed_metadata=""
                )
            )

        def verdict(answer: OffsetCommitResponse) -> None:
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                        raise KafkaError(
                            ErrorCode.UNKNOWN_MEMBER_ID, f"group {group!r} has members; stop its consumers first"
                        )
                    place = TopicPartition(topic.name, partition.partition_index)
                    check(partition.error_code, f"setting the offset of group {group!r} in {place}")

        request = OffsetCommitRequest(
            group_id=group,
            topics=[OffsetCommitRequestTopic(name=name, partitions=wanted) for name, wanted in by_topic.items()],
        )
        self._cluster.call_coordinator(group, request, OffsetCommitResponse, verdict)

    def delete_group(self, name: str) -> None:
        def verdict(answer: DeleteGroupsResponse) -> None:
            for result in answer.results:
                if result.error_code == ErrorCode.NON_EMPTY_GROUP:
                    raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {name!r} has members; stop its consumers first")
                if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name!r} at {self._cluster}")
                check(result.error_code, f"deleting group {name!r} at {self._cluster}")

        request = DeleteGroupsRequest(groups_names=[name])
        self._cluster.call_coordinator(name, request, DeleteGroupsResponse, verdict)


def _group(found: DescribedGroup) -> Group:
    is_consumer = found.protocol_type == "consumer"
    return Group(
        found.group_id,
        found.group_state,
        found.protocol_data,
        tuple(
            Member(
                each.member_id,
                each.client_id,
                each.client_host,
                _assignment(each.member_assignment) if is_consumer else (),
            )
            for each in found.members
        ),
    )


def _assignment(payload: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a member's assignment; a member that has none yet has no bytes either."""
    if not payload:
        return ()
    assigned = ConsumerProtocolAssignment.from_bytes(payload).assigned_partitions
    return tuple(TopicPartition(each.topic, number) for each in assigned for number in each.partitions)
