"""The traps of connections and versions, one by one, over a raw socket."""

from __future__ import annotations

import struct

import pytest

from kafkalite.protocol.api import APIS, ApiKey
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.produce import ProduceResponse
from kafkalite.testing import EmbeddedBroker
from tests.compat.raw_connection import RawConnection, fetch_request, produce_request
from tests.support.produced import produced


def request_bytes(key: int, version: int, body: bytes = b"", correlation_id: int = 77) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, 3) + b"raw" + body


@pytest.mark.parametrize("version", [4, 5, 100, 32_767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_error_35(
    raw: RawConnection, version: int
) -> None:
    raw.send_frame(request_bytes(ApiKey.API_VERSIONS, version, b"\xff a body that nobody can read"))
    frame = raw.receive_frame()
    correlation_id, error, count, key, first, last = struct.unpack(">ihihhh", frame)
    assert (correlation_id, error, count) == (77, 35, 1)
    assert (key, first, last) == (ApiKey.API_VERSIONS, 0, 3)
    assert raw.call(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0, "the connection goes on"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_response_to_api_versions_has_no_tags_in_its_header(raw: RawConnection, version: int) -> None:
    correlation_id = raw.send(ApiVersionsRequest(client_software_name="n", client_software_version="1"), version)
    frame = raw.receive_frame()
    assert struct.unpack_from(">i", frame) == (correlation_id,)
    answer = ApiVersionsResponse.decode(frame, version, 4)  # a header byte more would shift the error code
    assert answer.error_code == 0
    advertised = {served.api_key: (served.min_version, served.max_version) for served in answer.api_keys}
    assert advertised == {api.key: (api.advertised_min, api.max_version) for api in APIS.values()}
    assert advertised[ApiKey.PRODUCE][0] == 0, "KAFKA-18659"


def test_other_flexible_responses_have_tags_in_their_header(raw: RawConnection) -> None:
    raw.send(DescribeClusterRequest(), 0)
    frame = raw.receive_frame()
    assert frame[4] == 0
    DescribeClusterResponse.decode(frame, 0, 5)


def test_the_client_id_may_be_null(raw: RawConnection) -> None:
    raw.send_frame(struct.pack(">hhih", ApiKey.METADATA, 1, 5, -1) + struct.pack(">i", 0))
    assert raw.receive_frame()[:4] == struct.pack(">i", 5)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, 10),
        (ApiKey.FETCH, 3),
        (ApiKey.FETCH, 13),
        (ApiKey.METADATA, 13),
        (ApiKey.METADATA, -1),
        (4, 0),
        (71, 0),
        (-1, 0),
        (32_767, 0),
    ],
)
def test_other_apis_and_versions_that_are_not_served_close_the_connection(
    raw: RawConnection, key: int, version: int
) -> None:
    raw.send_frame(request_bytes(key, version))
    assert raw.is_closed_by_broker()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00", id="a byte"),
        pytest.param(struct.pack(">hhih", 3, 1, 1, 100) + b"short", id="client id too long"),
        pytest.param(request_bytes(3, 1, struct.pack(">i", 2**31 - 1)), id="two billion topics"),
        pytest.param(request_bytes(3, 9, b"\x00" + b"\xff" * 10), id="endless varint"),
    ],
)
def test_a_malformed_request_closes_its_connection_and_no_other(
    raw: RawConnection, broker: EmbeddedBroker, frame: bytes
) -> None:
    with RawConnection(broker.port) as bad:
        bad.send_frame(frame)
        assert bad.is_closed_by_broker()
    assert raw.metadata().controller_id == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_a_frame_of_an_impossible_size_closes_the_connection(raw: RawConnection, size: int) -> None:
    raw.stream.sendall(struct.pack(">i", size))
    assert raw.is_closed_by_broker()


def test_unknown_tagged_fields_are_skipped(raw: RawConnection) -> None:
    header_tags = {7: b"header", 100_000: bytes(300)}
    correlation_id = raw.send(MetadataRequest(topics=[]), 12, header_tags)
    assert raw.receive(MetadataResponse, 12, correlation_id).topics == []
    request = MetadataRequest(topics=[])
    request.unknown_tags = {9: b"body"}
    correlation_id = raw.send(request, 12)
    assert raw.receive(MetadataResponse, 12, correlation_id).topics == []


def test_responses_come_in_the_order_of_requests_though_a_fetch_waits(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    waiting = raw.send(fetch_request({topic: 0}, max_wait_ms=300), 12)
    after = [raw.send(MetadataRequest(topics=[]), 12) for _ in range(3)]
    assert raw.receive(FetchResponse, 12, waiting).responses[0].partitions[0].records == b""
    for correlation_id in after:
        raw.receive(MetadataResponse, 12, correlation_id)


def test_a_waiting_fetch_does_not_stop_the_reading_of_what_follows(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    # Only the second request can end the first before the test's socket times out.
    waiting = raw.send(fetch_request({topic: 0}, max_wait_ms=60_000), 12)
    producing = raw.send(produce_request(topic, produced(b"value")), 9)
    fetched = raw.receive(FetchResponse, 12, waiting)
    assert raw.batches(fetched.responses[0].partitions[0].records)[0].count == 1
    assert raw.receive(ProduceResponse, 9, producing).responses[0].partition_responses[0].base_offset == 0


def test_requests_that_arrive_byte_by_byte_are_answered(raw: RawConnection) -> None:
    frame = request_bytes(ApiKey.METADATA, 1, struct.pack(">i", 0))
    for byte in struct.pack(">i", len(frame)) + frame:
        raw.stream.sendall(bytes([byte]))
    assert raw.receive_frame()[:4] == struct.pack(">i", 77)


def test_nothing_is_throttled(raw: RawConnection, topic: str) -> None:
    raw.create_topic(topic)
    assert raw.metadata(topic).throttle_time_ms == 0
    assert raw.fetch(topic, 0).throttle_time_ms == 0
