"""The handlers of records, epochs, producer ids, transactions and the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.model import OFFSETS_TOPIC
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkalite.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkalite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkalite.server.handlers import (
    delete_records,
    describe_cluster,
    init_producer_id,
    offset_for_leader_epoch,
    transactions,
)
from kafkalite.storage import checkpoint
from tests.support.produced import produced
from tests.unit.cluster.broker_rig import CALL, NODE_ID, BrokerRig


def append(rig: BrokerRig, count: int, topic: str = "t") -> None:
    async def work() -> None:
        for _ in range(count):
            rig.partitions.get(topic, 0).append_as_leader(produced(b"x"), acks=1, now_ms=0)

    rig.run(work())


def delete(rig: BrokerRig, offset: int, topic: str = "t", partition: int = 0) -> tuple[int, int]:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
            )
        ],
        timeout_ms=1,
    )
    [result] = rig.run(delete_records.handle(rig.services, CALL, request)).topics
    return result.partitions[0].error_code, result.partitions[0].low_watermark


def test_deleted_records_stay_deleted_though_the_broker_is_killed_after_its_answer(tmp_path: Path) -> None:
    rig = BrokerRig(tmp_path)
    rig.run(rig.topics.create("t"))
    append(rig, 10)
    assert delete(rig, 4) == (0, 4)
    rig.crash()
    with BrokerRig(tmp_path) as rig:
        assert rig.partitions.get("t", 0).log.log_start_offset == 4


def test_the_start_never_moves_back_and_minus_1_is_the_high_watermark(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        append(rig, 10)
        assert [delete(rig, offset) for offset in (5, 3, -1)] == [(0, 5), (0, 5), (0, 10)]


def test_records_that_cannot_be_deleted_are_answered_with_a_code_and_stay(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        rig.run(rig.topics.create("compacted", config={"cleanup.policy": "compact"}))
        rig.run(rig.topics.create(OFFSETS_TOPIC))
        append(rig, 3)
        append(rig, 3, "compacted")
        assert delete(rig, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete(rig, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete(rig, 1, partition=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert delete(rig, 1, topic="no") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert delete(rig, 1, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
        assert delete(rig, 0, topic=OFFSETS_TOPIC) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
        assert rig.partitions.get("t", 0).log.log_start_offset == 0


def test_a_start_that_cannot_be_saved_is_not_answered_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        append(rig, 3)
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write", _no_space)
            assert delete(rig, 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def _no_space(*_: object) -> None:
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("topic", "current", "asked", "expected"),
    [
        ("t", -1, 0, (0, 0, 3)),
        ("t", 0, 0, (0, 0, 3)),
        ("t", -1, -1, (0, -1, -1)),
        ("t", 1, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        ("no", -1, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
def test_the_end_of_a_leader_epoch(
    tmp_path: Path, topic: str, current: int, asked: int, expected: tuple[int, int, int]
) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        append(rig, 3)
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=asked)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
        [result] = offset_for_leader_epoch.handle(rig.services, CALL, request).topics
        [end] = result.partitions
        assert (end.error_code, end.leader_epoch, end.end_offset) == expected


def test_every_idempotent_producer_gets_an_id_that_nobody_has_had(tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(2):
        with BrokerRig(tmp_path) as rig:
            for has in (-1, 0, 5000):
                request = InitProducerIdRequest(
                    transactional_id=None,
                    transaction_timeout_ms=0,
                    producer_id=has,
                    producer_epoch=0 if has >= 0 else -1,
                )
                answer = rig.run(init_producer_id.handle(rig.services, CALL, request))
                assert (answer.error_code, answer.producer_epoch) == (0, 0)
                given.append(answer.producer_id)
    assert len(set(given)) == 6


def test_transactions_are_refused_with_one_final_code(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
        who: dict[str, Any] = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
        add = AddPartitionsToTxnRequest(**who, topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])])
        position = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        commit = TxnOffsetCommitRequest(
            **who, group_id="g", topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[position])]
        )
        services = rig.services
        codes = [
            rig.run(init_producer_id.handle(services, CALL, init)).error_code,
            transactions.handle_add_offsets(services, CALL, AddOffsetsToTxnRequest(**who, group_id="g")).error_code,
            transactions.handle_end(services, CALL, EndTxnRequest(**who, committed=True)).error_code,
            *(
                partition.partition_error_code
                for topic in transactions.handle_add_partitions(services, CALL, add).results_by_topic
                for partition in topic.results_by_partition
            ),
            *(
                partition.error_code
                for topic in transactions.handle_offset_commit(services, CALL, commit).topics
                for partition in topic.partitions
            ),
        ]
        assert codes == [transactions.NOT_BUILT] * 6
        assert not transactions.NOT_BUILT.retriable


def test_the_cluster_is_described_to_those_who_ask_for_brokers(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        answer = describe_cluster.handle(rig.services, CALL, DescribeClusterRequest())
        assert (answer.error_code, answer.cluster_id) == (0, rig.store.snapshot.cluster_id)
        assert answer.controller_id == NODE_ID
        assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [(NODE_ID, 9092)]
        refused = describe_cluster.handle(rig.services, CALL, DescribeClusterRequest(endpoint_type=2))
        assert (refused.error_code, list(refused.brokers)) == (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, [])
