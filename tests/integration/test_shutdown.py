"""The end of a broker that is asked to stop: everybody gets an answer or the end of the connection, all is on disk.

And P2, over the wire: on a topic with flush settings consumers see a record only after its flush.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkalite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.storage import checkpoint
from kafkalite.testing import BrokerFailed, EmbeddedBroker
from tests.support.broker_history import BrokerHistory, Outcome
from tests.support.broker_load import Client, Follower, LibrdkafkaProducer, PipeliningProducer
from tests.support.broker_wire import Closed, Wire, batch_of_values, fetch_request, has_faults

TOPIC = "ending"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        with Wire(broker.port) as wire:
            create(wire, TOPIC)
        yield broker
        assert not has_faults(broker.stderr()), broker.stderr()


def create(wire: Wire, topic: str, partitions: int = 1, **config: str) -> None:
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=configs)
    assert wire.ask(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse).topics[0].error_code == 0


def ended(broker: EmbeddedBroker, within: float) -> int:
    """Wait for the end of a broker that has been told to stop; gives its exit code."""
    begun = time.monotonic()
    while os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        assert time.monotonic() - begun < within, f"it has not stopped after {within} s"
        time.sleep(0.01)
    return broker.stop()


def join(wire: Wire, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="ending",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def joined(wire: Wire) -> JoinGroupResponse:
    """Come with the id that the group gives."""
    while True:
        answer = wire.ask(join(wire), JoinGroupResponse)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_who_waits_and_leaves_nothing_to_recover(broker: EmbeddedBroker, number: signal.Signals) -> None:
    with (
        Wire(broker.port) as fetching,
        Wire(broker.port) as first,
        Wire(broker.port) as second,
        Wire(broker.port) as idle,
    ):
        for count in range(50):
            assert idle.produce(TOPIC, batch_of_values([b"%d" % count])).error_code == 0
        fetching.send(fetch_request(TOPIC, 50, max_wait_ms=60_000))
        # A group with a leader that does not come back: whoever joins now waits for it.
        assert first.ask(join(first, joined(first).member_id), JoinGroupResponse).error_code == 0
        second.send(join(second, joined(second).member_id))
        idle.ask(MetadataRequest(topics=[]), MetadataResponse)
        os.kill(broker.pid, number)
        assert ended(broker, within=5) == 0
        assert fetching.receive(FetchResponse).responses[0].partitions[0].high_watermark == 50
        with suppress(Closed):
            assert second.receive(JoinGroupResponse).error_code != 0
        assert idle.is_closed_by_peer(5)
    state = checkpoint.read(broker.data / f"{TOPIC}-0")
    assert state is not None
    assert state.recovery_point == state.high_watermark == 50
    said = broker.stderr()
    broker.start()
    with Wire(broker.port) as wire:
        assert [row.value for row in wire.fetch(TOPIC, 0).rows] == [b"%d" % count for count in range(50)]
    assert "checking" not in broker.stderr().removeprefix(said)


def test_consumers_that_poll_for_ever_do_not_hold_up_a_stop(broker: EmbeddedBroker) -> None:
    """Each answer to a stopping broker's client is followed by its next request, which must not be waited for."""
    history = BrokerHistory()
    follower = Follower("poller", broker.port, history, TOPIC, 1)
    with Wire(broker.port) as pipelining:
        for _ in range(20):
            pipelining.send(fetch_request(TOPIC, 0, max_wait_ms=60_000))
        pipelining.send(MetadataRequest(topics=[]))
        follower.start()
        with Wire(broker.port) as wire:
            wire.fetch(TOPIC, 0, max_wait_ms=100)
        begun = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - begun < 3
    follower.is_stopping.set()
    broker.start()
    follower.stop()


def test_a_data_folder_is_locked_while_a_broker_runs_and_free_afterwards(broker: EmbeddedBroker) -> None:
    other = EmbeddedBroker(data=broker.data)
    with pytest.raises(BrokerFailed, match=r"in use|lock"):
        other.start()
    assert broker.stop() == 0
    with other, Wire(other.port) as wire:
        assert wire.produce(TOPIC, batch_of_values([b"value"])).error_code == 0
    broker.start()


def stuck_reader(broker: EmbeddedBroker) -> Wire:
    """A client that does not take its answer, which a stop waits for."""
    with Wire(broker.port) as wire:
        for _ in range(20):
            wire.produce(TOPIC, batch_of_values([bytes(900_000)]))
        stuck = Wire(broker.port, receive_buffer=4_096)
        stuck.send(fetch_request(TOPIC, 0, max_bytes=50_000_000))
        stuck.socket.recv(1, socket.MSG_PEEK)
    return stuck


