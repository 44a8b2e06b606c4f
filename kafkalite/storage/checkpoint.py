"""What a log must know beyond its segment files, in one small file that is replaced whole.

Lines of text, so that an operator can read it; the last one is the CRC-32C of the others. A file that is missing or
damaged reads as None: the log then checks everything from its first batch on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from kafkalite.storage import disk, layout
from kafkalite.storage.epochs import EpochStart

_TITLE: Final = "kafkalite log checkpoint 1"


class Checkpoint(NamedTuple):
    """The state of a log at one moment."""

    recovery_point: int
    """Everything below this offset is on disk for certain; what lies above it is checked when the log opens."""
    log_start_offset: int
    high_watermark: int
    cleaned_to: int
    """Compaction has been through everything below this offset."""
    epochs: tuple[EpochStart, ...] = ()


def write(folder: Path, checkpoint: Checkpoint) -> None:
    lines = [_TITLE]
    lines += [f"{name} {value}" for name, value in checkpoint._asdict().items() if name != "epochs"]
    lines += [f"epoch {entry.epoch} {entry.start_offset}" for entry in checkpoint.epochs]
    text = "\n".join(lines) + "\n"
    disk.replace(layout.checkpoint_file(folder), (text + f"crc32c {crc32c(text.encode()):08x}\n").encode())


def read(folder: Path) -> Checkpoint | None:
    try:
        content = layout.checkpoint_file(folder).read_bytes()
    except FileNotFoundError:
        return None
    body, separator, last = content[:-1].rpartition(b"\n")
    body += separator
    if last != f"crc32c {crc32c(body):08x}".encode() or not content.endswith(b"\n"):
        return None
    title, *lines = body.decode().splitlines()
    if title != _TITLE:
        return None
    words = [line.split() for line in lines]
    values = {name: int(value) for name, value, *rest in words if not rest}
    epochs = tuple(EpochStart(int(w[1]), int(w[2])) for w in words if w[0] == "epoch")
    return Checkpoint(epochs=epochs, **values)
