"""Well-formed requests that no honest client sends: each with the error codes that may be answered.

HONEST        requests that are in order, to be damaged
BAD_VALUES    requests that ask for what cannot be
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkalite.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalite.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalite.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkalite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkalite.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkalite.protocol.schema import Message
from kafkalite.records.batch import build_batch
from kafkalite.records.compression import Codec, compress
from kafkalite.records.rows import Row, encode_rows
from tests.support.broker_wire import batch_of_values

TOPIC = "plain"
COMPACTED = "compacted"
NOW_MS = 1_700_000_000_000
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BadValue:
    """A request, and which error codes its answer may have, all of them; none: the connection is closed."""

    name: str
    request: Message
    codes: frozenset[int]
    version: int | None = None


def _bad(name: str, request: Message, *codes: ErrorCode, version: int | None = None) -> BadValue:
    return BadValue(name, request, frozenset(codes), version)


def error_codes(message: object) -> frozenset[int]:
    """Every error code of an answer, however deep."""
    if isinstance(message, (list, tuple)):
        return frozenset().union(*map(error_codes, message))
    if not is_dataclass(message):
        return frozenset()
    found = {getattr(message, field.name) for field in fields(message) if field.name == "error_code"}
    return frozenset(found).union(*(error_codes(getattr(message, field.name)) for field in fields(message)))


def _produce(records: bytes | bytearray | None, *, topic: str = TOPIC, partition: int = 0, acks: int = -1) -> Message:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def _fetch(
    *,
    topic: str = TOPIC,
    partition: int = 0,
    offset: int = 0,
    max_bytes: int = 1_000,
    partition_max_bytes: int = 1_000,
    min_bytes: int = 1,
    max_wait_ms: int = 10,
    epoch: int = -1,
    session_id: int = 0,
    times: int = 1,
) -> Message:
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=epoch,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        topics=[FetchTopic(topic=topic, partitions=[wanted] * times)],
    )


def _list_offsets(partition: int, timestamp: int, times: int = 1) -> Message:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted] * times)])


def _create(*names: str, partitions: int = 1, factor: int = 1, **config: str | None) -> Message:
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)
            for name in names
        ]
    )


def _commit(group: str, partition: int = 0, offset: int = 0, metadata: str = "", generation: int = -1) -> Message:
    committed = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id=generation,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[committed])],
    )


def _join(
    group: str = "hostile", session_ms: int = 10_000, protocols: Sequence[str] = ("range",), kind: str = "consumer"
) -> Message:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"") for name in protocols],
    )


def _batch(count: int = 1, **fields: int) -> bytearray:
    """A batch of one record, with fields of its header as told; its CRC is right."""
    records = bytes(encode_rows([Row(0, NOW_MS, b"k", b"v")])[61:])
    header = {"last_offset_delta": count - 1, "base_timestamp": NOW_MS, "max_timestamp": NOW_MS, **fields}
    return build_batch(records, count=count, **header)  # type: ignore[arg-type]


NULL_RECORD = b"\x0c\0\0\0\x01\x01\0"
"""A record with neither key nor value: seven bytes, of which a codec makes almost nothing."""


def bomb(records: int, max_timestamp: int = NOW_MS) -> bytearray:
    """A small batch of very many records."""
    return build_batch(
        compress(Codec.ZSTD, NULL_RECORD * records),
        count=records,
        last_offset_delta=records - 1,
        base_timestamp=NOW_MS,
        max_timestamp=max_timestamp,
        codec=Codec.ZSTD,
    )


def _corrupted(position: int) -> bytearray:
    batch = batch_of_values([b"value"])
    batch[position] ^= 0x40
    return batch


def _values() -> Iterator[BadValue]:
    error = ErrorCode
    unknown, invalid = error.UNKNOWN_TOPIC_OR_PARTITION, error.INVALID_REQUEST
    good = batch_of_values([b"value"])
    for partition in (-1, -5, 1, _INT32_MAX, -(2**31)):
        yield _bad(f"produce to partition {partition}", _produce(good, partition=partition), unknown)
        yield _bad(f"fetch of partition {partition}", _fetch(partition=partition), unknown, error.NONE)
        yield _bad(f"offsets of partition {partition}", _list_offsets(partition, -1), unknown)
        yield _bad(f"commit for partition {partition}", _commit("hostile", partition), unknown)
    for name in ("..", ".", "../../etc/passwd", "a/b", "", "x" * 250, "x" * 30_000, "\0", "\x01" * 30_000, "ü", "a b"):
        label = ascii(name[:20])
        names = (unknown, error.INVALID_TOPIC_EXCEPTION)
        yield _bad(f"produce to topic {label}", _produce(good, topic=name), *names)
        yield _bad(f"fetch of topic {label}", _fetch(topic=name), *names, error.NONE)
        yield _bad(f"create topic {label}", _create(name), error.INVALID_TOPIC_EXCEPTION)
        yield _bad(f"metadata of topic {label}", MetadataRequest(topics=[MetadataRequestTopic(name=name)]), *names)
        yield _bad(
            f"delete topic {label}",
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000),
            *names,
        )
    for offset in (-1, -(2**63), _INT64_MAX):
        yield _bad(f"fetch at {offset}", _fetch(offset=offset), error.OFFSET_OUT_OF_RANGE, error.NONE)
        yield _bad(
            f"delete records before {offset}",
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=COMPACTED, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
                    )
                ],
                timeout_ms=-5,
            ),
            error.OFFSET_OUT_OF_RANGE,
            error.POLICY_VIOLATION,
        )
    for timestamp in (-4, -5, -100, -(2**63)):
        yield _bad(f"offsets at time {timestamp}", _list_offsets(0, timestamp), invalid, error.UNSUPPORTED_VERSION)
    yield _bad("offsets at the end of time", _list_offsets(0, _INT64_MAX), error.NONE)
    yield _bad("offsets of one partition 10,000 times", _list_offsets(0, -1, times=10_000), error.NONE, invalid)
    for limit in (-1, -(2**31), 0, _INT32_MAX):
        yield _bad(f"fetch of {limit} bytes", _fetch(max_bytes=limit, partition_max_bytes=limit), error.NONE, invalid)
    yield _bad("fetch of at least 2 GiB", _fetch(min_bytes=_INT32_MAX), error.NONE)
    yield _bad("fetch of at least -2 GiB", _fetch(min_bytes=-(2**31)), error.NONE)
    yield _bad("fetch that waits for -1 ms", _fetch(max_wait_ms=-1), error.NONE)
    yield _bad("fetch of one partition 10,000 times", _fetch(times=10_000, max_wait_ms=0), error.NONE)
    yield _bad("long poll of one partition 10,000 times", _fetch(times=10_000, offset=0), error.NONE)
    yield _bad("fetch in an epoch to come", _fetch(epoch=5), error.UNKNOWN_LEADER_EPOCH, error.NONE)
    yield _bad("fetch in a session that is not there", _fetch(session_id=9), error.FETCH_SESSION_ID_NOT_FOUND)
    yield from _of_records(good)
    yield from _of_topics()
    yield from _of_groups()


def _of_records(good: bytearray) -> Iterator[BadValue]:
    error = ErrorCode
    invalid, corrupt = error.INVALID_RECORD, error.CORRUPT_MESSAGE
    for acks in (2, -2, 32_767):
        yield _bad(f"produce with acks={acks}", _produce(good, acks=acks), error.INVALID_REQUIRED_ACKS)
    yield _bad("acks=0 to a partition that is not there", _produce(good, partition=5, acks=0))
    yield _bad("acks=0 with noise", _produce(b"noise", acks=0))
    for what, records in {
        "none": None,
        "empty": b"",
        "noise": random.Random(1).randbytes(500),
        "zeros": bytes(500),
        "header only": good[:60],
        "cut": good[:-1],
        "followed by a byte": good + b"x",
        "twice": good + good,
        "old format": bytes(8) + struct.pack(">iIbb", 20, 0, 1, 0) + bytes(60),
        "negative length": good[:8] + struct.pack(">i", -1) + good[12:],
        "huge length": good[:8] + struct.pack(">i", _INT32_MAX) + good[12:],
    }.items():
        yield _bad(f"records: {what}", _produce(records), invalid, corrupt, error.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    for position in (17, 21, 24, 40, 61, 65):
        yield _bad(f"records with a bit flipped at {position}", _produce(_corrupted(position)), corrupt)
    for what, batch in {
        "base offset 7": _batch(base_offset=7),
        "2 records said, 1 there, compacted": _batch(count=2),
        "0 records": _batch(count=0),
        "-1 records": _batch(count=-1),
        "2^31-1 records": _batch(count=_INT32_MAX),
        "producer without sequence": _batch(producer_id=5, producer_epoch=0, base_sequence=-1),
        "codec that is none": _batch(codec=7),
        "control batch": _batch(is_control=True),
        "noise as gzip": _batch(codec=Codec.GZIP),
        "noise as zstd": _batch(codec=Codec.ZSTD),
        "noise as lz4": _batch(codec=Codec.LZ4),
        "noise as snappy": _batch(codec=Codec.SNAPPY),
        "no key": batch_of_values([b"value"]),
        "a key-less bomb of 300,000 records": bomb(300_000),
        "zeros, 500 MB of them": build_batch(
            compress(Codec.ZSTD, bytes(500_000_000)),
            count=1,
            last_offset_delta=0,
            base_timestamp=NOW_MS,
            max_timestamp=NOW_MS,
            codec=Codec.ZSTD,
        ),
    }.items():
        codes = (invalid, corrupt, error.UNSUPPORTED_COMPRESSION_TYPE, error.MESSAGE_TOO_LARGE)
        yield _bad(f"compacted: {what}", _produce(batch, topic=COMPACTED), *codes)
    for timestamp in (NOW_MS * 2, _INT64_MAX):
        batch = _batch(base_timestamp=timestamp, max_timestamp=timestamp)
        yield _bad(f"records from the year {timestamp}", _produce(batch), error.INVALID_TIMESTAMP)
    yield _bad("records too large", _produce(batch_of_values([bytes(2_000_000)])), error.MESSAGE_TOO_LARGE)
    skipping = _batch(producer_id=999, producer_epoch=0, base_sequence=77)
    yield _bad(
        "a sequence from nowhere",
        _produce(skipping),
        error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        error.UNKNOWN_PRODUCER_ID,
        error.NONE,
    )
    yield _bad("zstd in version 3", _produce(bomb(1)), error.UNSUPPORTED_COMPRESSION_TYPE, version=3)
    many = [TopicProduceData(name="none", partition_data=[PartitionProduceData(index=0, records=b"")])] * 10_000
    yield _bad(
        "produce to 10,000 topics that are not there",
        ProduceRequest(acks=1, timeout_ms=-1, topic_data=many),
        error.UNKNOWN_TOPIC_OR_PARTITION,
    )
    yield _bad(
        "produce to the offsets topic", _produce(good, topic="__consumer_offsets"), error.INVALID_TOPIC_EXCEPTION
    )


def _of_topics() -> Iterator[BadValue]:
    error = ErrorCode
    for partitions in (0, -2, -(2**31), _INT32_MAX, 1_000_000):
        codes = (error.INVALID_PARTITIONS, error.POLICY_VIOLATION)
        yield _bad(f"a topic of {partitions} partitions", _create("bad", partitions=partitions), *codes)
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=TOPIC, count=partitions)], timeout_ms=0)
        yield _bad(f"{partitions} partitions in all", more, *codes)
    for factor in (0, -2, 2, 32_767):
        yield _bad(f"replication factor {factor}", _create("bad", factor=factor), error.INVALID_REPLICATION_FACTOR)
    for config in ({"no_such": "1"}, {"retention_ms": "x"}, {"retention_ms": "9" * 5_000}, {"segment_bytes": None}):
        yield _bad(f"topic config {str(config)[:40]}", _create("bad", **config), error.INVALID_CONFIG)
    name, value = "n" * 30_000, "\x02" * 30_000
    long = CreatableTopicConfig(name=name, value=value)
    topic = CreatableTopic(name="bad", num_partitions=1, replication_factor=1, configs=[long])
    yield _bad("a config of 30,000 control characters", CreateTopicsRequest(topics=[topic]), error.INVALID_CONFIG)
    for version in (0, 2):
        altered = AlterableConfig(name="retention.ms", value=value)
        alter = AlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[altered])]
        )
        yield _bad(f"alter to 30,000 control characters, v{version}", alter, error.INVALID_CONFIG, version=version)
    yield _bad("the same topic 3,000 times", _create(*["twice"] * 3_000), error.INVALID_REQUEST)
    yield _bad(
        "10,000 topics with bad names", _create(*(f"../{at}" for at in range(10_000))), error.INVALID_TOPIC_EXCEPTION
    )
    yield _bad(
        "metadata of 10,000 topics with bad names",
        MetadataRequest(topics=[MetadataRequestTopic(name=f"/{at}") for at in range(10_000)]),
        error.INVALID_TOPIC_EXCEPTION,
    )
    yield _bad(
        "replicas on a broker that is not there",
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="bad",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[77])],
                )
            ]
        ),
        error.INVALID_REPLICA_ASSIGNMENT,
    )
    for kind in (0, 3, 127, -128):
        described = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name="x")])
        yield _bad(f"configs of a resource of type {kind}", described, error.INVALID_REQUEST)
    yield _bad(
        "configs of 10,000 topics that are not there",
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name="none") for _ in range(10_000)]
        ),
        error.UNKNOWN_TOPIC_OR_PARTITION,
        error.INVALID_REQUEST,
    )
    epochs = [
        OffsetForLeaderPartition(partition=0, leader_epoch=-7),
        OffsetForLeaderPartition(partition=-1, leader_epoch=0),
    ]
    yield _bad(
        "ends of epochs that cannot be",
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=epochs)]),
        error.UNKNOWN_TOPIC_OR_PARTITION,
        error.UNKNOWN_LEADER_EPOCH,
        error.NONE,
    )


def _of_groups() -> Iterator[BadValue]:
    error = ErrorCode
    yield _bad("join without group", _join(""), error.INVALID_GROUP_ID)
    for session_ms in (0, -1, 1, _INT32_MAX):
        yield _bad(
            f"join with a session of {session_ms} ms", _join(session_ms=session_ms), error.INVALID_SESSION_TIMEOUT
        )
    refused = (error.INCONSISTENT_GROUP_PROTOCOL, error.MEMBER_ID_REQUIRED)
    yield _bad("join without protocols", _join(protocols=()), *refused)
    yield _bad("join without protocol type", _join(kind=""), *refused)
    yield _bad("join with 10,000 protocols", _join(protocols=["p"] * 10_000), *refused)
    yield _bad(
        "heartbeat of nobody",
        HeartbeatRequest(group_id="nobody", generation_id=-9, member_id=""),
        error.UNKNOWN_MEMBER_ID,
    )
    assignments = [SyncGroupRequestAssignment(member_id="m", assignment=b"x")] * 5_000
    yield _bad(
        "sync of nobody",
        SyncGroupRequest(
            group_id="nobody",
            generation_id=1,
            member_id="m",
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        ),
        error.UNKNOWN_MEMBER_ID,
    )
    yield _bad(
        "10,000 leave a group that is not there",
        LeaveGroupRequest(group_id="nobody", members=[MemberIdentity(member_id="m")] * 10_000),
        error.UNKNOWN_MEMBER_ID,
        error.NONE,
    )
    yield _bad("commit with a long note", _commit("hostile", metadata="n" * 30_000), error.OFFSET_METADATA_TOO_LARGE)
    yield _bad(
        "commit of a generation that is not there",
        _commit("hostile", generation=9),
        error.ILLEGAL_GENERATION,
        error.UNKNOWN_MEMBER_ID,
    )
    yield _bad("commit without a group", _commit(""), error.INVALID_GROUP_ID, error.NONE)
    yield _bad(
        "offsets of 5,000 groups that are not there",
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=f"../{at}", topics=None) for at in range(5_000)]),
        error.NONE,
    )
    yield _bad(
        "5,000 groups that are not there",
        DescribeGroupsRequest(groups=["../x"] * 5_000),
        error.NONE,
        error.GROUP_ID_NOT_FOUND,
    )
    yield _bad(
        "delete groups that are not there",
        DeleteGroupsRequest(groups_names=["", "../x", "\0" * 9_000]),
        error.GROUP_ID_NOT_FOUND,
        error.INVALID_GROUP_ID,
        error.NONE,
    )
    yield _bad(
        "delete offsets of a group that is not there",
        OffsetDeleteRequest(
            group_id="nobody",
            topics=[
                OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=-1)])
            ],
        ),
        error.GROUP_ID_NOT_FOUND,
    )
    for kind, refusal in (
        (1, error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, error.INVALID_REQUEST),
        (-1, error.INVALID_REQUEST),
    ):
        yield _bad(
            f"coordinator of type {kind}",
            FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]),
            refusal,
            error.NONE,
        )
    yield _bad(
        "a transactional id",
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=-1),
        error.UNSUPPORTED_VERSION,
        error.INVALID_TXN_STATE,
        error.COORDINATOR_NOT_AVAILABLE,
        error.NOT_COORDINATOR,
        error.INVALID_REQUEST,
        error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        error.INVALID_TRANSACTION_TIMEOUT,
    )


HONEST: list[Message] = [
    _produce(batch_of_values([b"value"])),
    _fetch(),
    _list_offsets(0, -1),
    _create("never"),
    _commit("hostile"),
    _join(),
    MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]),
    DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=TOPIC)]),
]

BAD_VALUES = list(_values())
