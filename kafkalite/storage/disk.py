"""Every change that storage makes to the file system goes through this module, so that a test can fail or stop any one.

A file descriptor lives in an `OpenFile` and is closed with the last reference to it: a reader that holds a
`FileRange` can finish sending from a segment that has been deleted or replaced meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TEMPORARY = ".tmp"


class OpenFile:
    """A descriptor that closes itself when nobody needs it any more."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        self.path = path
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size


class FileRange(NamedTuple):
    """Bytes of a file, fit for `sendfile`."""

    file: OpenFile
    position: int
    length: int

    def read(self) -> bytes:
        return read_at(self.file, self.position, self.length)


def read_at(file: OpenFile, position: int, length: int) -> bytes:
    """Up to `length` bytes; fewer only where the file ends."""
    data = os.pread(file.fd, length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    while data and (missing := length - sum(map(len, parts))):
        data = os.pread(file.fd, missing, position + length - missing)
        parts.append(data)
    return b"".join(parts)


def write_at(file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
    written = os.pwrite(file.fd, data, position)
    while written < len(data):
        data = memoryview(data)[written:]
        position += written
        written = os.pwrite(file.fd, data, position)


def truncate(file: OpenFile, size: int) -> None:
    os.ftruncate(file.fd, size)


def sync_data(file: OpenFile) -> None:
    """Until this returns, nothing that was written is certain to survive a crash of the machine."""
    os.fdatasync(file.fd)


def sync_folder(folder: Path) -> None:
    """Makes names durable: files created, renamed or removed in this folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def rename(source: Path, target: Path) -> None:
    os.rename(source, target)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def write_new(path: Path, content: bytes | bytearray) -> None:
    """A whole new file, durable in content but not yet in name; what a failure leaves is removed."""
    file = OpenFile(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_at(file, content, 0)
        sync_data(file)
    except OSError:
        remove(path)
        raise


def replace(path: Path, content: bytes | bytearray) -> None:
    """Readers, and a crash, see the old content or the new one, never a part (R4)."""
    temporary = path.with_name(path.name + TEMPORARY)
    write_new(temporary, content)
    rename(temporary, path)
    sync_folder(path.parent)
