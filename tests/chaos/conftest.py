"""Fixtures of the fault campaigns."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def quietly() -> Iterator[None]:
    """For trials by the thousand, each of which makes the storage complain of what the test has done to it."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For trials that damage files themselves: nothing crashes there, so waiting for the disk would prove nothing."""
    monkeypatch.setattr(os, "fdatasync", lambda _fd: None)
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
