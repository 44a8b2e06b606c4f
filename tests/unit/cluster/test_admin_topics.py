"""The handlers that create, grow and delete topics: each topic is answered by itself, with Kafka's code and why."""

from __future__ import annotations

import uuid
from pathlib import Path

from kafkalite.errors import ErrorCode
from kafkalite.model import OFFSETS_TOPIC
from kafkalite.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkalite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalite.protocol.schema import ZERO_UUID
from kafkalite.server.handlers import create_partitions, create_topics, delete_topics
from tests.unit.cluster.broker_rig import CALL, NODE_ID, BrokerRig


def new(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assigned: dict[int, list[int]] | None = None,
    **config: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
    )


def create(rig: BrokerRig, *topics: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return list(rig.run(create_topics.handle(rig.services, CALL, request)).topics)


def test_a_created_topic_is_answered_with_its_id_size_and_options(tmp_path: Path) -> None:
    with BrokerRig(tmp_path, {"num.partitions": "4", "segment.bytes": "1000"}) as rig:
        [result] = create(rig, new("t", retention_ms="5"))
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)
        assert result.topic_id == rig.topics.get("t").topic_id
        found = {entry.name: (entry.value, entry.config_source) for entry in result.configs or ()}
        assert found["retention.ms"] == ("5", 1)
        assert found["segment.bytes"] == ("1000", 4)
        assert found["cleanup.policy"] == ("delete", 5)


def test_one_bad_topic_does_not_keep_the_others_from_being_created(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        results = create(
            rig,
            new("good"),
            new("bad name"),
            new("bad-option", retention_mss="1"),
            new("no-value", retention_ms=None),
            new("twice"),
            new("twice"),
            new(OFFSETS_TOPIC),
            new("also-good"),
        )
        assert [result.error_code for result in results] == [
            0,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            0,
        ]
        assert "did you mean 'retention.ms'?" in (results[2].error_message or "")
        assert sorted(rig.store.snapshot.topics) == ["also-good", "good"]


def test_validate_only_answers_the_same_and_creates_nothing(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        topics = [new("good", 2), new("bad", 0), new("a.b"), new("worse", 1, 9)]
        checked = create(rig, *topics, validate_only=True)
        assert (dict(rig.store.snapshot.topics), checked[0].topic_id) == ({}, ZERO_UUID)
        created = create(rig, *topics)
        for before, after in zip(checked, created, strict=True):
            after.topic_id = ZERO_UUID
            assert before == after


def test_replicas_assigned_by_hand_can_only_be_this_broker_in_a_whole_range(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        results = create(
            rig,
            new("good", assigned={1: [NODE_ID], 0: [NODE_ID]}),
            new("elsewhere", assigned={0: [NODE_ID + 1]}),
            new("gap", assigned={0: [NODE_ID], 2: [NODE_ID]}),
            new("also-counted", 1, 1, assigned={0: [NODE_ID]}),
        )
        assert [result.error_code for result in results] == [
            0,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REQUEST,
        ]
        assert results[0].num_partitions == 2


def test_topics_are_deleted_by_name_and_by_id_each_by_itself(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        by_id = create(rig, new("a"), new("b"), new("c"))[1].topic_id
        rig.run(rig.topics.create(OFFSETS_TOPIC))
        unknown = uuid.uuid4()
        request = DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name="a"),
                DeleteTopicState(topic_id=by_id),
                DeleteTopicState(name="no"),
                DeleteTopicState(topic_id=unknown),
                DeleteTopicState(name="c", topic_id=by_id),
                DeleteTopicState(name=OFFSETS_TOPIC),
            ],
            timeout_ms=1,
        )
        results = rig.run(delete_topics.handle(rig.services, CALL, request)).responses
        assert [(result.name, result.error_code) for result in results] == [
            ("a", 0),
            ("b", 0),
            ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
            ("c", ErrorCode.INVALID_REQUEST),
            (OFFSETS_TOPIC, ErrorCode.INVALID_REQUEST),
        ]
        assert (results[1].topic_id, results[3].topic_id) == (by_id, unknown)
        assert (sorted(rig.store.snapshot.topics), rig.forgotten) == ([OFFSETS_TOPIC, "c"], ["a", "b"])


def test_a_name_twice_in_a_deletion_deletes_nothing(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        create(rig, new("t"))
        request = DeleteTopicsRequest(topic_names=["t", "t"], timeout_ms=1)
        results = rig.run(delete_topics.handle(rig.services, CALL, request)).responses
        assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
        assert rig.topics.find("t") is not None


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    with BrokerRig(tmp_path, {"delete.topic.enable": "false"}) as rig:
        create(rig, new("t"))
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)
        [result] = rig.run(delete_topics.handle(rig.services, CALL, request)).responses
        assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert "delete.topic.enable=true" in (result.error_message or "")
        assert rig.topics.find("t") is not None


def test_partitions_are_added_or_refused_topic_by_topic(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        create(rig, *(new(name, 2) for name in "abcdef"))
        rig.run(rig.topics.create(OFFSETS_TOPIC))

        def grown(name: str, count: int, *brokers: list[int]) -> CreatePartitionsTopic:
            assigned = [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers] or None
            return CreatePartitionsTopic(name=name, count=count, assignments=assigned)

        topics = [
            (grown("a", 3), ErrorCode.NONE),
            (grown("b", 4, [NODE_ID], [NODE_ID]), ErrorCode.NONE),
            (grown("c", 2), ErrorCode.INVALID_PARTITIONS),
            (grown("d", 4, [NODE_ID]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (grown("e", 3, [NODE_ID + 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (grown("f", 3), ErrorCode.INVALID_REQUEST),
            (grown("f", 4), ErrorCode.INVALID_REQUEST),
            (grown("no", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (grown(OFFSETS_TOPIC, 90), ErrorCode.INVALID_REQUEST),
        ]
        for validate_only in (True, False):
            request = CreatePartitionsRequest(
                topics=[topic for topic, _ in topics], timeout_ms=1, validate_only=validate_only
            )
            results = rig.run(create_partitions.handle(rig.services, CALL, request)).results
            assert [result.error_code for result in results] == [code for _, code in topics]
            sizes = [len(rig.topics.get(name).partitions) for name in "abcdef"]
            assert sizes == ([2, 2, 2, 2, 2, 2] if validate_only else [3, 4, 2, 2, 2, 2])
