"""Log lines about peers: one per cause and interval, and none forgotten."""

from __future__ import annotations

import logging

import pytest

from kafkalite.server.complaints import Complaints
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_cause_is_told_once_per_interval_with_how_many_there_were(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(clock.monotonic)
    for number in range(5_000):
        complaints.note("noise", f"peer {number}")
    assert lines(caplog) == ["noise: peer 0"]
    clock.sleep(11)
    complaints.note("noise", "peer 5000")
    complaints.note("noise", "peer 5001")
    assert lines(caplog)[1:] == ["noise: peer 5000 (and 4999 more since the last such line)"]
    clock.sleep(11)
    complaints.note("noise", "peer 5002")
    assert lines(caplog)[2:] == ["noise: peer 5002 (and 1 more since the last such line)"]


def test_one_cause_does_not_hide_another(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(clock.monotonic)
    for cause in ("noise", "idle", "noise", "idle"):
        complaints.note(cause, "x")
    assert lines(caplog) == ["noise: x", "idle: x"]


def test_a_fault_of_ours_is_told_with_where_it_happened(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    Complaints(clock.monotonic).note("fault", "x", ZeroDivisionError("here"))
    assert caplog.records[0].levelno == logging.ERROR
    assert caplog.records[0].exc_info is not None
