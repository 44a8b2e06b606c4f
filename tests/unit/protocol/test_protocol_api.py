"""The registry, the headers, and the exceptions of the protocol that clients depend on."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
from aiokafka.protocol.fetch import FetchRequest as AiokafkaFetchRequest
from aiokafka.protocol.metadata import MetadataRequest as AiokafkaMetadataRequest
from kafka.protocol.consumer import HeartbeatRequest as KafkaHeartbeatRequest
from kafka.protocol.metadata import ApiVersionsRequest as KafkaApiVersionsRequest
from kafka.protocol.metadata import MetadataRequest as KafkaMetadataRequest
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from kafkalite.errors import ErrorCode, MalformedMessage
from kafkalite.protocol import api
from kafkalite.protocol.api import APIS, ApiKey, UnsupportedRequest
from kafkalite.protocol.headers import RequestHeader
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalite.protocol.schema import Piece, join_pieces

PROFILE = {
    0: (3, 9, 9), 1: (4, 12, 12), 2: (1, 7, 6), 3: (0, 12, 9), 8: (2, 8, 8), 9: (1, 8, 6), 10: (0, 4, 3),
    11: (0, 7, 6), 12: (0, 4, 4), 13: (0, 5, 4), 14: (0, 5, 4), 15: (0, 5, 5), 16: (0, 4, 3), 18: (0, 3, 3),
    19: (2, 7, 5), 20: (1, 6, 4), 21: (0, 2, 2), 22: (0, 4, 2), 23: (2, 4, 4), 24: (0, 3, 3), 25: (0, 3, 3),
    26: (0, 3, 3), 28: (0, 3, 3), 32: (1, 4, 4), 33: (0, 2, 2), 37: (0, 3, 2), 42: (0, 2, 2), 44: (0, 1, 1),
    47: (0, 0, None), 60: (0, 1, 0),
}  # fmt: skip


def header_of(key: int, version: int, client_id: str | None = "me") -> RequestHeader:
    return RequestHeader(key, version, 42, client_id)


def body_of(frame: bytes) -> bytes:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


# ---------------------------------------------------------------- the registry


def test_the_registry_serves_the_profile() -> None:
    served = {int(key): (api.min_version, api.max_version, api.request.flexible_from) for key, api in APIS.items()}
    assert served == PROFILE


def test_only_produce_is_advertised_from_a_lower_version_than_is_served() -> None:
    lower = {api.key: api.advertised_min for api in APIS.values() if api.advertised_min != api.min_version}
    assert lower == {ApiKey.PRODUCE: 0}


def test_the_documentation_table_has_a_row_for_each_api() -> None:
    lines = api.markdown_table().splitlines()
    assert len(lines) == 2 + len(PROFILE)
    assert "| 0 | Produce | 3–9 | 0–9 | 9 |" in lines
    assert "| 47 | OffsetDelete | 0–0 | 0–0 | never |" in lines


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize(("version", "kio_header"), [(3, KioHeaderV1), (4, KioHeaderV2)])
@pytest.mark.parametrize("client_id", ["me", "", None])
def test_request_headers_are_kios_and_client_id_is_a_legacy_string_in_both(
    version: int, kio_header: type, client_id: str | None
) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    buffer = io.BytesIO()
    theirs = kio_header(request_api_key=12, request_api_version=version, correlation_id=42, client_id=client_id)
    entity_writer(kio_header)(buffer, theirs)

    frame = api.encode_request(header_of(12, version, client_id), request)

    assert body_of(frame) == buffer.getvalue() + request.encode(version)
    assert api.decode_request(body_of(frame)) == (header_of(12, version, client_id), request)


def test_unknown_tags_of_a_request_header_are_kept() -> None:
    header = header_of(12, 4)
    header.unknown_tags = {7: b"seven"}
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    decoded, _ = api.decode_request(body_of(api.encode_request(header, request)))
    assert decoded == header


def test_a_response_header_has_a_tag_byte_exactly_in_flexible_versions() -> None:
    response = HeartbeatResponse(error_code=0)
    assert body_of(api.encode_response(header_of(12, 3), response)) == b"\0\0\0\x2a" + response.encode(3)
    assert body_of(api.encode_response(header_of(12, 4), response)) == b"\0\0\0\x2a\0" + response.encode(4)


@pytest.mark.parametrize("version", range(5))
def test_responses_are_decoded_with_the_header_of_their_version(version: int) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = body_of(api.encode_response(header_of(12, version), response))
    header, decoded = api.decode_response(frame, HeartbeatResponse, version)
    assert header.correlation_id == 42
    assert decoded == response


# ---------------------------------------------------------------- ApiVersions


@pytest.mark.parametrize("version", range(4))
def test_the_api_versions_response_header_is_never_flexible(version: int) -> None:
    frame = body_of(api.api_versions_answer(header_of(18, version)))
    assert frame[:4] == b"\0\0\0\x2a"
    assert ApiVersionsResponse.decode(frame[4:], version) == api.api_versions_response()
    assert api.encode_response(header_of(18, version), api.api_versions_response())[4:] == frame
    assert api.decode_response(frame, ApiVersionsResponse, version)[1] == api.api_versions_response()


def test_api_versions_can_be_limited_to_the_apis_that_a_server_handles() -> None:
    handled = (APIS[ApiKey.PRODUCE], APIS[ApiKey.API_VERSIONS])
    frame = body_of(api.api_versions_answer(header_of(18, 0), handled))
    listed = ApiVersionsResponse.decode(frame[4:], 0).api_keys
    assert [(each.api_key, each.min_version, each.max_version) for each in listed] == [(0, 0, 9), (18, 0, 3)]


@pytest.mark.parametrize("version", [4, 5, 99, -1])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0_without_parsing_the_body(version: int) -> None:
    frame = b"\x00\x12" + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x2a" + b"\x00\x02me" + b"\xff\xff garbage"
    with pytest.raises(UnsupportedRequest) as caught:
        api.decode_request(frame)

    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert caught.value.answer is not None
    answer = body_of(caught.value.answer)
    assert answer == bytes.fromhex("0000002a 0023 00000001 0012 0000 0003")


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 10), (1, 3), (1, 13), (4, 0), (17, 0), (-1, 0), (32767, 0)])
def test_any_other_unsupported_request_has_no_answer(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\0\0\0\x2a\xff\xff"
    with pytest.raises(UnsupportedRequest, match=f"API {key} version {version} is not served") as caught:
        api.decode_request(frame)
    assert caught.value.answer is None


# ---------------------------------------------------------------- pieces


@dataclass
class FileRange:
    length: int


def test_the_size_of_a_frame_counts_its_file_ranges() -> None:
    def response(first: FileRange | bytes, second: FileRange | bytes) -> FetchResponse:
        partitions = [
            PartitionData(partition_index=0, high_watermark=1, records=first),
            PartitionData(partition_index=1, high_watermark=1, records=second),
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    pieces = api.encode_response_pieces(header_of(1, 12), response(FileRange(70_000), FileRange(10)))
    filled: list[Piece] = [bytes(each.length) if isinstance(each, FileRange) else each for each in pieces]
    frame = join_pieces(filled)

    assert frame == api.encode_response(header_of(1, 12), response(bytes(70_000), bytes(10)))
    _, decoded = api.decode_response(body_of(frame), FetchResponse, 12)
    assert decoded == response(bytes(70_000), bytes(10))


# ---------------------------------------------------------------- requests of other clients


def test_requests_of_kafka_python_are_understood() -> None:
    for version in range(13):
        request = KafkaMetadataRequest(version=version, topics=None if version else [])
        request.with_header(correlation_id=42, client_id="me")
        header, decoded = api.decode_request(bytes(request.encode(header=True, framed=True))[4:])
        assert header == header_of(3, version)
        assert decoded == MetadataRequest(topics=None if version else [])


def test_api_versions_and_heartbeats_of_kafka_python_are_understood() -> None:
    asking = KafkaApiVersionsRequest(version=3, client_software_name="kp", client_software_version="3")
    asking.with_header(correlation_id=42, client_id="me")
    _, decoded = api.decode_request(bytes(asking.encode(header=True, framed=True))[4:])
    assert decoded == ApiVersionsRequest(client_software_name="kp", client_software_version="3")

    beating = KafkaHeartbeatRequest(version=4, group_id="g", generation_id=5, member_id="m", group_instance_id=None)
    beating.with_header(correlation_id=42, client_id="me")
    _, decoded = api.decode_request(bytes(beating.encode(header=True, framed=True))[4:])
    assert decoded == HeartbeatRequest(group_id="g", generation_id=5, member_id="m")


def test_requests_of_aiokafka_are_understood() -> None:
    for version in range(6):
        struct = AiokafkaMetadataRequest(["a", "b"]).prepare({3: (0, version)})
        wire = struct.build_request_header(42, "me").encode() + struct.encode()
        header, decoded = api.decode_request(wire)
        assert header == header_of(3, version)
        assert isinstance(decoded, MetadataRequest)
        assert decoded.topics == [MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")]


def test_a_fetch_of_aiokafka_is_understood() -> None:
    struct = AiokafkaFetchRequest(500, 1, 1_000_000, 0, [("t", [(3, 77, 1_024)])]).prepare({1: (4, 11)})
    wire = struct.build_request_header(42, "me").encode() + struct.encode()
    _, decoded = api.decode_request(wire)
    assert isinstance(decoded, FetchRequest)
    assert decoded.max_wait_ms == 500
    (partition,) = decoded.topics[0].partitions
    assert (partition.partition, partition.fetch_offset, partition.partition_max_bytes) == (3, 77, 1_024)


def test_a_request_with_trailing_bytes_is_malformed() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = body_of(api.encode_request(header_of(12, 0), request))
    with pytest.raises(MalformedMessage, match=r"HeartbeatRequest v0, end of message at byte \d+: 1 bytes too many"):
        api.decode_request(frame + b"\0")


def test_bytes_after_a_metadata_request_are_ignored_because_librdkafka_sends_some() -> None:
    request = MetadataRequest(topics=None)
    frame = body_of(api.encode_request(header_of(3, 12), request))
    assert api.decode_request(frame + b"\0\0\0")[1] == request
