"""Waiting for commits, by any number of threads: each is told of every one, and storage is asked once.

`Backend.pause` is a hint for one who waits: what has ended one pause does not end another. So one thread at a
time waits for storage, whichever came first, and counts. Who comes back says up to which count it has looked,
and does not wait at all if there is more.
"""

from __future__ import annotations

import threading
import time

from clew.core.engine.engine import Engine


class Wakes:
    """A service of the engine: `engine.service(Wakes)`."""

    def __init__(self, engine: Engine) -> None:
        self._backend = engine.backend
        self.after_fork()

    def after_fork(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._is_taken = False
        """A thread waits for storage."""
        self._is_stopped = False

    @property
    def count(self) -> int:
        """Up to which one has looked who looks now."""
        return self._count

    def wait(self, seen: int, seconds: float) -> bool:
        """Wait until something may have been written behind this count, but at most so long; whether it may
        have been."""
        deadline = time.monotonic() + seconds
        while True:
            with self._changed:
                while self._is_taken and self._count == seen and not self._is_stopped:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._changed.wait(left)
                if self._count != seen or self._is_stopped:
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._is_taken = True
            self._ask(left)

    def _ask(self, seconds: float) -> None:
        heard = True  # if it fails, the next look tells why
        try:
            heard = self._backend.pause(seconds)
        finally:
            with self._changed:
                self._is_taken = False
                self._count += heard
                self._changed.notify_all()

    def stop(self) -> None:
        """The store is being closed, which ends the pause."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
