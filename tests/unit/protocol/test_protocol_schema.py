"""What a declared message becomes: versions of fields, nulls, tags, and records that are not copied."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from kafkalite.errors import MalformedMessage
from kafkalite.protocol import primitives
from kafkalite.protocol.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kafkalite.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalite.protocol.schema import (
    ZERO_UUID,
    Float64,
    Int8,
    Int64,
    Message,
    Struct,
    UInt16,
    UInt32,
    field,
    join_pieces,
    split_at_holes,
)


class Everything(Message, versions=(0, 2), flexible_from=1):
    small: Int8
    port: UInt16
    checksum: UInt32
    ratio: Float64
    ids: Sequence[uuid.UUID]
    flags: Sequence[bool]
    late: Int64 = field(since=2, default=-1)
    early: str = field(until=1, default="gone")
    maybe: bytes | None = field(nullable_since=1, default=b"")


class Inner(Struct):
    name: str


class Outer(Message, versions=(0, 0), flexible_from=0):
    inner: Sequence[Inner]
    marked: Int64 = field(tag=3, default=0)


EVERYTHING = Everything(
    small=-128,
    port=65_535,
    checksum=2**32 - 1,
    ratio=-0.5,
    ids=[ZERO_UUID, uuid.UUID(int=7)],
    flags=[True, False, True],
    late=9,
    early="bird",
)


# ---------------------------------------------------------------- fields and versions


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_primitive_survives_a_round_trip(version: int) -> None:
    decoded = Everything.decode(EVERYTHING.encode(version), version)

    assert (decoded.small, decoded.port, decoded.checksum, decoded.ratio) == (-128, 65_535, 2**32 - 1, -0.5)
    assert decoded.ids == [ZERO_UUID, uuid.UUID(int=7)]
    assert decoded.flags == [True, False, True]


def test_primitives_have_the_wire_format_of_the_protocol() -> None:
    message = Everything(small=1, port=2, checksum=3, ratio=1.0, ids=[], flags=[True], early="é", maybe=b"xy")
    fixed = "01 0002 00000003 3ff0000000000000"
    assert message.encode(0) == bytes.fromhex(f"{fixed} 00000000 00000001 01 0002 c3a9 00000002 7879")
    assert message.encode(1) == bytes.fromhex(f"{fixed} 01 02 01 03 c3a9 03 7879 00")
    assert message.encode(2) == bytes.fromhex(f"{fixed} 01 02 01 ffffffffffffffff 03 7879 00")


def test_fields_that_a_version_does_not_have_get_their_defaults() -> None:
    assert Everything.decode(EVERYTHING.encode(1), 1).late == -1
    assert Everything.decode(EVERYTHING.encode(2), 2).early == "gone"


def test_null_is_accepted_from_the_version_that_allows_it() -> None:
    nothing = Everything(small=0, port=0, checksum=0, ratio=0.0, ids=[], flags=[], maybe=None)
    assert Everything.decode(nothing.encode(1), 1).maybe is None
    with pytest.raises(TypeError):
        nothing.encode(0)


def test_a_version_that_a_message_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="FetchRequest has the versions 4 to 12, not 13"):
        FetchRequest.decode(b"", 13)


def test_messages_are_slotted_and_keyword_only() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert not hasattr(message, "__dict__")
    positional: Callable[..., object] = HeartbeatRequest
    with pytest.raises(TypeError, match="positional"):
        positional("g", 1, "m")


def test_a_struct_that_is_not_tagged_cannot_be_null() -> None:
    class Wrong(Message, versions=(0, 0), flexible_from=0):
        inner: Inner | None

    with pytest.raises(TypeError, match="null only as a tagged field"):
        Wrong(inner=None).encode(0)


def test_a_field_missing_in_some_versions_needs_a_default() -> None:
    class Wrong(Message, versions=(0, 1), flexible_from=None):
        late: Int8 = field(since=1)

    with pytest.raises(TypeError, match="needs a default"):
        Wrong(late=1).encode(0)


# ---------------------------------------------------------------- varints


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2**21, "80808001"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_varints_are_written_and_read(value: int, wire: str) -> None:
    assert primitives.uvarint(value) == bytes.fromhex(wire)
    assert primitives.read_uvarint(bytes.fromhex(wire), 0) == (value, len(wire) // 2)
    assert primitives.read_uvarlong(bytes.fromhex(wire), 0) == (value, len(wire) // 2)


def test_long_varints_are_read_up_to_64_bits() -> None:
    assert primitives.read_uvarlong(bytes.fromhex("ffffffffffffffffff01"), 0) == (2**64 - 1, 10)


@pytest.mark.parametrize("length", [126, 127, 128, 16_382, 16_383, 32_767])
def test_compact_strings_of_every_length_of_varint_are_read(length: int) -> None:
    message = Outer(inner=[Inner(name="x" * length)])
    assert Outer.decode(message.encode(0), 0) == message


# ---------------------------------------------------------------- tagged fields


def test_unknown_tagged_fields_are_kept_and_written_again_in_ascending_order() -> None:
    wire = bytes.fromhex("02 02 61 01 05 01 aa  03 00 00 03 08 0000000000000007 09 02 beef")
    message = Outer.decode(wire, 0)

    assert message.marked == 7
    assert message.unknown_tags == {0: b"", 9: b"\xbe\xef"}
    assert message.inner[0].unknown_tags == {5: b"\xaa"}
    assert message.encode(0) == wire

    message.unknown_tags = {9: b"\xbe\xef", 0: b""}
    assert message.encode(0) == wire


def test_a_tagged_field_with_its_default_stays_off_the_wire() -> None:
    assert Outer(inner=[], marked=0).encode(0) == b"\x01\x00"
    assert Outer.decode(b"\x01\x00", 0) == Outer(inner=[])
    assert ApiVersionsResponse(api_keys=[], supported_features=[]).encode(3)[-1:] == b"\x00"


def test_a_tagged_struct_is_none_unless_it_was_sent() -> None:
    plain = PartitionData(partition_index=0, high_watermark=5, records=None)
    diverging = PartitionData(
        partition_index=1, high_watermark=5, records=None, diverging_epoch=EpochEndOffset(epoch=2, end_offset=3)
    )
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[plain, diverging])])
    assert FetchResponse.decode(response.encode(12), 12) == response


# ---------------------------------------------------------------- records


def produce_request(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_writable_views_of_the_received_buffer(version: int) -> None:
    frame = bytearray(produce_request(b"records").encode(version))
    request = ProduceRequest.decode(memoryview(frame), version)

    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    records[0:3] = b"REC"
    assert b"RECords" in frame


def test_records_of_a_buffer_that_is_read_only_are_read_only_views() -> None:
    request = ProduceRequest.decode(produce_request(b"records").encode(9), 9)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.readonly


@dataclass
class FileRange:
    length: int


def fetch_response(*records: bytes | FileRange | None) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, high_watermark=9, records=each) for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 11, 12])
def test_file_ranges_are_holes_between_the_bytes(version: int) -> None:
    first, second = FileRange(5_000), FileRange(3)
    out, holes = bytearray(), list[primitives.Hole]()
    fetch_response(first, b"small", second).encode_into(version, out, holes)
    pieces = split_at_holes(out, holes)

    assert [piece for piece in pieces if isinstance(piece, FileRange)] == [first, second]
    filled = [b"r" * piece.length if isinstance(piece, FileRange) else piece for piece in pieces]
    assert join_pieces(list(filled)) == fetch_response(b"r" * 5_000, b"small", b"rrr").encode(version)


def test_large_records_in_memory_are_pieces_of_their_own_and_not_copied() -> None:
    large = bytes(1_000_000)
    out, holes = bytearray(), list[primitives.Hole]()
    fetch_response(large).encode_into(12, out, holes)

    assert any(piece is large for piece in split_at_holes(out, holes))
    assert len(out) < 100


def test_a_response_with_file_ranges_cannot_be_one_bytes_object() -> None:
    with pytest.raises(TypeError, match="file ranges"):
        fetch_response(FileRange(1)).encode(12)


# ---------------------------------------------------------------- payloads of consumers


def test_a_subscription_is_preceded_by_its_version() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["a", "b"],
        owned_partitions=[TopicPartitions(topic="a", partitions=[0, 2])],
        generation_id=4,
        rack_id="r",
    )
    assert subscription.to_bytes()[:2] == b"\x00\x03"
    assert ConsumerProtocolSubscription.from_bytes(subscription.to_bytes()) == subscription
    assert ConsumerProtocolSubscription.from_bytes(subscription.to_bytes(0)).owned_partitions == ()


def test_a_payload_of_a_later_version_is_read_as_far_as_we_know_it() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="t", partitions=[1])])
    later = b"\x00\x09" + assignment.encode(3) + b"something new"
    assert ConsumerProtocolAssignment.from_bytes(later) == assignment


def test_a_payload_of_a_known_version_has_nothing_after_it() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[])
    with pytest.raises(MalformedMessage, match="1 bytes too many"):
        ConsumerProtocolAssignment.from_bytes(assignment.to_bytes() + b"x")
