"""The one registry of APIs: keys, classes, versions. Dispatch, ApiVersions and the documentation are made from it.

A server calls `decode_request` with a frame, and `encode_response` (or `encode_response_pieces`, for what contains file
ranges) with the answer. A client calls `encode_request` and `decode_response`. Encoded frames include their size.

Invariants: nothing but `MalformedMessage` and `UnsupportedRequest` comes out of decoding. The headers of a request and
its response are flexible exactly when the version is, except that ApiVersions' response header never is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final, TypeVar

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.frames import SIZE_BYTES
from kafkalite.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    append_request_header,
    append_response_header,
    decode_header_tags,
    decode_request_header,
    decode_response_header,
)
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkalite.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkalite.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkalite.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkalite.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkalite.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkalite.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkalite.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkalite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkalite.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkalite.protocol.primitives import BytesLike, Hole, Piece, piece_length
from kafkalite.protocol.schema import Message, join_pieces, split_at_holes

M = TypeVar("M", bound=Message)


class ApiKey(IntEnum):
    """The number of an API on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60


_NEVER: Final = 32_768


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its messages, which versions are served and advertised, and from which on its headers are flexible."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int
    advertised_min: int
    request_header_flexible_from: int
    response_header_flexible_from: int

    @property
    def name(self) -> str:
        """Kafka's name of it, as in `ListOffsets`."""
        return self.request.__name__.removesuffix("Request")


def _api(key: ApiKey, request: type[Message], response: type[Message], advertised_min: int | None = None) -> Api:
    first, last = request.versions
    assert (request.versions, request.flexible_from) == (response.versions, response.flexible_from)
    flexible_from = _NEVER if request.flexible_from is None else request.flexible_from
    return Api(
        key=key,
        request=request,
        response=response,
        min_version=first,
        max_version=last,
        advertised_min=first if advertised_min is None else advertised_min,
        request_header_flexible_from=flexible_from,
        # A stray byte in this one header makes librdkafka abort its process.
        response_header_flexible_from=_NEVER if key == ApiKey.API_VERSIONS else flexible_from,
    )


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        # With a minimum of 3, older librdkafka silently sends uncompressed data (KAFKA-18659).
        _api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, advertised_min=0),
        _api(ApiKey.FETCH, FetchRequest, FetchResponse),
        _api(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse),
        _api(ApiKey.METADATA, MetadataRequest, MetadataResponse),
        _api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse),
        _api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse),
        _api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse),
        _api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse),
        _api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse),
        _api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse),
        _api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse),
        _api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse),
        _api(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse),
        _api(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse),
        _api(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse),
        _api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse),
        _api(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse),
        _api(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse),
        _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        _api(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        _api(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        _api(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse),
        _api(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        _api(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse),
        _api(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse),
        _api(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse),
        _api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse),
        _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        _api(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse),
        _api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse),
    )
}


