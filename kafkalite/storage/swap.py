"""Replacing segments by a compacted one, so that a crash at any point leaves the old ones or the new one.

    1  NAME.cleaned, complete and durable, is renamed to NAME.swap        from here on the result counts
    2  the replaced segments' files go, but for the first one's log
    3  NAME.swap is renamed over the first one's log

`finish` (steps 2 and 3) is also what the next open does if it finds a .swap file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkalite.storage import disk, layout
from kafkalite.storage.layout import Swap


def commit(folder: Path, cleaned: Path, replaced: Sequence[int], end_offset: int) -> None:
    """Put a complete .cleaned file in the place of the segments with these base offsets. Blocking."""
    swap = Swap(layout.swap_file(folder, replaced[0], end_offset), replaced[0], end_offset)
    disk.rename(cleaned, swap.path)
    disk.sync_folder(folder)
    finish(folder, swap, replaced)


def finish(folder: Path, swap: Swap, replaced: Sequence[int]) -> None:
    """Steps 2 and 3; may be repeated after a crash."""
    kept = (layout.log_file(folder, swap.base_offset), layout.snapshot_file(folder, swap.base_offset))
    for base_offset in replaced:
        for path in layout.segment_files(folder, base_offset):
            if path not in kept:
                disk.remove(path)
    disk.sync_folder(folder)
    disk.rename(swap.path, layout.log_file(folder, swap.base_offset))
    disk.sync_folder(folder)
