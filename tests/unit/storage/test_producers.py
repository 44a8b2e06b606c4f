"""Idempotent producers: duplicates, order, fencing, expiry, and that a snapshot loses none of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.records.batch import RecordBatch, build_batch
from kafkalite.records.control import ControlType, control_batch
from kafkalite.storage.producers import Producers, read_snapshot, write_snapshot

LAST_SEQUENCE = 2**31 - 1


def batch(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, transactional: bool = False
) -> RecordBatch:
    made = build_batch(
        b"",
        count=count,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        base_offset=offset,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return RecordBatch(memoryview(made))


def after(*batches: RecordBatch) -> Producers:
    producers = Producers()
    for one in batches:
        assert producers.check(one) is None
        producers.note(one, now_ms=100)
    return producers


def refusal(producers: Producers, refused: RecordBatch) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        producers.check(refused)
    return caught.value.code


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    after(batch(41), batch(42))


def test_the_last_five_batches_are_known_as_duplicates() -> None:
    producers = after(*(batch(sequence, offset=100 + sequence) for sequence in range(7)))
    for sequence in range(2, 7):
        duplicate = producers.check(batch(sequence))
        assert duplicate is not None
        assert duplicate.first_offset == 100 + sequence
    assert refusal(producers, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_with_another_length_is_no_duplicate() -> None:
    producers = after(batch(0, count=3))
    assert refusal(producers, batch(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [0, 2, 4, 5])
def test_only_the_next_sequence_is_accepted(sequence: int) -> None:
    producers = after(batch(0, count=3))
    assert refusal(producers, batch(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(batch(3)) is None


def test_sequences_wrap_around() -> None:
    producers = after(batch(LAST_SEQUENCE - 1, count=2))
    assert producers.check(batch(0)) is None
    producers = after(batch(LAST_SEQUENCE, count=3))
    assert producers.check(batch(2)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    producers = after(batch(0, epoch=5))
    assert refusal(producers, batch(1, epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, batch(1, epoch=6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(batch(0, epoch=6)) is None


def test_a_plain_batch_within_a_transaction_is_refused_until_its_marker() -> None:
    producers = after(batch(0, transactional=True))
    assert refusal(producers, batch(1)) is ErrorCode.INVALID_TXN_STATE
    marker = control_batch(ControlType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0)
    producers.note(RecordBatch(memoryview(marker)), now_ms=100)
    assert producers.check(batch(1)) is None


def test_silent_producers_are_forgotten_but_not_with_an_open_transaction() -> None:
    idle, open_transaction = after(batch(0)), after(batch(0, transactional=True))
    for producers in (idle, open_transaction):
        producers.forget_expired(now_ms=200, expiration_ms=100)
        assert len(producers) == 1
        producers.forget_expired(now_ms=201, expiration_ms=100)
    assert (len(idle), len(open_transaction)) == (0, 1)


def test_a_snapshot_holds_everything(tmp_path: Path) -> None:
    producers = after(*(batch(sequence, offset=sequence) for sequence in range(7)))
    producers.note(batch(7, transactional=True, offset=7), now_ms=150)
    path = tmp_path / "s.snapshot"
    write_snapshot(path, producers.snapshot())
    loaded = read_snapshot(path)
    assert loaded is not None
    assert loaded.snapshot() == producers.snapshot()
    assert refusal(loaded, batch(8)) is ErrorCode.INVALID_TXN_STATE


def test_a_damaged_snapshot_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s.snapshot"
    good = after(batch(0), batch(1)).snapshot()
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        assert read_snapshot(path) is None
    assert read_snapshot(tmp_path / "none") is None
