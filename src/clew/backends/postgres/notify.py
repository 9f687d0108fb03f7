"""Telling others that something was written, and hearing it from them: hints, outside of all transactions.

A writer does not wait for it: a NOTIFY within an append would make all commits of the database wait for
each other. A thread tells it afterwards, for all that was written meanwhile.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from clew.backends.postgres.connection import ServerConnection
from clew.backends.postgres.pool import Pool
from clew.backends.postgres.rows import lock_key
from clew.backends.postgres.sql import Schema
from clew.errors import ClewError

PAUSE: Final = 0.05
"""Seconds between two notices of one process, at least."""
_ASYNC: Final = "SET LOCAL synchronous_commit = off"  # there is nothing to lose


def channel_of(schema: Schema) -> str:
    """Channels belong to a database: each schema has one of its own."""
    return f"clew_{lock_key(schema.name) + (1 << 63):016x}"


class Notifier:
    """Rung after a commit. The thread that tells the others starts with the first ring."""

    def __init__(self, pool: Pool, schema: Schema) -> None:
        self._pool = pool
        self._channel = channel_of(schema)
        self._rung = threading.Event()
        self._stopping = threading.Event()
        self._is_due = False
        self._thread: threading.Thread | None = None

    def ring(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="clew-notify", daemon=True)
            self._thread.start()
        if not self._is_due:
            self._is_due = True
            self._rung.set()

    def stop(self) -> None:
        """What was written last is still told."""
        self._stopping.set()
        self._rung.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2 * PAUSE)

    def _run(self) -> None:
        while True:
            self._rung.wait()
            self._rung.clear()
            if self._is_due:
                self._is_due = False
                with suppress(ClewError, psycopg.Error):  # whoever listens looks from time to time anyway
                    self._tell()
            if self._stopping.wait(PAUSE) and not self._is_due:
                return

    def _tell(self) -> None:
        line = self._pool.take()
        try:
            with line.pipeline():
                line.execute("BEGIN")
                line.execute(_ASYNC)
                line.execute("SELECT pg_catalog.pg_notify($1, '')", (self._channel,))
                line.execute("COMMIT")
        finally:
            self._pool.give(line)


class Listener:
    """Listens on a connection of its own, which is opened when somebody listens first. One thread at a time
    waits for the server; others that come meanwhile wait for that one."""

    def __init__(self, connect: Callable[[], ServerConnection], schema: Schema) -> None:
        self._connect = connect
        self._listen = f'LISTEN "{channel_of(schema)}"'
        self._line: ServerConnection | None = None
        self._is_deaf = False
        """The server does not let us listen: a standby does not."""
        self._changed = threading.Condition()
        self._is_taken = False
        self._turns = 0
        self._closed = False
        self._ends: tuple[int, int] | None = None

    def listen(self, seconds: float) -> None:
        """Until something is heard, or so long."""
        with self._changed:
            turn = self._turns
            if self._is_taken:
                self._changed.wait_for(lambda: self._turns != turn or self._closed, seconds)
                return
            self._is_taken = True
        try:
            self._wait(seconds)
        finally:
            with self._changed:
                self._is_taken = False
                self._turns += 1
                self._changed.notify_all()

    def _wait(self, seconds: float) -> None:
        if self._line is None and self._open():
            return  # something may have been written before we listened
        if self._line is None or self._ends is None:
            time.sleep(seconds)
            return
        poll = select.poll()
        poll.register(self._line.pgconn.socket, select.POLLIN)
        poll.register(self._ends[0], select.POLLIN)
        if poll.poll(seconds * 1000) and not self._closed:
            self._hear(self._line)

    def _open(self) -> bool:
        if self._is_deaf or self._closed:
            return False
        try:
            line = self._connect()
        except ClewError:
            return False
        try:
            line.execute(self._listen.encode())
        except psycopg.Error as exc:
            self._is_deaf = exc.sqlstate is not None
            line.close()
            return False
        if self._ends is None:
            self._ends = os.pipe()
        self._line = line
        return True

    def _hear(self, line: ServerConnection) -> None:
        try:
            line.pgconn.consume_input()
            while line.pgconn.notifies() is not None:
                pass
        except psycopg.Error:
            line.close()
            self._line = None  # the next to listen opens another

    def abandon(self) -> None:
        """In a forked child."""
        if self._line is not None:
            self._line.abandon()
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
        if self._line is not None:
            self._line.close()