def test_a_stop_waits_a_bounded_time_for_a_client_that_does_not_take_its_answer() -> None:
    with EmbeddedBroker({"shutdown.timeout.ms": "700"}) as broker:
        with Wire(broker.port) as wire:
            create(wire, TOPIC)
        with stuck_reader(broker):
            begun = time.monotonic()
            assert broker.stop() == 0
            assert 0.6 < time.monotonic() - begun < 5
        assert not has_faults(broker.stderr()), broker.stderr()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once_and_what_was_acknowledged_is_there(second: signal.Signals) -> None:
    with EmbeddedBroker({"shutdown.timeout.ms": "60000"}) as broker:
        with Wire(broker.port) as wire:
            create(wire, TOPIC)
        with stuck_reader(broker):
            os.kill(broker.pid, second)
            while "stopping" not in broker.stderr():
                time.sleep(0.01)
            os.kill(broker.pid, second)
            assert ended(broker, within=5) != 0
        broker.start()
        with Wire(broker.port) as wire:
            assert wire.fetch(TOPIC, 19).high_watermark == 20


def test_stops_under_load_lose_and_double_nothing(broker: EmbeddedBroker) -> None:
    history = BrokerHistory()
    port = broker.port
    follower = Follower("follower", port, history, TOPIC, 1)
    clients: list[Client] = [
        PipeliningProducer("raw", port, history, TOPIC, 1, seed=1),
        LibrdkafkaProducer("librdkafka", port, history, TOPIC, 1),
        follower,
    ]
    for client in clients:
        client.start()
    try:
        for _ in range(3):
            time.sleep(0.3)
            assert broker.stop() == 0
            state = checkpoint.read(broker.data / f"{TOPIC}-0")
            assert state is not None
            assert state.recovery_point == state.high_watermark
            broker.start()
        time.sleep(0.2)
        for client in clients:
            client.stop()
    finally:
        for client in clients:
            client.is_stopping.set()
    follower.read_all()
    assert history.count(Outcome.OK) > 500
    violations = history.violations()
    assert not violations, "\n".join(violations[:20])


def test_a_stop_amid_the_creation_of_topics_leaves_whole_topics(broker: EmbeddedBroker) -> None:
    names = [f"many-{number}" for number in range(200)]
    wanted = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    with Wire(broker.port) as wire:
        wire.send(CreateTopicsRequest(topics=wanted))
        while not (broker.data / "many-3-1").exists():
            time.sleep(0.005)
        assert broker.stop() == 0
    broker.start()
    with Wire(broker.port) as wire:
        topics = wire.ask(MetadataRequest(topics=None), MetadataResponse).topics
        there = [topic for topic in topics if topic.name in names]
        assert len(there) >= 3
        for topic in there:
            assert [partition.error_code for partition in topic.partitions] == [0, 0]
            assert topic.name is not None
            assert wire.produce(topic.name, batch_of_values([b"value"]), partition=1).error_code == 0
    folders = {path.name.rpartition("-")[0] for path in Path(broker.data).iterdir() if path.name.startswith("many-")}
    assert folders == {topic.name for topic in there}


# P2


def latest(wire: Wire, topic: str) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    return wire.ask(request, ListOffsetsResponse).topics[0].partitions[0].offset


def test_records_are_seen_only_after_flush_messages_of_them(broker: EmbeddedBroker) -> None:
    with Wire(broker.port) as wire, Wire(broker.port) as reader:
        create(wire, "by-count", flush_messages="5")
        for count in range(4):
            assert wire.produce("by-count", batch_of_values([b"%d" % count]), acks=1).base_offset == count
        assert reader.fetch("by-count", 0, max_wait_ms=300).rows == []
        assert latest(reader, "by-count") == 0
        reader.send(fetch_request("by-count", 0, max_wait_ms=30_000))
        wire.produce("by-count", batch_of_values([b"4"]), acks=1)
        assert reader.receive(FetchResponse).responses[0].partitions[0].high_watermark == 5
        assert latest(reader, "by-count") == 5


def test_what_was_not_yet_flushed_is_flushed_by_a_stop(broker: EmbeddedBroker) -> None:
    with Wire(broker.port) as wire:
        create(wire, "by-count", flush_messages="100")
        wire.produce("by-count", batch_of_values([b"a", b"b"]), acks=1)
        assert wire.fetch("by-count", 0).high_watermark == 0
    assert broker.stop() == 0
    broker.start()
    with Wire(broker.port) as wire:
        assert [row.value for row in wire.fetch("by-count", 0).rows] == [b"a", b"b"]


def test_records_are_seen_only_after_flush_ms(broker: EmbeddedBroker) -> None:
    with Wire(broker.port) as wire:
        create(wire, "by-time", flush_ms="700")
        begun = time.monotonic()
        assert wire.produce("by-time", batch_of_values([b"value"]), acks=1).error_code == 0
        assert wire.fetch("by-time", 0).rows == []
        assert [row.value for row in wire.fetch("by-time", 0, max_wait_ms=30_000).rows] == [b"value"]
        assert 0.6 < time.monotonic() - begun < 10


def test_with_flush_messages_1_an_acknowledged_record_is_seen(broker: EmbeddedBroker) -> None:
    with Wire(broker.port) as wire:
        create(wire, "every-one", flush_messages="1")
        for count in range(20):
            assert wire.produce("every-one", batch_of_values([b"%d" % count])).error_code == 0
            assert wire.fetch("every-one", count).high_watermark == count + 1
