"""What a cluster retries, what it does not, and whom it asks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.client.address import Address
from kafkalite.client.cluster import Cluster, UnknownTopic, check
from kafkalite.client.connection import BrokerUnreachable
from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalite.protocol.schema import Message

FIRST, SECOND = Address("one", 1), Address("two", 2)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeCluster(Cluster):
    """Two brokers; `leaders` says who leads the partitions of `t`, and may be changed by a test."""

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__([FIRST], timeout=10, clock=self.clock)
        self.leaders = [1, 2]
        self.unreachable: set[Address] = set()
        self.metadata_calls = 0

    def call(self, broker: Address, request: Message, response: type, timeout: float) -> MetadataResponse:  # type: ignore[override]
        assert isinstance(request, MetadataRequest)
        if broker in self.unreachable:
            raise BrokerUnreachable(f"{broker} is not there")
        self.metadata_calls += 1
        partitions = [
            MetadataResponsePartition(partition_index=at, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1, 2])
            for at, leader in enumerate(self.leaders)
        ]
        names = [topic.name for topic in request.topics or ()]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=1, host="one", port=1),
                MetadataResponseBroker(node_id=2, host="two", port=2),
            ],
            controller_id=1,
            topics=[
                MetadataResponseTopic(name=name, partitions=partitions)
                if name == "t"
                else MetadataResponseTopic(name=name, error_code=3, partitions=[])
                for name in names
            ],
        )


def failing(times: int, error: KafkaError) -> Callable[[float], str]:
    """Succeeds after it has failed a number of times."""
    left = [error] * times

    def attempt(_timeout: float) -> str:
        if left:
            raise left.pop()
        return "done"

    return attempt


def test_no_broker_on_first_contact_fails_at_once() -> None:
    cluster = FakeCluster()
    cluster.unreachable = {FIRST}
    with pytest.raises(BrokerUnreachable, match="one:1 is not there"):
        cluster.topics(["t"])
    assert cluster.clock.now == 100


def test_a_broker_lost_later_is_waited_for_and_another_one_is_asked() -> None:
    cluster = FakeCluster()
    cluster.topics(["t"])
    cluster.unreachable = {FIRST}
    assert [topic.name for topic in cluster.topics(["t"])] == ["t"]
    cluster.unreachable = {FIRST, SECOND}
    with pytest.raises(BrokerUnreachable, match=r"one:1 is not there; two:2 is not there"):
        cluster.topics(["t"])
    assert 105 < cluster.clock.now <= 110


def test_a_retriable_error_is_retried_until_it_passes() -> None:
    cluster = FakeCluster()
    assert cluster.retrying(failing(3, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"))) == "done"


@pytest.mark.parametrize(
    "error",
    [KafkaError(ErrorCode.INVALID_CONFIG, "no"), UnknownTopic("no"), CorruptBatch("no")],
)
def test_what_waiting_does_not_mend_fails_at_once(error: KafkaError) -> None:
    cluster = FakeCluster()
    with pytest.raises(type(error)):
        cluster.retrying(failing(1, error))
    assert cluster.clock.now == 100


def test_a_topic_that_is_not_there_fails_at_once() -> None:
    cluster = FakeCluster()
    with pytest.raises(UnknownTopic, match="no topic 'nope' at one:1"):
        cluster.topics(["nope"])
    assert cluster.metadata_calls == 1


def test_a_topic_that_may_be_created_is_waited_for_but_not_for_ever() -> None:
    cluster = FakeCluster()
    with pytest.raises(UnknownTopic):
        cluster.topics(["nope"], may_create=True)
    assert 104 < cluster.clock.now < 107


def test_each_leader_is_asked_for_its_partitions_and_failed_ones_again_where_they_moved() -> None:
    cluster = FakeCluster()
    asked = []

    def ask(
        broker: Address, share: dict[TopicPartition, int], _timeout: float
    ) -> dict[TopicPartition, int | KafkaError]:
        asked.append((broker, dict(share)))
        if broker == SECOND:
            cluster.leaders = [1, 1]
            return {B: KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")}
        return {each: value * 10 for each, value in share.items()}

    assert cluster.call_leaders({A: 1, B: 2}, ask) == {A: 10, B: 20}
    assert asked == [(FIRST, {A: 1}), (SECOND, {B: 2}), (FIRST, {B: 2})]


def test_a_partition_that_the_topic_has_not_is_named() -> None:
    with pytest.raises(UnknownTopic, match="'t' has the partitions 0 to 1, not 7"):
        FakeCluster().call_leaders({TopicPartition("t", 7): None}, lambda *_: {})


def test_a_code_of_a_later_kafka_keeps_its_number() -> None:
    check(0, "fine")
    with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR: doing x: error 999"):
        check(999, "doing x")
