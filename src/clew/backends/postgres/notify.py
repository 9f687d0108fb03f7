"""Notices between processes: `Notifier` says that something was written, `Listener` waits for it. Only hints.

A writer does not wait for its notice: a NOTIFY within an append would make all commits of the database wait
for each other. A thread sends it afterwards, one notice for all writes in the meantime.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Final

import psycopg

from clew.backends.contract import BLIND
from clew.backends.postgres import sql
from clew.backends.postgres.connection import ServerConnection
from clew.backends.postgres.rows import lock_key
from clew.errors import ClewError

PAUSE: Final = 0.05
"""Seconds between two notices of one process, at least."""


def channel_of(schema: sql.Schema) -> str:
    """Channels belong to a database: each schema has one of its own."""
    return f"clew_{lock_key(schema.name) + (1 << 63):016x}"


class Notifier:
    """Sends a notice after commits, in a thread that starts with the first one."""

    def __init__(
        self, borrow: Callable[[], AbstractContextManager[ServerConnection]], schema: sql.Schema
    ) -> None:
        self._borrow = borrow
        self._channel = channel_of(schema)
        self._wakes = threading.Event()
        self._stopping = threading.Event()
        self._is_due = False
        self._thread: threading.Thread | None = None

    def notify(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="clew-notify", daemon=True)
            self._thread.start()
        if not self._is_due:
            self._is_due = True
            self._wakes.set()

    def stop(self) -> None:
        """End the thread. A notice that is due is still sent."""
        self._stopping.set()
        self._wakes.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2 * PAUSE)

    def _run(self) -> None:
        while True:
            self._wakes.wait()
            self._wakes.clear()
            if self._is_due:
                self._is_due = False
                with suppress(ClewError, psycopg.Error):  # listeners also look from time to time
                    self._send()
            if self._stopping.wait(PAUSE) and not self._is_due:
                return

    def _send(self) -> None:
        with self._borrow() as connection, connection.pipeline():
            connection.execute(sql.BEGIN.encode())
            connection.execute(sql.COMMIT_WITHOUT_WAITING.encode())
            connection.execute(sql.NOTIFY.encode(), (self._channel,))
            connection.execute(sql.COMMIT.encode())


class Listener:
    """Listens on a connection of its own, which the first call opens. One thread at a time waits for the
    server; others that come meanwhile wait for that thread."""

    def __init__(self, connect: Callable[[], ServerConnection], schema: sql.Schema) -> None:
        self._connect = connect
        self._listen = sql.listen(channel_of(schema))
        self._connection: ServerConnection | None = None
        self._is_deaf = False
        """The server refuses LISTEN, as a standby does."""
        self._changed = threading.Condition()
        self._is_taken = False
        self._turns = 0
        self._closed = False
        self._ends: tuple[int, int] | None = None

    def listen(self, seconds: float) -> bool:
        """Wait for a notice, but at most so long. True: there was one, or one may have been missed."""
        with self._changed:
            turn = self._turns
            if self._is_taken:
                return self._changed.wait_for(lambda: self._turns != turn or self._closed, seconds)
            self._is_taken = True
        heard = True
        try:
            heard = self._wait(seconds)
        finally:
            with self._changed:
                self._is_taken = False
                self._turns += 1
                self._changed.notify_all()
        return heard

    def _wait(self, seconds: float) -> bool:
        if self._connection is None and self._open():
            return True  # something may have been written before we listened
        if self._connection is None or self._ends is None:
            time.sleep(min(seconds, BLIND))
            return True
        poll = select.poll()
        poll.register(self._connection.pgconn.socket, select.POLLIN)
        poll.register(self._ends[0], select.POLLIN)
        heard = bool(poll.poll(seconds * 1000))
        if heard and not self._closed:
            self._hear(self._connection)
        return heard

    def _open(self) -> bool:
        if self._is_deaf or self._closed:
            return False
        try:
            connection = self._connect()
        except ClewError:
            return False
        try:
            connection.execute(self._listen.encode())
        except psycopg.Error as exc:
            self._is_deaf = exc.sqlstate is not None
            connection.close()
            return False
        if self._ends is None:
            self._ends = os.pipe()
        self._connection = connection
        return True

    def _hear(self, connection: ServerConnection) -> None:
        try:
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                pass
        except psycopg.Error:
            connection.close()
            self._connection = None  # the next call opens another

    def abandon(self) -> None:
        """In a forked child."""
        if self._connection is not None:
            self._connection.abandon()
        self._drop_ends()

    def _drop_ends(self) -> None:
        ends, self._ends = self._ends, None
        for end in ends or ():
            os.close(end)

    def close(self) -> None:
        self._closed = True
        if self._ends is not None:
            os.write(self._ends[1], b"x")
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_taken, 1)
        self._drop_ends()
        if self._connection is not None:
            self._connection.close()
