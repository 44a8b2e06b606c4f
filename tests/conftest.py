"""Options and fixtures of every test: how often a fault campaign tries, and how one failing trial is repeated alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

CAMPAIGN_TIMEOUT_SECONDS = 4 * 3600


class Trials(Protocol):
    """Runs a trial with every seed of its share: `small` seeds normally, `large` ones with --campaign."""

    def __call__(
        self, trial: Callable[[int], None], *, small: int, large: int, shard: int = 0, shards: int = 1
    ) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafkalite")
    group.addoption("--campaign", action="store_true", help="run the fault campaigns with their full counts")
    group.addoption("--seed", type=int, help="run only the trial of this seed, as a failure has named it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--campaign"):
        for item in items:
            item.add_marker(pytest.mark.timeout(CAMPAIGN_TIMEOUT_SECONDS))


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """`count(small, large)`: how many trials to run."""
    is_campaign = bool(request.config.getoption("--campaign"))
    return lambda small, large: large if is_campaign else small


@pytest.fixture
def trials(request: pytest.FixtureRequest, count: Callable[[int, int], int]) -> Trials:
    """`trials(trial, small=…, large=…)` calls `trial(seed)` for the seeds 0, 1, …; a failure names its seed.

    A campaign that is split over test cases gives each its `shard` of `shards`.
    """
    only: int | None = request.config.getoption("--seed")

    def run(trial: Callable[[int], None], *, small: int, large: int, shard: int = 0, shards: int = 1) -> None:
        for seed in range(shard, count(small, large), shards) if only is None else [only]:
            try:
                trial(seed)
            except Exception as error:
                error.add_note(f"to repeat this trial alone: pytest '{request.node.nodeid}' --seed {seed}")
                raise

    return run
