"""One broker for all of these tests (one per worker), names that are a test's own, and every client there is."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalite.testing import EmbeddedBroker
from tests.compat.clients import kafkajs, kcat
from tests.compat.clients.aio import AioClient
from tests.compat.clients.client import Client
from tests.compat.clients.confluent import ConfluentClient
from tests.compat.clients.kafka_python import KafkaPythonClient
from tests.compat.clients.kafkajs import KafkajsClient
from tests.compat.clients.kcat import KcatClient
from tests.compat.raw_connection import RawConnection

CLIENTS: dict[str, type[Client]] = {
    client.name: client for client in (ConfluentClient, KafkaPythonClient, AioClient, KafkajsClient, KcatClient)
}

CONFIG = {
    # A killed member is noticed after its session timeout: tests must be allowed a short one.
    "group.min.session.timeout.ms": "100",
    # Reading what is not there must never make a topic that another test counts.
    "auto.create.topics.enable": "false",
}

# kafka-python leaves sockets to the garbage collector.
LEFT_TO_THE_COLLECTOR = ("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(CONFIG) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4()}"


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for warning in LEFT_TO_THE_COLLECTOR:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def client_named(broker: EmbeddedBroker) -> Iterator[Callable[[str], Client]]:
    """The client of a name; the test is skipped where it is not installed."""
    used = set()

    def find(name: str) -> Client:
        missing = {KafkajsClient.name: kafkajs.missing, KcatClient.name: kcat.missing}.get(name, lambda: None)()
        if missing is not None:
            pytest.skip(missing)
        used.add(name)
        return CLIENTS[name](broker.bootstrap)

    yield find
    if KafkaPythonClient.name in used:
        gc.collect()  # while the warnings are still ignored


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    return client_named(request.param)


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Client:
    """The client that prepares what a test needs."""
    return ConfluentClient(broker.bootstrap)


@pytest.fixture
def raw(broker: EmbeddedBroker) -> Iterator[RawConnection]:
    """A connection that sends what the test says and nothing else."""
    with RawConnection(broker.port) as connection:
        yield connection


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """What a client has no call for, its test skips."""
    try:
        return (yield)
    except NotImplementedError:
        pytest.skip("this client has no such call")
