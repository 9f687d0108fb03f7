"""The connections that readers borrow.

Not psycopg_pool: that connects in threads of its own, so a server that is down shows itself as a time-out
without a reason, and a fork leaves threads behind. Here the one who asks connects, and hears why it failed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg

from clew.backends.postgres.connection import ServerConnection
from clew.errors import StoreBusyError


class Pool:
    """At most `size` connections at a time; the one given back last is used first."""

    def __init__(
        self, connect: Callable[[], ServerConnection], size: int, timeout: float, location: str
    ) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._location = location
        self._changed = threading.Condition()
        self._idle: list[ServerConnection] = []
        self._borrowed: set[ServerConnection] = set()
        self._connecting = 0
        self._paused = False
        self._closed = False

    @property
    def in_use(self) -> int:
        return len(self._borrowed) + self._connecting

    def take(self) -> ServerConnection:
        with self._changed:
            if not self._changed.wait_for(self._has_room, self._timeout):
                raise StoreBusyError(
                    f"all {self._size} connections to {self._location} were in use for {self._timeout:g} s;"
                    " give the store a larger pool, as in ?pool=32"
                )
            while self._idle:
                line = self._idle.pop()
                if line.is_alive():
                    self._borrowed.add(line)
                    return line
                line.close()
            self._connecting += 1
        try:
            line = self._connect()
            with self._changed:
                self._borrowed.add(line)
            return line
        finally:
            with self._changed:
                self._connecting -= 1
                self._changed.notify()

    def _has_room(self) -> bool:
        return not self._paused and self.in_use < self._size

    def give(self, line: ServerConnection) -> None:
        with self._changed:
            self._borrowed.discard(line)
            if line.is_idle and not self._closed:
                self._idle.append(line)
            else:
                line.close()
            self._changed.notify()

    def pause(self, timeout: float) -> bool:
        """Let nobody in, and wait until all are out; whether they are."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._paused = True
        while self.in_use and time.monotonic() < deadline:
            time.sleep(0.0005)
        return not self.in_use

    def resume(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def abandon(self) -> None:
        """In a forked child."""
        for line in (*self._idle, *self._borrowed):
            line.abandon()
        self._idle.clear()
        self._borrowed.clear()

    def close(self) -> None:
        """For ever: what is given back from now on is closed too."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        with self._changed:
            lines, self._idle = self._idle, []
        for line in lines:
            try:
                line.close()
            except psycopg.Error:
                pass
