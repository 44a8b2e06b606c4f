"""The broker's checker is trusted only after it has caught mutants: a broker in memory that breaks one promise each."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.support.broker_history import BrokerHistory, Outcome, Read, Seen


class ToyBroker:
    """One partition, its idempotent producer, and a reader that reads after every send. It keeps every promise."""

    def __init__(self) -> None:
        self.history = BrokerHistory()
        self.log: list[bytes] = []
        self.high_watermark = 0
        self.position = 0
        self.sent = 0

    def send(self, *, is_acknowledged: bool = True, times: int = 1) -> None:
        self.sent += 1
        send = self.history.begin(0, b"value-%d" % self.sent)
        for _ in range(times):
            self.append(send.value)
        if is_acknowledged:
            send.acknowledged(self.log.index(send.value))
        self.follow()

    def append(self, value: bytes) -> None:
        self.log.append(value)
        self.high_watermark = len(self.log)

    def fail(self) -> bytes:
        """A send that is refused; gives its value."""
        send = self.history.begin(0, b"failed-%d" % len(self.history.sends))
        send.refused()
        return send.value

    def served(self, position: int) -> list[Seen]:
        return [Seen(at, value) for at, value in enumerate(self.log) if position <= at < self.high_watermark]

    def follow(self) -> None:
        records = self.served(self.position)
        self.history.read(Read("follower", 0, self.position, records, self.high_watermark))
        self.position += len(records)

    def violations(self) -> set[str]:
        self.history.read(Read("last", 0, 0, self.served(0), self.high_watermark))
        self.history.has_read_all("last", 0, self.high_watermark)
        return kinds(self.history.violations())


def kinds(violations: Iterable[str]) -> set[str]:
    return {violation.split(":")[0] for violation in violations}


@pytest.fixture
def broker() -> ToyBroker:
    broker = ToyBroker()
    for _ in range(10):
        broker.send()
    return broker


def test_a_broker_that_keeps_its_promises_passes(broker: ToyBroker) -> None:
    broker.send(is_acknowledged=False)
    broker.fail()
    broker.history.begin(0, b"unknown, and never written")
    broker.send()
    assert broker.violations() == set()
    assert [broker.history.count(outcome) for outcome in Outcome] == [11, 1, 2]


def test_mutant_acknowledges_before_it_writes(broker: ToyBroker) -> None:
    broker.history.begin(0, b"never written").acknowledged(len(broker.log))
    assert broker.violations() == {"I1"}


def test_mutant_loses_the_last_record_and_gives_its_offset_again(broker: ToyBroker) -> None:
    broker.log.pop()
    broker.high_watermark = broker.position = len(broker.log)
    broker.send()
    assert {"I1", "I2", "I3"} <= broker.violations()


def test_mutant_loses_the_last_record(broker: ToyBroker) -> None:
    broker.log.pop()
    broker.high_watermark = len(broker.log)
    assert broker.violations() == {"I1"}


def test_mutant_loses_a_record_in_the_middle(broker: ToyBroker) -> None:
    broker.history.read(Read("skipping", 0, 0, [seen for seen in broker.served(0) if seen.offset != 4]))
    assert broker.violations() == {"I3"}


def test_mutant_ignores_the_high_watermark(broker: ToyBroker) -> None:
    records = broker.served(0)
    broker.history.read(Read("too curious", 0, 0, records, len(records) - 1))
    assert broker.violations() == {"I5"}


def test_mutant_lets_a_duplicate_through(broker: ToyBroker) -> None:
    broker.send(times=2)
    assert "I4" in broker.violations()


def test_mutant_lets_a_duplicate_of_an_unknown_send_through(broker: ToyBroker) -> None:
    broker.send(times=2, is_acknowledged=False)
    assert broker.violations() == {"I4"}


def test_mutant_reads_short(broker: ToyBroker) -> None:
    """A reader that is told of 10 records and gets 9."""
    broker.history.read(Read("short", 0, 0, broker.served(0)[:-1], broker.high_watermark))
    broker.history.has_read_all("short", 0, broker.high_watermark)
    assert broker.violations() == {"I1", "I3"}


def test_mutant_exchanges_two_records(broker: ToyBroker) -> None:
    broker.log[2], broker.log[5] = broker.log[5], broker.log[2]
    assert {"I1", "I2"} <= broker.violations()


def test_mutant_serves_two_records_in_the_wrong_order(broker: ToyBroker) -> None:
    first, second, *rest = broker.served(0)
    broker.history.read(Read("confused", 0, 0, [second, first, *rest]))
    assert broker.violations() == {"I3"}


def test_mutant_changes_a_value(broker: ToyBroker) -> None:
    broker.log[3] = b"other"
    assert broker.violations() == {"I1", "I2", "nobody sent b'other', which last got at (0, 3)"}


def test_mutant_shows_an_unknown_value_to_one_reader_only(broker: ToyBroker) -> None:
    broker.send(is_acknowledged=False)
    broker.log[-1] = b"another"
    assert "I2" in broker.violations()


def test_mutant_shows_what_has_failed(broker: ToyBroker) -> None:
    broker.append(broker.fail())
    assert broker.violations() == {"I6"}


def test_mutant_puts_a_later_send_before_an_earlier_one() -> None:
    broker = ToyBroker()
    first = broker.history.begin(0, b"first")
    first.acknowledged(1)
    broker.history.begin(0, b"second").acknowledged(0)
    broker.append(b"second")
    broker.append(b"first")
    assert broker.violations() == {"I7"}


def test_mutant_puts_a_later_send_without_an_answer_before_an_earlier_one() -> None:
    broker = ToyBroker()
    broker.history.begin(0, b"first").acknowledged(1)
    broker.history.begin(0, b"second")
    broker.append(b"second")
    broker.append(b"first")
    assert broker.violations() == {"I7"}


def test_sends_that_overlap_may_take_any_order() -> None:
    broker = ToyBroker()
    first, second = broker.history.begin(0, b"first"), broker.history.begin(0, b"second")
    first.acknowledged(1)
    second.acknowledged(0)
    broker.append(b"second")
    broker.append(b"first")
    assert broker.violations() == set()


def test_mutant_gives_an_offset_to_two_sends(broker: ToyBroker) -> None:
    broker.history.begin(0, b"again").acknowledged(4)
    assert {"I1", "I2"} <= broker.violations()


def test_mutant_puts_a_record_into_another_partition(broker: ToyBroker) -> None:
    broker.history.read(Read("last", 1, 0, [Seen(0, broker.log[0])]))
    assert "I4" in broker.violations()


def test_a_partition_that_nobody_has_read_is_not_taken_for_good(broker: ToyBroker) -> None:
    broker.history.begin(7, b"elsewhere").acknowledged(0)
    assert broker.violations() == {"I1"}
