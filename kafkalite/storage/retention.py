"""Which old segments go: PURE decisions on time, size and the log's start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafkalite.config import TopicConfig


class _Sized(Protocol):
    """What a decision needs to know of a segment."""

    next_offset: int
    size: int

    @property
    def max_timestamp(self) -> int: ...


def count_expired(
    segments: Sequence[_Sized], config: TopicConfig, *, now_ms: int, log_start_offset: int, high_watermark: int
) -> int:
    """How many segments from the oldest on may go. What has not reached the high watermark never does."""
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        if segment.next_offset > high_watermark or not (
            segment.next_offset <= log_start_offset
            or (config.deletes_old_segments and _is_too_old(segment, config.retention_ms, now_ms))
            or (config.deletes_old_segments and config.retention_bytes >= 0 and excess_bytes >= segment.size)
        ):
            break
        excess_bytes -= segment.size
        count += 1
    return count


def _is_too_old(segment: _Sized, retention_ms: int, now_ms: int) -> bool:
    return segment.size > 0 and 0 <= retention_ms < now_ms - segment.max_timestamp
