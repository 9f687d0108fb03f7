"""Dying at a chosen change: every call that changes a tree, and everything that SQLite writes, is one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import apsw

CHANGING = ("mkdir", "rmdir", "unlink", "rename", "link", "symlink", "fchmod", "fsync")


class Executioner:
    """Counts changes, and kills the process at the one with the given number (from 1)."""

    def __init__(self, when: int) -> None:
        self.when = when
        self.count = 0

    def is_time(self) -> bool:
        self.count += 1
        return self.count == self.when

    def strike(self) -> None:
        if self.is_time():
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # it arrives at the latest here, and this thread does nothing more


def watch(executioner: Executioner) -> None:
    """From now on each change of this process counts."""
    for name in CHANGING:
        setattr(os, name, _deadly(getattr(os, name), executioner))
    really_open, really_write = os.open, os.write

    def open(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_CREAT:
            executioner.strike()
        return really_open(path, flags, *args, **more)

    def write(fd: int, content: Any) -> int:
        if executioner.is_time():  # in the middle of it
            really_write(fd, bytes(content)[: len(content) // 2])
            die()
        return really_write(fd, content)

    os.open, os.write = open, write
    _DeadlyVfs(executioner)


def _deadly(call: Callable[..., Any], executioner: Executioner) -> Callable[..., Any]:
    def instead(*args: Any, **more: Any) -> Any:
        executioner.strike()
        return call(*args, **more)

    return instead


_vfs: list[apsw.VFS] = []


class _DeadlyVfs(apsw.VFS):
    def __init__(self, executioner: Executioner) -> None:
        super().__init__("deadly", base="unix", makedefault=True)
        self.executioner = executioner
        _vfs.append(self)  # for as long as this process lives

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _DeadlyFile(self.executioner, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.executioner.strike()
        super().xDelete(filename, syncdir)


class _DeadlyFile(apsw.VFSFile):
    def __init__(
        self, executioner: Executioner, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("unix", name, flags)
        self._executioner = executioner

    def xWrite(self, data: Any, offset: int) -> None:
        if self._executioner.is_time():
            super().xWrite(bytes(data)[: len(data) // 2], offset)
            die()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._executioner.strike()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._executioner.strike()
        super().xSync(flags)
