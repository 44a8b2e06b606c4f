"""AddPartitionsToTxn (key 24), AddOffsetsToTxn (25), EndTxn (26), versions 0 to 3, and TxnOffsetCommit (28), 0 to 3.

Not implemented: all of them. Each answers with the same error, as InitProducerId does for a transactional id.
"""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkalite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkalite.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkalite.server.services import Call, Services

NOT_BUILT: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
"""confluent-kafka, kafka-python and aiokafka take this code as final at once, instead of trying until a timeout."""


def handle_add_partitions(
    _services: Services, _call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=NOT_BUILT)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def handle_add_offsets(_services: Services, _call: Call, _request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=NOT_BUILT)


def handle_end(_services: Services, _call: Call, _request: EndTxnRequest) -> EndTxnResponse:
    return EndTxnResponse(error_code=NOT_BUILT)


def handle_offset_commit(_services: Services, _call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=NOT_BUILT)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
