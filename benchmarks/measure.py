"""Measuring on a noisy machine: what is compared takes turns within one run, and medians are compared."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter


def medians_in_turns(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The median of what each measure returns, called in turns, so that a slow moment of the machine hits all alike."""
    samples: list[list[float]] = [[] for _ in measures]
    for _ in range(rounds):
        for sample, measure in zip(samples, measures, strict=True):
            sample.append(measure())
    return [median(sample) for sample in samples]


def seconds_of(function: Callable[[], object], clock: Callable[[], float] = perf_counter) -> Callable[[], float]:
    """A measure: how long one call takes. The function is called once before, to be warm."""
    function()

    def measure() -> float:
        begun = clock()
        function()
        return clock() - begun

    return measure
