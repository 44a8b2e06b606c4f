"""The sparse index: look-ups, truncation, and that nothing but what was saved is ever loaded."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.storage import index
from kafkalite.storage.index import SparseIndex, Summary

SUMMARY = Summary(12345, 678, -1, is_whole=True)


def index_of(entries: list[tuple[int, int]]) -> SparseIndex:
    made = SparseIndex()
    for key, position in entries:
        made.add(key, position)
    return made


RISING = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 100)), max_size=30).map(
    lambda steps: [(sum(s[0] for s in steps[: n + 1]), sum(s[1] for s in steps[: n + 1])) for n in range(len(steps))]
)


@given(RISING, st.integers(-1, 3100))
def test_look_ups_agree_with_a_plain_search(entries: list[tuple[int, int]], wanted: int) -> None:
    made = index_of(entries)
    by_key = [entry for entry in entries if entry[0] <= wanted]
    assert made.last_at_or_below(wanted) == (by_key[-1] if by_key else None)
    below = [entry for entry in entries if entry[0] < wanted]
    assert made.last_below(wanted) == (below[-1] if below else None)
    by_position = [entry for entry in entries if entry[1] <= wanted]
    assert made.last_at_or_before(wanted) == (by_position[-1] if by_position else None)
    after = [entry for entry in entries if entry[1] > wanted]
    assert made.first_after(wanted) == (after[0] if after else None)
    made.truncate(wanted)
    assert list(zip(made.keys, made.positions, strict=True)) == [entry for entry in entries if entry[1] < wanted]


def test_has_knows_exact_entries_only() -> None:
    made = index_of([(10, 0), (20, 100)])
    assert made.has(20, 100)
    assert not made.has(20, 101)
    assert not made.has(15, 0)
    assert bisect_right(made.keys, 20) == 2


@given(RISING)
def test_what_was_saved_is_loaded(entries: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.index")
        index.save(path, index_of(entries), SUMMARY)
        loaded = index.load(path)
        assert loaded is not None
        assert list(zip(loaded[0].keys, loaded[0].positions, strict=True)) == entries
        assert loaded[1] == SUMMARY


def test_any_flipped_bit_and_any_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    index.save(path, index_of([(5, 10), (9, 70)]), SUMMARY)
    good = path.read_bytes()
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        assert index.load(path) is None
    for length in range(len(good)):
        path.write_bytes(good[:length])
        assert index.load(path) is None
    path.write_bytes(good + b"\0")
    assert index.load(path) is None


def test_a_missing_file_is_no_index(tmp_path: Path) -> None:
    assert index.load(tmp_path / "none.index") is None
