"""A disk that remembers all that SQLite tells it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from tests.faults.disk.file_log import FileEvent, FileEventKind


class Disk:
    """The record of a disk. `mark` notes what the workload did, between the writes."""

    def __init__(self) -> None:
        self.events: list[FileEvent] = []

    def mark(self, label: str) -> None:
        self.events.append(FileEvent("mark", label))


class _RecordingVfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk, *, lying: bool) -> None:
        super().__init__(name, base="unix", makedefault=True)
        self.disk, self.lying = disk, lying

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _RecordingFile(self.disk, name, flags, lying=self.lying)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.disk.events.append(FileEvent("remove", os.path.basename(filename)))
        if syncdir:
            self.disk.events.append(FileEvent("sync", "."))


class _RecordingFile(apsw.VFSFile):
    def __init__(
        self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int], *, lying: bool
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._is_new = path is not None and not os.path.exists(path)
        super().__init__("unix", name, flags)
        self._disk, self._lying = disk, lying
        self._file = os.path.basename(path) if path else ""
        if self._is_new:
            self._note("create")

    def _note(self, kind: FileEventKind, offset: int = 0, data: bytes = b"") -> None:
        if self._file:  # files without a name are temporary: no crash matters to them
            self._disk.events.append(FileEvent(kind, self._file, offset, data))

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._note("write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._note("truncate", newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        if self._lying:
            return
        self._note("sync")
        if self._is_new:  # with the first sync of a new journal or log SQLite syncs the directory
            self._is_new = False
            self._disk.events.append(FileEvent("sync", "."))


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
