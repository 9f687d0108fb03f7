"""The lock of a store: one writer at a time, in whatever process; and a mark that a writer was at work.

The file is never removed: two processes that lock two files of one name exclude nobody. Where the
system has no such locks, nothing is written.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from clew.backends.jsonl import disk
from clew.errors import BackendUnavailableError, StoreBusyError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_AT_WORK: Final = b"!"
_AT_REST: Final = b"."
_LONGEST_PAUSE: Final = 0.01


class StoreLock:
    """`flock` on a file of its own. Threads of one process are kept apart by the backend."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self.is_held = False

    def acquire(self, timeout: float) -> None:
        """Wait for it; StoreBusyError when others held it for the whole time."""
        if fcntl is None:
            raise BackendUnavailableError(f"this system can not lock files: {self._path}")
        if self._handle is None:
            self._handle = disk.open_for_patching(self._path)
        deadline = time.monotonic() + timeout
        pause = 0.0002
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.is_held = True
                return
            except BlockingIOError as exc:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise StoreBusyError(
                        f"others held {self._path} for {timeout:g} s: nothing was written; try again"
                    ) from exc
                jitter = os.urandom(1)[0] / 255
                time.sleep(min(left, pause / 2 * (1 + jitter)))
                pause = min(pause * 1.5, _LONGEST_PAUSE)
            except OSError as exc:
                raise BackendUnavailableError(f"can not lock {self._path}: {exc}") from exc

    def release(self) -> None:
        if self.is_held and self._handle is not None:
            self.is_held = False
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    @property
    def is_marked(self) -> bool:
        """Whether the last writer did not come to its end: what it wrote must be looked at first."""
        return self._handle is not None and disk.read_at(self._handle, 1, 0) == _AT_WORK

    def mark(self) -> None:
        assert self._handle is not None
        disk.write_at(self._handle, _AT_WORK, 0)

    def clear(self) -> None:
        assert self._handle is not None
        disk.write_at(self._handle, _AT_REST, 0)

    def close(self) -> None:
        """Also in a forked child, which has the parent's lock in its hands as long as this is open."""
        handle, self._handle, self.is_held = self._handle, None, False
        if handle is not None:
            disk.close(handle)
