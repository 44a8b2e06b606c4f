"""The brokers as one: who is there, who leads a partition, who coordinates a group; and asking the right one of them.

Every operation has one deadline. What fails with a retriable code or a lost connection is tried again, after a pause
and with fresh metadata, until then; three things fail at once, because waiting would only hide them: that no broker
answers on first contact, that a topic does not exist, that stored bytes are damaged. Belongs to one thread, as its
connections do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kafkalite.client.address import Address
from kafkalite.client.connection import CLIENT_ID, BrokerUnreachable, Connection, known_code
from kafkalite.clock import Clock, SystemClock
from kafkalite.errors import CorruptBatch, ErrorCode, KafkaError
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkalite.protocol.schema import Message

M = TypeVar("M", bound=Message)
A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

_CONNECT_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0
_CREATION_SECONDS: Final = 5.0
"""How long a topic that asking may create can go on not to exist: a broker that creates none says the same."""


class UnknownTopic(KafkaError):
    """The cluster has no such topic, or the topic no such partition."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)

    def __reduce__(self) -> tuple[type[UnknownTopic], tuple[str]]:  # type: ignore[override]
        return type(self), (self.message,)


def check(code: int, what: str, detail: str | None = None) -> None:
    """Raises what a broker has answered, unless it is no error; `what` says who answered about what."""
    if code:
        name = "" if known_code(code) == code else f"error {code}"
        raise KafkaError(known_code(code), ": ".join(part for part in (what, detail or name) if part))


