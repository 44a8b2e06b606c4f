"""Opening a log in the test's folder, as often as the test likes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.config import TopicConfig
from kafkalite.model import TopicPartition
from kafkalite.storage.log import PartitionLog
from kafkalite.storage.open_segments import OpenSegments

OpenLog = Callable[..., PartitionLog]


@pytest.fixture
def open_log(tmp_path: Path) -> OpenLog:
    """`open_log(segment_bytes=…)`: the log of this test, opened (again) with these topic options."""

    def open_log(**options: Any) -> PartitionLog:
        config = TopicConfig(**options)
        return PartitionLog(TopicPartition("t", 0), tmp_path / "t-0", config, now_ms=0, open_segments=OpenSegments(2))

    return open_log
