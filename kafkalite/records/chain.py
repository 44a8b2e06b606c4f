"""Where the records of many batches begin and end: the one thing about them that is sequential by nature.

A record tells its length, so each is found only through the one before. A Python loop does that at 8 million a
second; these do better where they apply, and one check of all lengths at once makes all of them safe:

- the records of a small batch are guessed to be of one size, if that adds up to the size of the batch;
- many small batches are walked in step;
- in a large batch, runs of records of one size are passed at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kafkalite.errors import CorruptBatch
from kafkalite.records.varint_columns import Bytes, Ints, read_varints
from kafkalite.records.varints import varint32

_SMALLEST_RECORD_BYTES: Final = 7
"""One byte each: length, attributes, two deltas, two lengths and the header count."""

_MOST_OF_ONE_SIZE: Final = 64
"""From the 65th record on, an offset delta needs a second byte."""

_ENOUGH_IN_STEP: Final = 64
"""Walking in step pays when so many sections are still going on the average."""

_SHORT_SECTION: Final = 256
"""Up to here, looking for runs costs more than it saves."""

_FIRST_WALK: Final = 16
_LONGEST_WALK: Final = 4096
_LONGEST_RUN: Final = 1024

_LOW_STEPS: Final = [(byte & 0x7F) >> 1 for byte in range(256)]
_HIGH_STEPS: Final = [(byte << 6) + 2 for byte in range(256)]
"""From a record whose length has two bytes to the next: what its low and high byte add, one look-up each."""


class Sections(NamedTuple):
    """Section i lies at `data[begins[i]:ends[i]]` and must be filled by exactly `counts[i]` ≥ 1 records."""

    data: Bytes
    begins: Ints
    ends: Ints
    counts: Ints

    @property
    def counts_before(self) -> Ints:
        return np.cumsum(self.counts) - self.counts


def find_records(sections: Sections) -> tuple[Ints, Ints]:
    """Where the body of each record begins, after its length, and where it ends."""
    data, begins, ends, counts = sections
    if (counts * _SMALLEST_RECORD_BYTES > ends - begins).any():
        raise CorruptBatch("a batch's record count does not fit the size of its records")
    lengths, bodies = read_varints(data, begins, bits=32)
    strides = bodies + lengths - begins
    ordinals = np.arange(counts.sum()) - sections.counts_before.repeat(counts)
    starts = begins.repeat(counts) + ordinals * strides.repeat(counts)
    of_one_size = (counts <= _MOST_OF_ONE_SIZE) & (begins + strides * counts == ends)
    _walk(sections, np.flatnonzero(~of_one_size), starts)
    if of_one_size.any():
        try:
            return _checked(sections, starts)
        except CorruptBatch:
            _walk(sections, np.flatnonzero(of_one_size), starts)
    return _checked(sections, starts)


def _checked(sections: Sections, starts: Ints) -> tuple[Ints, Ints]:
    """Each record must end where the next begins, and the last one of a section where that ends."""
    lengths, bodies = read_varints(sections.data, starts, bits=32)
    record_ends = bodies + lengths
    next_starts = np.append(starts[1:], 0)
    next_starts[sections.counts_before + sections.counts - 1] = sections.ends
    if (record_ends != next_starts).any():
        raise CorruptBatch("the lengths of a batch's records do not add up to its size")
    return bodies, record_ends


def _walk(sections: Sections, chosen: Ints, starts: Ints) -> None:
    """Fill in where the records of the chosen sections begin; what is wrong with them may be left to the check."""
    if not len(chosen):
        return
    data, begins, ends, counts = sections
    firsts = sections.counts_before
    if counts[chosen].sum() > _ENOUGH_IN_STEP * counts[chosen].max():
        _walk_in_step(data, begins[chosen], counts[chosen], firsts[chosen], starts)
        return
    for section in chosen.tolist():
        begin, first, count = int(begins[section]), int(firsts[section]), int(counts[section])
        starts[first : first + count] = begin + _walk_one(data[begin : ends[section]], count)


def _walk_in_step(data: Bytes, begins: Ints, counts: Ints, firsts: Ints, starts: Ints) -> None:
    """Many sections at once: the first record of each, then the second …"""
    longest_first = np.argsort(-counts)
    at, counts, firsts = begins[longest_first], counts[longest_first], firsts[longest_first]
    for ordinal in range(counts[0]):
        active = np.searchsorted(-counts, -ordinal)
        starts[firsts[:active] + ordinal] = at[:active]
        lengths, bodies = read_varints(data, at[:active], bits=32)
        at = bodies + lengths


def _walk_one(section: Bytes, count: int) -> Ints:
    """Follow the lengths of one section, in turns: some records singly, then a run of equal ones at once.

    What it returns is still to be checked: a negative length is not noticed here.
    """
    data = section.data  # indexed faster than an array, and not much slower than a copy as bytes
    starts = np.empty(count, np.int64)
    done = position = 0
    turn = _FIRST_WALK if count > _SHORT_SECTION else count
    low_steps, high_steps = _LOW_STEPS, _HIGH_STEPS
    try:
        while done < count:
            singly = []
            for _ in range(min(turn, count - done)):
                singly.append(position)
                low = data[position]
                if low < 0x80:
                    position += (low >> 1) + 1
                else:
                    high = data[position + 1]
                    if high < 0x80:
                        position += low_steps[low] + high_steps[high]
                    else:
                        length, position = varint32(data, position)
                        position += length
            starts[done : done + len(singly)] = np.fromiter(singly, np.int64, len(singly))
            done += len(singly)
            run, stride = _run_at(section, data, position, count - done) if done < count else (0, 0)
            starts[done : done + run] = position + stride * np.arange(run)
            done += run
            position += stride * run
            turn = _FIRST_WALK if run > _FIRST_WALK else min(turn * 2, _LONGEST_WALK)
    except IndexError:
        raise CorruptBatch("the lengths of a batch's records lead past its end") from None
    return starts


def _run_at(section: Bytes, data: memoryview, position: int, most: int) -> tuple[int, int]:
    """How many records from `position` on have one and the same length, and how far apart they begin."""
    length, body = varint32(data, position)
    stride = body + length - position
    if length < 0:
        raise CorruptBatch(f"a record has a length of {length}")
    possible = min(most, _LONGEST_RUN, (len(section) - position) // stride)
    if possible < 1:
        return 0, stride
    same = np.ones(possible, np.bool_)
    for place in range(position, body):
        same &= section[place : place + (possible - 1) * stride + 1 : stride] == section[place]
    return (possible if same.all() else int(same.argmin())), stride