class UnsupportedRequest(KafkaError):
    """A request of an API or version that is not served; `answer` says what to do about it."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION, f"API {header.api_key} version {header.api_version} is not served"
        )
        self.header = header

    @property
    def answer(self) -> bytes | None:
        """The frame to send; None means to close the connection, because Kafka has an answer only for ApiVersions."""
        if self.header.api_key != ApiKey.API_VERSIONS:
            return None
        return _unknown_api_versions_answer(self.header.correlation_id)


# ---------------------------------------------------------------- requests


def decode_request(frame: BytesLike) -> tuple[RequestHeader, Message]:
    """Reads a frame's header and request. Records in the request are views of the frame.

    Bytes after a Metadata request are ignored, as Kafka ignores them after any: librdkafka sends three too many.
    """
    header, start = decode_request_header(frame)
    version = header.api_version
    api = APIS.get(header.api_key)
    if api is None or not api.min_version <= version <= api.max_version:
        raise UnsupportedRequest(header)
    if version >= api.request_header_flexible_from:
        header.unknown_tags, start = decode_header_tags(frame, start)
    return header, api.request.decode(frame, version, start, exact=api.key is not ApiKey.METADATA)


def encode_request(header: RequestHeader, request: Message) -> bytes:
    """The frame of a request."""
    return _joined(*_request_frame(header, request))


def encode_request_pieces(header: RequestHeader, request: Message) -> list[Piece]:
    """The frame of a request, in pieces to be sent one after the other; large records are not copied."""
    return split_at_holes(*_request_frame(header, request))


def _request_frame(header: RequestHeader, request: Message) -> tuple[bytearray, list[Hole]]:
    out = bytearray(SIZE_BYTES)
    holes: list[Hole] = []
    append_request_header(out, header, request.is_flexible(header.api_version))
    request.encode_into(header.api_version, out, holes)
    _fill_in_size(out, holes)
    return out, holes


# ---------------------------------------------------------------- responses


def encode_response(header: RequestHeader, response: Message) -> bytes:
    """The frame of the response to the request with this header."""
    return _joined(*_response_frame(header, response))


def encode_response_pieces(header: RequestHeader, response: Message) -> list[Piece]:
    """The frame of the response to the request with this header, in pieces to be sent one after the other.

    A piece is bytes-like, or the very object with a `length` that was given as `records` of a Fetch response:
    that many bytes are to be sent in its place, by `sendfile`.
    """
    return split_at_holes(*_response_frame(header, response))


def _response_frame(header: RequestHeader, response: Message) -> tuple[bytearray, list[Hole]]:
    out = bytearray()
    return out, append_response(out, header, response)


def append_response(out: bytearray, header: RequestHeader, response: Message) -> list[Hole]:
    """Appends the frame of a response; gives what belongs into it, and where. If it raises, `out` is unchanged."""
    version = header.api_version
    begin = len(out)
    holes: list[Hole] = []
    try:
        out += bytes(SIZE_BYTES)
        flexible = version >= APIS[header.api_key].response_header_flexible_from
        append_response_header(out, header.correlation_id, flexible)
        response.encode_into(version, out, holes)
        _fill_in_size(out, holes, begin)
    except BaseException:
        del out[begin:]
        raise
    return holes


def decode_response(frame: BytesLike, response: type[M], version: int) -> tuple[ResponseHeader, M]:
    """Reads the response to a request of this version. Records in it are views of the frame."""
    flexible = response is not ApiVersionsResponse and response.is_flexible(version)
    header, start = decode_response_header(frame, flexible)
    return header, response.decode(frame, version, start)


def _fill_in_size(out: bytearray, holes: list[Hole], begin: int = 0) -> None:
    """Writes the size of the frame that begins there into the room for it."""
    size = len(out) - SIZE_BYTES - begin
    for _, piece in holes:
        size += piece_length(piece)
    out[begin : begin + SIZE_BYTES] = size.to_bytes(SIZE_BYTES, "big")


def _joined(out: bytearray, holes: list[Hole]) -> bytes:
    return bytes(out) if not holes else join_pieces(split_at_holes(out, holes))


# ---------------------------------------------------------------- ApiVersions


def api_versions_response(apis: Iterable[Api] = tuple(APIS.values())) -> ApiVersionsResponse:
    """What is advertised for these APIs."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertised_min, max_version=api.max_version) for api in apis
        ]
    )


@cache
def _api_versions_body(version: int, apis: tuple[Api, ...]) -> bytes:
    return api_versions_response(apis).encode(version)


def api_versions_answer(header: RequestHeader, apis: tuple[Api, ...] = tuple(APIS.values())) -> bytes:
    """The frame of the response to an ApiVersions request, from bytes made once per version."""
    return _api_versions_frame(header.correlation_id, _api_versions_body(header.api_version, apis))


@cache
def _unknown_api_versions_body() -> bytes:
    response = api_versions_response([APIS[ApiKey.API_VERSIONS]])
    response.error_code = ErrorCode.UNSUPPORTED_VERSION
    return response.encode(0)


def _unknown_api_versions_answer(correlation_id: int) -> bytes:
    """The frame of the response to ApiVersions of an unknown version: version 0, error 35, listing ApiVersions only."""
    return _api_versions_frame(correlation_id, _unknown_api_versions_body())


def _api_versions_frame(correlation_id: int, body: bytes) -> bytes:
    return (4 + len(body)).to_bytes(SIZE_BYTES, "big") + correlation_id.to_bytes(4, "big", signed=True) + body


# ---------------------------------------------------------------- documentation


def markdown_table() -> str:
    """The APIs as a table for the documentation."""
    lines = ["| Key | API | Served | Advertised | Flexible from |", "|--:|---|---|---|---|"]
    for api in APIS.values():
        flexible = "never" if api.request.flexible_from is None else api.request.flexible_from
        served, advertised = f"{api.min_version}–{api.max_version}", f"{api.advertised_min}–{api.max_version}"
        lines.append(f"| {int(api.key)} | {api.name} | {served} | {advertised} | {flexible} |")
    return "\n".join(lines) + "\n"
