"""The locks of a store: one writer at a time, in whatever process, and a mark that a writer was at work;
and a process that rewrites logs waits while another one reads all of them.

The files are never removed: two processes that lock two files of one name do not exclude each other.
Where the system has no such locks, nothing is written.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import File
from clew.errors import BackendUnavailableError, StoreBusyError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

AT_WORK: Final = b"!"
"""What the file holds while a writer is at work,"""
AT_REST: Final = b"."
"""and when it is done."""
_LONGEST_PAUSE: Final = 0.003


class StoreLock:
    """`flock` on a file of its own. Threads of one process are kept apart by the backend."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._handle: int | None = None
        self.is_held = False

    def acquire(self, timeout: float) -> None:
        """Wait for it; StoreBusyError when others held it for the whole time."""
        if fcntl is None:
            raise BackendUnavailableError(f"this system cannot lock files: {self._file}")
        if self._handle is None:
            self._handle = disk.open_for_patching(self._file)
        _lock(self._handle, fcntl.LOCK_EX, self._file, timeout, "nothing was written; try again")
        self.is_held = True

    def release(self) -> None:
        if self.is_held and self._handle is not None:
            self.is_held = False
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    @property
    def is_marked(self) -> bool:
        """Whether the last writer did not come to its end: what it wrote must be looked at first."""
        return self._handle is not None and disk.read_at(self._handle, 1, 0) == AT_WORK

    def mark(self) -> None:
        assert self._handle is not None
        disk.write_at(self._handle, AT_WORK, 0)

    def clear(self) -> None:
        assert self._handle is not None
        disk.write_at(self._handle, AT_REST, 0)

    def close(self) -> None:
        """Also in a forked child, which has the parent's lock in its hands as long as this is open."""
        handle, self._handle, self.is_held = self._handle, None, False
        if handle is not None:
            disk.close(handle)


class SnapshotLock:
    """Shared by processes that read all logs as they are at one moment; held alone by one that rewrites them,
    or removes what they name."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._handles: set[int] = set()

    @contextmanager
    def shared(self, timeout: float, begin: Callable[[Callable[[], None]], None]) -> Iterator[None]:
        """`begin` takes it while no process is about to have it alone. A disk that is only read has none."""
        taken: list[int] = []

        def take() -> None:
            try:
                handle = disk.open_for_patching(self._file)
            except OSError as exc:
                if exc.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                    return
                raise
            taken.append(handle)
            self._handles.add(handle)
            with suppress(BackendUnavailableError):  # no locks there: then nothing is written either
                _lock(handle, fcntl.LOCK_SH, self._file, timeout, "nothing was read; try again")

        try:
            begin(take)
            yield
        finally:
            for handle in taken:
                self._release(handle)

    @contextmanager
    def alone(self, timeout: float, otherwise: str) -> Iterator[None]:
        """StoreBusyError, which says `otherwise`, when others read for the whole time."""
        handle = disk.open_for_patching(self._file)
        self._handles.add(handle)
        try:
            _lock(handle, fcntl.LOCK_EX, self._file, timeout, otherwise)
            yield
        finally:
            self._release(handle)

    def _release(self, handle: int) -> None:
        if handle in self._handles:
            self._handles.discard(handle)
            disk.close(handle)

    def close(self) -> None:
        """In a forked child: what it inherits is held as long as this is open."""
        while self._handles:
            disk.close(self._handles.pop())


def _lock(handle: int, how: int, file: File, timeout: float, otherwise: str) -> None:
    """Wait for a lock; StoreBusyError when others held it for the whole time."""
    if fcntl is None:
        raise BackendUnavailableError(f"this system cannot lock files: {file}")
    deadline = time.monotonic() + timeout
    pause = 0.0002
    while True:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
            return
        except BlockingIOError as exc:
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreBusyError(f"others held {file} for {timeout:g} s: {otherwise}") from exc
            jitter = os.urandom(1)[0] / 255
            time.sleep(min(left, pause / 2 * (1 + jitter)))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        except OSError as exc:
            raise BackendUnavailableError(f"cannot lock {file}: {exc}") from exc