class Cluster:
    """Brokers that know each other. Use as a context manager, or `close` it."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        timeout: float = 30.0,
        client_id: str = CLIENT_ID,
        clock: Clock | None = None,
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._timeout = timeout
        self._client_id = client_id
        self._clock = clock or SystemClock()
        self._connections: dict[Address, Connection] = {}
        self._brokers: dict[int, Address] = {}
        self._controller = -1
        self._leaders: dict[TopicPartition, int] = {}
        self._partition_counts: dict[str, int] = {}
        self._coordinators: dict[str, Address] = {}

    def __str__(self) -> str:
        return ",".join(map(str, self._bootstrap))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Metadata

    def topics(self, names: Iterable[str] | None = None, *, may_create: bool = False) -> list[MetadataResponseTopic]:
        """The topics by these names, or all; `UnknownTopic` if one is not there. `may_create`: asking may create it."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        begin = self._clock.monotonic()

        def attempt(timeout: float) -> list[MetadataResponseTopic]:
            answer = self._metadata(wanted, timeout, may_create=may_create)
            for topic in answer.topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    message = f"there is no topic {topic.name!r} at {self}"
                    if may_create and self._clock.monotonic() - begin < _CREATION_SECONDS:
                        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
                    raise UnknownTopic(message)
                check(topic.error_code, f"topic {topic.name!r} at {self}")
                self._note(topic)
            return list(answer.topics)

        return self.retrying(attempt)

    def partitions_of(self, topic: str, *, may_create: bool = False) -> list[TopicPartition]:
        (found,) = self.topics([topic], may_create=may_create)
        return sorted(TopicPartition(topic, partition.partition_index) for partition in found.partitions)

    def brokers(self) -> dict[int, Address]:
        """Every broker by its number."""
        self.retrying(lambda timeout: self._metadata([], timeout))
        return dict(self._brokers)

    def _metadata(
        self, topics: list[MetadataRequestTopic] | None, timeout: float, *, may_create: bool = False
    ) -> MetadataResponse:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
        answer = self.call_any(request, MetadataResponse, timeout)
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        self._controller = answer.controller_id
        return answer

    def _note(self, topic: MetadataResponseTopic) -> None:
        assert topic.name is not None, "topics are asked for by name"
        self._partition_counts[topic.name] = len(topic.partitions)
        for partition in topic.partitions:
            self._leaders[TopicPartition(topic.name, partition.partition_index)] = partition.leader_id

    # Asking

    def call(self, broker: Address, request: Message, response: type[M], timeout: float) -> M:
        """Asks one broker, over the connection that is there or a new one."""
        connection = self._connections.get(broker)
        if connection is None or not connection.is_open:
            connection = Connection.open(broker, timeout=min(timeout, _CONNECT_SECONDS), client_id=self._client_id)
            self._connections[broker] = connection
        return connection.call(request, response, timeout)

    def call_any(self, request: Message, response: type[M], timeout: float) -> M:
        """Asks the first broker that answers."""
        failures = []
        for broker in dict.fromkeys([*self._connections, *self._brokers.values(), *self._bootstrap]):
            try:
                return self.call(broker, request, response, timeout)
            except BrokerUnreachable as error:
                failures.append(error.message)
        raise BrokerUnreachable("; ".join(failures))

    def call_controller(self, request: Message, response: type[M], verdict: Callable[[M], None]) -> M:
        """Asks the controller; `verdict` raises what the answer says, so that it can be asked again."""

        def attempt(timeout: float) -> M:
            if self._controller not in self._brokers:
                self._metadata([], timeout)
            controller = self._brokers.get(self._controller)
            if controller is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster at {self} has no controller now")
            answer = self.call(controller, request, response, timeout)
            verdict(answer)
            return answer

        return self.retrying(attempt)

    def call_coordinator(self, group: str, request: Message, response: type[M], verdict: Callable[[M], None]) -> M:
        """Asks the coordinator of a group; `verdict` raises what the answer says, so that it can be asked again."""

        def attempt(timeout: float) -> M:
            coordinator = self._coordinators.get(group) or self._find_coordinator(group, timeout)
            answer = self.call(coordinator, request, response, timeout)
            verdict(answer)
            return answer

        return self.retrying(attempt)

    def call_leaders(
        self,
        wanted: Mapping[TopicPartition, A],
        ask: Callable[[Address, dict[TopicPartition, A], float], Mapping[TopicPartition, B | KafkaError]],
    ) -> dict[TopicPartition, B]:
        """Asks the leader of each partition, once per broker; partitions that failed retriably are asked for again.

        `ask` gets a broker, its share of `wanted` and the seconds that are left.
        """
        done: dict[TopicPartition, B] = {}

        def attempt(timeout: float) -> None:
            failure: KafkaError | None = None
            for broker, partitions in self._by_leader([each for each in wanted if each not in done], timeout).items():
                for partition, found in ask(broker, {each: wanted[each] for each in partitions}, timeout).items():
                    if not isinstance(found, KafkaError):
                        done[partition] = found
                    elif failure is None or not found.code.retriable:
                        failure = found
            if failure is not None:
                raise failure

        self.retrying(attempt)
        return done

    def retrying(self, attempt: Callable[[float], T]) -> T:
        """Calls `attempt` with the seconds that are left until it succeeds, or fails for good."""
        deadline = self._clock.monotonic() + self._timeout
        pause = _FIRST_PAUSE_SECONDS
        while True:
            is_first_contact = not self._brokers
            try:
                return attempt(max(deadline - self._clock.monotonic(), 0.001))
            except KafkaError as error:
                if not error.code.retriable or isinstance(error, UnknownTopic | CorruptBatch):
                    raise
                if isinstance(error, BrokerUnreachable) and is_first_contact:
                    raise
                if self._clock.monotonic() + pause >= deadline:
                    raise
            self._leaders.clear()
            self._coordinators.clear()
            self._controller = -1
            self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _by_leader(self, partitions: list[TopicPartition], timeout: float) -> dict[Address, list[TopicPartition]]:
        unknown = {each.topic for each in partitions if each not in self._leaders}
        if unknown:
            answer = self._metadata([MetadataRequestTopic(name=name) for name in sorted(unknown)], timeout)
            for topic in answer.topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(f"there is no topic {topic.name!r} at {self}")
                check(topic.error_code, f"topic {topic.name!r} at {self}")
                self._note(topic)
        shares: defaultdict[Address, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            if partition not in self._leaders:
                count = self._partition_counts[partition.topic]
                raise UnknownTopic(
                    f"topic {partition.topic!r} has the partitions 0 to {count - 1}, not {partition.partition}"
                )
            leader = self._brokers.get(self._leaders[partition])
            if leader is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader now")
            shares[leader].append(partition)
        return shares

    def _find_coordinator(self, group: str, timeout: float) -> Address:
        request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
        answer = self.call_any(request, FindCoordinatorResponse, timeout)
        what = f"looking for the coordinator of group {group!r} at {self}"
        if answer.coordinators:  # version 4 and later
            found = answer.coordinators[0]
            check(found.error_code, what, found.error_message)
            address = Address(found.host, found.port)
        else:
            check(answer.error_code, what, answer.error_message)
            address = Address(answer.host, answer.port)
        self._coordinators[group] = address
        return address
