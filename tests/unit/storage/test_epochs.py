"""Leader epochs: where each begins and ends, and what truncation leaves of them."""

from __future__ import annotations

import pytest

from kafkalite.storage.epochs import EpochStart, LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs([EpochStart(0, 0), EpochStart(2, 10), EpochStart(5, 30)])


def test_an_epoch_ends_where_the_next_known_one_begins(epochs: LeaderEpochs) -> None:
    assert epochs.end_offset_of(0, 40) == (0, 10)
    assert epochs.end_offset_of(2, 40) == (2, 30)
    assert epochs.end_offset_of(4, 40) == (2, 30), "the largest known one below it"
    assert epochs.end_offset_of(5, 40) == (5, 40)
    assert epochs.end_offset_of(9, 40) == (5, 40)
    assert LeaderEpochs().end_offset_of(3, 40) == (-1, -1)


def test_the_epoch_of_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 29, 30, 99)] == [0, 0, 2, 2, 5, 5]
    assert LeaderEpochs().epoch_at(0) is None


def test_only_a_new_epoch_is_noted(epochs: LeaderEpochs) -> None:
    epochs.assign(5, 35)
    epochs.assign(3, 36)
    assert epochs.latest == 5
    epochs.assign(6, 37)
    assert (epochs.latest, epochs.entries[-1]) == (6, EpochStart(6, 37))


def test_truncation_forgets_what_begins_past_the_end(epochs: LeaderEpochs) -> None:
    epochs.truncate_to(30)
    assert (epochs.latest, len(epochs.entries)) == (2, 2)
    epochs.truncate_to(0)
    assert (epochs.latest, epochs.entries) == (-1, ())


def test_a_new_start_keeps_the_epoch_that_holds_it(epochs: LeaderEpochs) -> None:
    epochs.start_at(15)
    assert list(epochs.entries) == [EpochStart(2, 15), EpochStart(5, 30)]
    epochs.start_at(30)
    assert list(epochs.entries) == [EpochStart(5, 30)]
