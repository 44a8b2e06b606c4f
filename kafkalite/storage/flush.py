"""Making appended batches durable: one fdatasync for all that was appended before it began (group commit).

The log's owner makes a `Flush`, any thread runs it, the owner hands it back to the log. While it runs the owner goes
on appending; what comes meanwhile waits for the next one. After a flush, everything below its end offset
is on disk, and every closed segment below it has its indexes and its snapshot of producers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from kafkalite.storage import disk, layout, producers
from kafkalite.storage.segment import Segment

logger = logging.getLogger(__name__)


class Flush:
    """What is to be made durable: the segments that were written since the last flush, up to `end_offset`."""

    def __init__(
        self, folder: Path, segments: Sequence[Segment], end_offset: int, snapshots: Sequence[tuple[int, bytes]]
    ) -> None:
        self._folder = folder
        self._files = [segment.file for segment in segments]
        self._begins_segments = len(segments) > 1
        # A compaction saves the indexes of what it puts in the place of the segments that it holds.
        self.closed = [segment for segment in segments[:-1] if not segment.is_pinned]
        self._snapshots = snapshots
        self.end_offset = end_offset
        self.error: OSError | None = None
        """Why the batches are not durable; a log that is handed this goes offline."""

    def run(self) -> None:
        """Blocking. Never raises for the disk's sake: the owner learns it from `error`."""
        try:
            for file in self._files:
                disk.sync_data(file)
            if self._begins_segments:
                disk.sync_folder(self._folder)
        except OSError as error:
            self.error = error
            return
        try:
            for segment in self.closed:
                segment.save_indexes()
            for offset, snapshot in self._snapshots:
                producers.write_snapshot(layout.snapshot_file(self._folder, offset), snapshot)
        except OSError as error:
            logger.warning("%s: indexes not saved, they will be made again at the next open: %s", self._folder, error)
