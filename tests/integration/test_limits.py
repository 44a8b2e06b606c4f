"""Each limit of the broker, over the wire: what happens at it, and that other clients do not notice."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafkalite.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkalite.protocol.messages.produce import ProduceResponse
from kafkalite.testing import EmbeddedBroker
from tests.support.broker_wire import (
    Closed,
    Wire,
    batch_of_values,
    fetch_request,
    has_faults,
    produce_request,
    resident_bytes,
)

MIB = 1024 * 1024
TOPIC = "limits"


@contextmanager
def serving(**options: object) -> Iterator[EmbeddedBroker]:
    """A broker with these options and a topic; `max_connections` is `max.connections`."""
    config = {name.replace("_", "."): str(value) for name, value in options.items()}
    with EmbeddedBroker(config) as broker:
        with Wire(broker.port) as wire:
            create(wire, TOPIC)
        yield broker
        assert not has_faults(broker.stderr()), broker.stderr()


def create(wire: Wire, topic: str, partitions: int = 1) -> int:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)])
    return wire.ask(request, CreateTopicsResponse).topics[0].error_code


def works(wire: Wire) -> None:
    """A produce and a fetch over this connection, now."""
    offset = wire.produce(TOPIC, batch_of_values([b"good"])).base_offset
    assert [row.value for row in wire.fetch(TOPIC, offset).rows] == [b"good"]


def versions(wire: Wire) -> None:
    assert wire.ask(ApiVersionsRequest(), ApiVersionsResponse).error_code == 0


def until(condition: Callable[[], bool], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it does not come to pass"
        time.sleep(0.01)


# Connections


def is_served(port: int) -> bool:
    try:
        with Wire(port) as wire:
            versions(wire)
    except Closed:
        return False
    return True


@pytest.mark.parametrize("option", ["max_connections", "max_connections_per_ip"])
def test_connections_above_the_limit_are_closed_and_the_others_go_on(option: str) -> None:
    with serving(**{option: 5}) as broker, ExitStack() as stack:
        held = [stack.enter_context(Wire(broker.port)) for _ in range(5)]
        for wire in held:
            versions(wire)
        for _ in range(20):
            assert not is_served(broker.port)
        for wire in held:
            works(wire)
        held[0].close()
        until(lambda: is_served(broker.port))
        complaints = [line for line in broker.stderr().splitlines() if option.replace("_", ".") in line]
        assert len(complaints) == 1, "one line for all that were refused"


def test_an_address_at_its_limit_leaves_room_for_others() -> None:
    with serving(max_connections_per_ip=3) as broker, ExitStack() as stack:
        for _ in range(3):
            versions(stack.enter_context(Wire(broker.port)))
        assert not is_served(broker.port)
        versions(stack.enter_context(Wire(broker.port, from_host="127.0.0.2")))


def test_2000_connections_are_held_at_once_in_little_memory() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5_000:
        pytest.skip(f"this machine allows {hard} open files, 5,000 are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5_000), hard))
    with serving(max_connections=2_000, max_connections_per_ip=2_000) as broker, ExitStack() as stack:
        with Wire(broker.port) as wire:
            works(wire)
        before = resident_bytes(broker.pid)
        held = [stack.enter_context(Wire(broker.port)) for _ in range(2_000)]
        for wire in held:
            versions(wire)
        grown = resident_bytes(broker.pid) - before
        assert grown <= 16 * MIB, f"2,000 connections take {grown / MIB:.1f} MiB"
        assert not is_served(broker.port)
        for wire in (held[0], held[1_000], held[-1]):
            works(wire)


# Sizes


def test_a_request_with_records_may_have_socket_request_max_bytes_and_no_more() -> None:
    with serving(socket_request_max_bytes=300_000, plain_request_max_bytes=2_000) as broker:
        with Wire(broker.port) as wire:
            frame = wire.frame(produce_request(TOPIC, {0: batch_of_values([bytes(299_000)])}))
            assert len(frame) <= 300_000
            wire.send_bytes(frame)
            assert wire.receive(ProduceResponse).responses[0].partition_responses[0].error_code == 0
        with Wire(broker.port) as wire, pytest.raises(Closed):
            wire.produce(TOPIC, batch_of_values([bytes(300_001)]))
        with Wire(broker.port) as wire:
            # The size alone decides: nothing of the frame is waited for.
            wire.send_bytes((300_001).to_bytes(4, "big"))
            assert wire.is_closed_by_peer(5)
            works_again = Wire(broker.port)
        with works_again as wire:
            works(wire)
        assert "the limit is 300000" in broker.stderr()


def test_a_request_without_records_may_have_plain_request_max_bytes_and_no_more() -> None:
    with serving(plain_request_max_bytes=2_000) as broker:
        small = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 200)] * 8, allow_auto_topic_creation=False)
        large = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 200)] * 10, allow_auto_topic_creation=False)
        with Wire(broker.port) as wire:
            wire.ask(small, MetadataResponse)
            wire.send(large)
            with pytest.raises(Closed):
                wire.receive(MetadataResponse)
        with Wire(broker.port) as wire:
            # Known to be too large as soon as its size and API are there.
            wire.send_bytes((2_001).to_bytes(4, "big") + b"\0\x03")
            assert wire.is_closed_by_peer(5)


def test_announced_sizes_cost_no_memory() -> None:
    """100 peers that announce 90 MiB each, and send a little of it."""
    with serving() as broker, ExitStack() as stack:
        with Wire(broker.port) as wire:
            works(wire)
        before = resident_bytes(broker.pid)
        for _ in range(100):
            wire = stack.enter_context(Wire(broker.port))
            wire.send_bytes((90 * MIB).to_bytes(4, "big") + bytes(2) + bytes(1_000))
        with Wire(broker.port) as wire:
            works(wire)
        grown = resident_bytes(broker.pid) - before
        assert grown <= 16 * MIB, f"100 announced frames take {grown / MIB:.1f} MiB"


# Requests under way


def test_a_client_that_pipelines_is_not_read_beyond_its_requests_in_flight() -> None:
    """With 3 under way, the fourth request is handled only after the first answer."""
    with serving(max_in_flight_requests_per_connection=3) as broker, Wire(broker.port) as wire:
        for _ in range(3):
            wire.send(fetch_request(TOPIC, 0, max_wait_ms=60_000))
        wire.send(produce_request(TOPIC, {0: batch_of_values([b"held back"])}))
        with Wire(broker.port) as other:
            assert not other.fetch(TOPIC, 0, max_wait_ms=700).rows, "the fourth request was handled"
            other.produce(TOPIC, batch_of_values([b"wakes the fetches"]))
        for _ in range(3):
            assert wire.receive(FetchResponse).responses[0].partitions[0].high_watermark == 1
        assert wire.receive(ProduceResponse).responses[0].partition_responses[0].base_offset == 1


def test_a_client_that_pipelines_is_not_read_beyond_its_bytes_in_flight() -> None:
    with serving(max_in_flight_bytes_per_connection=40) as broker, Wire(broker.port) as wire:
        wire.send(fetch_request(TOPIC, 0, max_wait_ms=60_000))
        wire.send(produce_request(TOPIC, {0: batch_of_values([b"held back"])}))
        with Wire(broker.port) as other:
            assert not other.fetch(TOPIC, 0, max_wait_ms=700).rows, "the second request was handled"
            other.produce(TOPIC, batch_of_values([b"wakes the fetch"]))
        assert wire.receive(FetchResponse).responses[0].partitions[0].high_watermark == 1
        assert wire.receive(ProduceResponse).responses[0].partition_responses[0].base_offset == 1


def flood(wire: Wire, frame: bytes, times: int, patience: float = 1.0) -> int:
    """Send without ever reading, until the peer takes no more; gives how many bytes it took."""
    wire.socket.settimeout(patience)
    data = memoryview(frame * 64)
    sent = 0
    try:
        for _ in range(times // 64):
            rest = data
            while rest:
                count = wire.socket.send(rest)
                sent += count
                rest = rest[count:]
    except TimeoutError:
        pass
    return sent


def test_clients_that_never_read_cost_little_memory_and_harm_nobody() -> None:
    """Ten of them ask for 60 MB each in small requests with long answers."""
    with serving(max_unsent_bytes_per_connection=MIB) as broker, ExitStack() as stack:
        with Wire(broker.port) as wire:
            create(wire, "wide", partitions=100)
            works(wire)
        before = resident_bytes(broker.pid)
        for _ in range(10):
            wire = stack.enter_context(Wire(broker.port, receive_buffer=4_096))
            frame = wire.frame(MetadataRequest(topics=[MetadataRequestTopic(name="wide")] * 5))
            assert flood(wire, frame, times=200_000, patience=0.3) < 200_000 * len(frame), "nothing held it back"
        grown = resident_bytes(broker.pid) - before
        assert grown <= 10 * 3 * MIB, f"ten slow readers take {grown / MIB:.1f} MiB"
        with Wire(broker.port) as wire:
            begun = time.monotonic()
            for _ in range(50):
                works(wire)
            assert time.monotonic() - begun < 5


def test_answers_that_wait_for_an_earlier_one_count_as_unsent() -> None:
    """A long poll first, and then requests with long answers, which cannot be sent before it."""
    with serving(max_unsent_bytes_per_connection=MIB) as broker, ExitStack() as stack:
        with Wire(broker.port) as wire:
            create(wire, "wide", partitions=200)
            works(wire)
        before = resident_bytes(broker.pid)
        for _ in range(5):
            wire = stack.enter_context(Wire(broker.port))
            wire.send(fetch_request(TOPIC, 1, max_wait_ms=60_000))
            wire.send_bytes(wire.frame(MetadataRequest(topics=[MetadataRequestTopic(name="wide")] * 100)) * 99)
        with Wire(broker.port) as wire:
            for _ in range(200):
                versions(wire)
        grown = resident_bytes(broker.pid) - before
        assert grown <= 5 * 3 * MIB, f"five clients take {grown / MIB:.1f} MiB"


def test_one_fetch_of_a_partition_many_times_costs_little_memory() -> None:
    """Small ranges are read before they are sent; a request can name thousands of them."""
    with serving() as broker, ExitStack() as stack:
        with Wire(broker.port) as wire:
            create(wire, "small-batches")
            wire.produce("small-batches", batch_of_values([bytes(30_000)]))
            works(wire)
        before = resident_bytes(broker.pid)
        for _ in range(10):
            wire = stack.enter_context(Wire(broker.port, receive_buffer=4_096))
            wire.send(fetch_request("small-batches", 0, max_bytes=50 * MIB, times=1_700))
        with Wire(broker.port) as wire:
            for _ in range(100):
                versions(wire)
        grown = resident_bytes(broker.pid) - before
        assert grown <= 10 * 3 * MIB, f"ten fetches take {grown / MIB:.1f} MiB"


def test_a_slow_reader_of_a_large_fetch_gets_all_of_it_and_costs_no_memory() -> None:
    with serving() as broker, Wire(broker.port, receive_buffer=4_096) as slow, Wire(broker.port) as good:
        values = [bytes([number]) * 900_000 for number in range(30)]
        for value in values:
            good.produce(TOPIC, batch_of_values([value]))
        before = resident_bytes(broker.pid)
        slow.send(fetch_request(TOPIC, 0, max_bytes=40 * MIB))
        for _ in range(50):
            works(good)
        grown = resident_bytes(broker.pid) - before
        assert grown <= 4 * MIB, f"a slow reader of 27 MB takes {grown / MIB:.1f} MiB"
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        answer = slow.receive(FetchResponse).responses[0].partitions[0]
        assert isinstance(answer.records, memoryview)
        assert len(answer.records) > 30 * 900_000


# Time


def test_a_frame_that_does_not_arrive_in_time_closes_its_connection() -> None:
    """Slow loris: a byte now and then does not help."""
    with serving(frame_timeout_ms=400) as broker, Wire(broker.port) as good, Wire(broker.port) as slow:
        frame = slow.frame(ApiVersionsRequest())
        begun = time.monotonic()
        for byte in frame:
            slow.send_bytes(bytes([byte]))
            if slow.is_closed_by_peer(0.05):
                break
        else:
            pytest.fail(f"{len(frame)} bytes, one after the other, are taken for a request")
        assert 0.3 < time.monotonic() - begun < 5
        works(good)
        assert "frame.timeout.ms" in broker.stderr()


def test_a_frame_in_pieces_is_served_if_it_comes_in_time() -> None:
    with serving(frame_timeout_ms=5_000) as broker, Wire(broker.port) as wire:
        for byte in wire.frame(ApiVersionsRequest()):
            wire.send_bytes(bytes([byte]))
        assert wire.receive(ApiVersionsResponse).error_code == 0


def test_time_in_which_a_client_is_held_back_does_not_count_against_its_frame() -> None:
    with serving(frame_timeout_ms=500, max_in_flight_requests_per_connection=1) as broker, Wire(broker.port) as wire:
        fetch = wire.frame(fetch_request(TOPIC, 0, max_wait_ms=1_500))
        second, third = wire.frame(ApiVersionsRequest()), wire.frame(ApiVersionsRequest())
        wire.send_bytes(fetch + second + third[:10])
        wire.receive(FetchResponse)
        wire.receive(ApiVersionsResponse)
        assert not wire.is_closed_by_peer(0.25), "closed, though the broker itself did not read"
        wire.send_bytes(third[10:])
        assert wire.receive(ApiVersionsResponse).error_code == 0


def test_an_idle_connection_is_closed_and_one_in_use_is_not() -> None:
    with serving(connections_max_idle_ms=600) as broker, Wire(broker.port) as idle, Wire(broker.port) as busy:
        versions(idle)
        begun = time.monotonic()
        while not idle.is_closed_by_peer(0.05):
            versions(busy)
            assert time.monotonic() - begun < 10
        assert time.monotonic() - begun > 0.4
        works(busy)


def test_a_long_poll_is_not_idle_nor_is_the_moment_after_it() -> None:
    with serving(connections_max_idle_ms=800) as broker, Wire(broker.port) as wire:
        assert wire.fetch(TOPIC, 0, max_wait_ms=2_000).rows == []
        assert not wire.is_closed_by_peer(0.4), "closed as idle right after its long poll"
        works(wire)


def test_a_peer_that_takes_nothing_of_its_answer_is_idle() -> None:
    with serving(connections_max_idle_ms=800) as broker:
        with Wire(broker.port) as wire:
            for _ in range(10):
                wire.produce(TOPIC, batch_of_values([bytes(900_000)]))
        with Wire(broker.port, receive_buffer=4_096) as stuck:
            stuck.send(fetch_request(TOPIC, 0, max_bytes=40 * MIB))
            until(lambda: "connections.max.idle.ms" in broker.stderr())


# Partitions and groups


def test_partitions_above_the_limit_are_refused() -> None:
    with serving(max_partitions=10, offsets_topic_num_partitions=1) as broker, Wire(broker.port) as wire:
        assert create(wire, "nine", partitions=9) == 0
        assert create(wire, "more") == ErrorCode.POLICY_VIOLATION
        asked = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="auto")]), MetadataResponse)
        assert asked.topics[0].error_code == ErrorCode.POLICY_VIOLATION
        grown = wire.ask(
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="nine", count=10)], timeout_ms=10_000),
            CreatePartitionsResponse,
        )
        assert grown.results[0].error_code == ErrorCode.POLICY_VIOLATION
        works(wire)


def test_groups_above_the_limit_are_refused_and_the_others_go_on() -> None:
    def commit(wire: Wire, group: str) -> int:
        topic = OffsetCommitRequestTopic(
            name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
        )
        while True:
            answer = wire.ask(OffsetCommitRequest(group_id=group, topics=[topic]), OffsetCommitResponse)
            error = answer.topics[0].partitions[0].error_code
            if error != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return error

    with serving(max_groups=3) as broker, Wire(broker.port) as wire:
        assert [commit(wire, f"group-{number}") for number in range(3)] == [0, 0, 0]
        assert commit(wire, "one too many") == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert commit(wire, "group-1") == 0


# Log lines


def test_5000_early_disconnects_and_bad_frames_make_few_log_lines() -> None:
    with serving() as broker:
        begun = time.monotonic()
        for number in range(5_000):
            wire = Wire(broker.port)
            match number % 4:
                case 0:
                    wire.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
                case 1:
                    wire.send_bytes(b"\xff\xff\xff\xff")
                case 2:
                    wire.send_bytes(b"\0\0\0\x0a" + bytes(4))
                    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            wire.close()
        with Wire(broker.port) as wire:
            works(wire)
        seconds = time.monotonic() - begun
        lines = broker.stderr().splitlines()
        assert len(lines) <= 5 + 3 * (1 + seconds / 10), "\n".join(lines[:30])
