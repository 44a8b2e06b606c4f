"""Where reading begins: by time, after records are deleted, and where an offset is out of range."""

from __future__ import annotations

from itertools import product

import pytest

from tests.compat.clients.client import Client, Record, Refused
from tests.compat.conftest import CLIENTS

START_MS = 1_790_000_000_000
RECORDS = [Record(b"k", b"%d" % n, (), START_MS + 1_000 * n) for n in range(10)]


@pytest.fixture
def filled(admin: Client, topic: str) -> str:
    """A topic of ten records, a second apart, each in a batch of its own."""
    admin.create_topic(topic)
    for record in RECORDS:
        admin.produce(topic, [record])
    return topic


def test_offsets_are_found_by_time(client: Client, filled: str) -> None:
    assert client.offset_range(filled) == (0, 10)
    assert client.offset_at(filled, START_MS) == 0
    assert client.offset_at(filled, START_MS + 3_000) == 3
    assert client.offset_at(filled, START_MS + 3_001) == 4
    assert client.offset_at(filled, START_MS + 9_001) is None


def test_deleted_records_are_gone(client: Client, filled: str) -> None:
    client.delete_records(filled, 4)
    assert client.offset_range(filled) == (4, 10)
    received = client.consume(filled, 6, start=0, reset="earliest")
    assert [(at, record.value) for at, record in received] == [(n, b"%d" % n) for n in range(4, 10)]


def test_reading_begins_at_an_offset(client: Client, filled: str) -> None:
    assert [at for at, _ in client.consume(filled, 3, start=7)] == [7, 8, 9]


@pytest.mark.parametrize(
    ("client", "reset"),
    [(name, reset) for name, reset in product(CLIENTS, Client.reset_policies) if reset in CLIENTS[name].reset_policies],
    indirect=["client"],
)
def test_out_of_range_follows_the_reset_policy(client: Client, admin: Client, filled: str, reset: str) -> None:
    if reset == "earliest":
        assert [at for at, _ in client.consume(filled, 3, start=1_000, reset=reset)] == [0, 1, 2]
    elif reset == "error":
        with pytest.raises(Refused) as refused:
            client.consume(filled, 1, start=1_000, reset=reset)
        assert refused.value.code == 1
    else:
        # When the consumer has found the end cannot be seen, so new records come until it reads one.
        ((at, record),) = client.consume(
            filled, 1, start=1_000, reset=reset, while_waiting=lambda: admin.produce(filled, [Record(b"k", b"new")])
        )[:1]
        assert record.value == b"new"
        assert at >= 10
