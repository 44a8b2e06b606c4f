"""What must hold of a stored log after damage to its folder, however it was damaged: one check for all crash tables."""

from __future__ import annotations

from pathlib import Path

from kafkalite.errors import CorruptBatch
from kafkalite.records.rows import Row
from kafkalite.storage.log import PartitionLog
from tests.support.content import Sent, batch_of, row_of
from tests.support.reading import Reading, read_everything
from tests.support.stored_log import NOW_MS, StoredLog, open_log

NEW_PRODUCER = 99


def check_damaged_log(
    stored: StoredLog,
    folder: Path,
    *,
    may_refuse: range = range(0),
    may_lose_from: int | None = None,
    is_log_damaged: bool = True,
) -> PartitionLog:
    """Open the damaged copy twice, read all of it, look records up by time, append to it, and open it once more.

    `may_refuse` are offsets below the recovery point that the damage has hit, `may_lose_from` is where it has hit the
    log above the recovery point.
    """
    log = open_log(folder, stored.config)
    first = read_everything(log)
    _check_reading(stored, first, may_refuse, may_lose_from)
    again = read_everything(log, max_bytes=1)
    assert again == first, "a second reader sees something else"
    _check_lookups(stored, log, may_refuse)

    log = open_log(folder, stored.config)
    _check_lookups(stored, log, may_refuse)
    assert read_everything(log) == first, "a second open shows something else"
    if not is_log_damaged:
        _check_duplicates_are_known(stored, log)
    _check_append(stored, log, first)
    grown = read_everything(log)
    assert read_everything(open_log(folder, stored.config)) == grown, "the appended record changed by an open"
    return log


def _check_reading(stored: StoredLog, reading: Reading, may_refuse: range, may_lose_from: int | None) -> None:
    violations = stored.history.violations(
        reading, is_compacted=stored.config.is_compacted, may_refuse=may_refuse, may_lose_from=may_lose_from
    )
    assert not violations, "\n".join(violations)
    end = stored.intact.log_end_offset if may_lose_from is None else may_lose_from
    served = {row.offset: row for row in reading.rows}
    for row in stored.intact.rows:
        if row.offset < end and row.offset not in may_refuse:
            assert served.get(row.offset) == row, f"offset {row.offset} is not damaged and is not served"
    assert reading.rows == [row for row in stored.intact.rows if row.offset in served], (
        "records came back from the dead"
    )
    for offset in served:
        if offset < stored.recovery_point:
            assert reading.epochs[offset] == stored.intact.epochs[offset], f"offset {offset} has another leader epoch"
    assert reading.log_end_offset >= stored.recovery_point


def _check_lookups(stored: StoredLog, log: PartitionLog, may_refuse: range) -> None:
    rows = [row for row in stored.intact.rows if row.offset < log.log_end_offset]
    times = sorted({row.timestamp for row in rows})
    wanted = [0, *times[:: max(1, len(times) // 6)], *times[-2:], times[-1] + 1] if times else [0]
    for timestamp in wanted:
        expected = next((row for row in rows if row.timestamp >= timestamp), None)
        try:
            found = log.offset_for_time(timestamp)
        except CorruptBatch:
            assert may_refuse, f"the lookup of {timestamp} was refused in a log without damage"
            continue
        _check_found(expected, found)
    try:
        found = log.offset_of_max_timestamp()
    except CorruptBatch:
        assert may_refuse
    else:
        _check_found(next((row for row in rows if row.timestamp == times[-1]), None) if times else None, found)


def _check_found(expected: Row | None, found: tuple[int, int, int] | None) -> None:
    assert (found and found[:2]) == (expected and (expected.timestamp, expected.offset))


def _check_duplicates_are_known(stored: StoredLog, log: PartitionLog) -> None:
    """Each producer's last batch, sent once more, must be recognised."""
    history = stored.history
    for producer in {sent.producer for sent in history.attempted}:
        last_offset = max(offset for offset, sent in history.acknowledged.items() if sent.producer == producer)
        place = next(place for place in stored.places if last_offset in place.offsets)
        first_sequence = history.acknowledged[place.offsets[0]].sequence
        appended = log.append_as_leader(
            batch_of(history.seed, producer, first_sequence), leader_epoch=log.epochs.latest, now_ms=NOW_MS
        )
        assert appended.is_duplicate
        assert (appended.base_offset, appended.last_offset) == (place.offsets[0], place.offsets[-1])


def _check_append(stored: StoredLog, log: PartitionLog, before: Reading) -> None:
    seed = stored.history.seed
    appended = log.append_as_leader(batch_of(seed, NEW_PRODUCER, 0), leader_epoch=log.epochs.latest, now_ms=NOW_MS)
    assert appended.base_offset == before.log_end_offset
    reading = read_everything(log)
    new = [row for row in reading.rows if row.offset >= appended.base_offset]
    assert reading.rows[: len(before.rows)] == before.rows
    assert reading.refused == before.refused
    assert new[0] == row_of(seed, Sent(NEW_PRODUCER, 0), appended.base_offset)
    assert len(new) == appended.last_offset - appended.base_offset + 1
