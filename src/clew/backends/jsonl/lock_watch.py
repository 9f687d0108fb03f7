"""Waiting until a process has written: the system tells of it, through the file of the store's lock.

A writer marks that file before it writes, and clears the mark when all is committed (see lock). So one watch
on one file tells of every commit, however many logs there are.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from typing import Final

from clew.backends.jsonl import disk
from clew.backends.jsonl.disk import File
from clew.backends.jsonl.lock import AT_WORK
from clew.core.directory_watch import IS_THERE, MODIFIED, Inotify, silent_file_system

AT_WORK_FOR: Final = 0.1
"""Seconds to wait for the end of a commit that has begun; a writer that was killed comes to no end."""


class LockWatch:
    """Opened by the first pause. One thread at a time waits; closing ends its wait."""

    def __init__(self, lock: File) -> None:
        self._lock = lock
        self._begin()

    def _begin(self) -> None:
        self._turn = threading.Lock()
        self._queue: Inotify | None = None
        self._handle: int | None = None
        self._ends: tuple[int, int] | None = None
        self._is_silent = not IS_THERE
        """The system does not tell, here."""
        self._is_closed = False

    def pause(self, seconds: float) -> bool | None:
        """Whether something may have been written; None: that is not told here."""
        if self._is_silent:
            return None
        if not self._turn.acquire(timeout=seconds):
            return False
        try:
            if self._is_closed:
                return True
            if self._queue is None:
                return True if self._open() else None  # what was written before, was not told
            return self._wait(seconds)
        finally:
            self._turn.release()

    def _open(self) -> bool:
        queue = None
        try:
            if silent_file_system(str(self._lock.directory.path)) is not None:
                raise OSError("others may write there without notice")
            self._handle = disk.open_for_reading(self._lock)
            queue = Inotify()
            queue.add_named(os.fsencode(str(self._lock)), MODIFIED, is_file=True)
            self._ends = self._ends or os.pipe()
        except OSError:
            if queue is not None:
                queue.close()
            self._drop()
            self._is_silent = True
            return False
        self._queue = queue
        return True

    def _wait(self, seconds: float) -> bool:
        assert self._queue is not None
        assert self._ends is not None
        poll = select.poll()
        poll.register(self._queue.fd, select.POLLIN)
        poll.register(self._ends[0], select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        end = time.monotonic() + AT_WORK_FOR
        while not self._is_closed:
            if any(event.mask & ~MODIFIED for event in self._queue.read()):
                self._drop()  # the file was removed, or too much happened: the next one opens it again
                return True
            left = end - time.monotonic()
            if left <= 0 or not self._is_marked():
                return True
            poll.poll(left * 1000)
        return True

    def _is_marked(self) -> bool:
        return self._handle is not None and disk.read_at(self._handle, 1, 0) == AT_WORK

    def _drop(self) -> None:
        queue, self._queue = self._queue, None
        handle, self._handle = self._handle, None
        if queue is not None:
            queue.close()
        if handle is not None:
            disk.close(handle)

    def _drop_ends(self) -> None:
        ends, self._ends = self._ends, None
        for end in ends or ():
            os.close(end)

    def abandon(self) -> None:
        """In a forked child: what the parent has open is closed here, and opened again if it is needed."""
        with suppress(OSError):
            self._drop()
            self._drop_ends()
        was_closed = self._is_closed
        self._begin()
        self._is_closed = was_closed

    def close(self) -> None:
        """Idempotent."""
        self._is_closed = True
        ends = self._ends
        if ends is not None:
            with suppress(OSError):
                os.write(ends[1], b"x")
        if self._turn.acquire(timeout=1):  # a signal handler may close it in the midst of a pause
            self._drop()
            self._drop_ends()
            self._turn.release()
