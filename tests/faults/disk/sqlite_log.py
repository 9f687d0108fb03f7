"""A disk that remembers all that SQLite tells it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import apsw
import msgspec

EventKind: TypeAlias = Literal["create", "write", "truncate", "sync", "delete", "mark"]


class Event(msgspec.Struct, frozen=True):
    """Something that the disk was told, or a mark that the workload made."""

    kind: EventKind
    file: str = ""
    """The name without its directory; of a mark, what it says."""
    offset: int = 0
    """Of a write; of a truncation, the new size; of a deletion, 1 if the directory was synced."""
    data: bytes = b""


class Disk:
    """The record of a disk. `mark` notes what the workload did, between the writes."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def mark(self, label: str) -> None:
        self.events.append(Event("mark", label))


class _RecordingVfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk, *, lying: bool) -> None:
        super().__init__(name, base="unix", makedefault=True)
        self.disk, self.lying = disk, lying

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _RecordingFile(self.disk, name, flags, lying=self.lying)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.disk.events.append(Event("delete", os.path.basename(filename), int(syncdir)))


class _RecordingFile(apsw.VFSFile):
    def __init__(
        self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int], *, lying: bool
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        is_new = path is not None and not os.path.exists(path)
        super().__init__("unix", name, flags)
        self._disk, self._lying = disk, lying
        self._file = os.path.basename(path) if path else ""
        if self._file and is_new:
            disk.events.append(Event("create", self._file))

    def _note(self, kind: EventKind, offset: int = 0, data: bytes = b"") -> None:
        if self._file:  # files without a name are temporary: no crash matters to them
            self._disk.events.append(Event(kind, self._file, offset, data))

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._note("write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._note("truncate", newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        if not self._lying:
            self._note("sync")


_numbers = itertools.count(1)


@contextmanager
def recording(*, lying: bool = False) -> Iterator[Disk]:
    """Record all that SQLite writes in this process while the block runs. Close what you open in it.

    `lying` disks say that they synced and did not: a test that finds nothing wrong with one is none.
    """
    disk = Disk()
    before = apsw.vfs_names()[0]
    vfs = _RecordingVfs(f"clew-recorder-{next(_numbers)}", disk, lying=lying)
    try:
        yield disk
    finally:
        apsw.set_default_vfs(before)
        vfs.unregister()
