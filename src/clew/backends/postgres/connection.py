"""A connection to the server that keeps deadlines, and calls nobody's functions but the server's own.

Where functions, operators and types are looked for is the owner's of a database to set, and with it whose
code runs under our rights. So we set it: once, or for each transaction where a pooler gives the sessions of
the server to others in between, for whom no state may be left in them.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from clew.backends.postgres.address import Address, parse_address
from clew.backends.postgres.rows import Row, register
from clew.backends.postgres.sql import Guarded
from clew.errors import (
    BackendError,
    BackendUnavailableError,
    ClewError,
    DiskFullError,
    InvalidEntryError,
    ReadOnlyError,
    StoreBusyError,
)

# A connection that is lost is ours to deal with. Who has set up logging sees what the driver says about it;
# who has not must not find it on the screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Statement = tuple[str, Sequence[Any]]

PATH: Final = "pg_catalog, pg_temp"
"""Where names are looked for that have no schema before them. All of ours have one. What is temporary would
come first if it were not named."""
_KEEP_PATH: Final = (
    "SELECT CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1"
    f" THEN pg_catalog.set_config('search_path', '{PATH}', false) END"
)
"""For the session, if it is ours alone: a pooler tells its clients another number than the server has."""
_LEND_PATH: Final = f"SELECT pg_catalog.set_config('search_path', '{PATH}', true)"
_LEND_PATH_WITHIN: Final = f"SET LOCAL search_path = {PATH}"
GRACE: Final = 0.2
"""The part of a deadline that is kept for asking the server to stop."""


class DeadlineError(psycopg.OperationalError):
    """The server did not answer in time, nor when it was asked to stop."""


class StaleRowError(psycopg.Error):
    """A guarded statement found something else than was remembered, and did nothing."""

    def __init__(self, sql: str) -> None:
        super().__init__("somebody else changed a row")
        self.sql = sql


class ServerConnection(psycopg.Connection[Row]):
    """One connection, in autocommit: transactions are begun and ended by statements of ours."""

    patience = 10.0
    prepares = False
    """The session of the server is ours alone: statements can be prepared, and the path is set."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """As the driver waits, but not for ever."""
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
        """The driver asks several times a second with nothing in hand: then look at the clock. A long
        answer may take its time, if only something comes."""
        heard, cancelled = time.monotonic(), False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready and not cancelled:
                    heard = now
                elif now - heard >= self.patience:
                    self.pgconn.finish()  # nobody knows what it is doing
                    raise DeadlineError(f"no answer within {self.patience:g} s")
                elif now - heard >= self.patience * (1 - GRACE) and not cancelled:
                    cancelled = True
                    self._ask_to_stop()
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value

    @contextmanager
    def taking_its_time(self, patience: float) -> Iterator[None]:
        """For what is known to take long."""
        usual, self.patience = self.patience, max(patience, self.patience)
        try:
            yield
        finally:
            self.patience = usual

    def _ask_to_stop(self) -> None:
        try:
            self.cancel_safe(timeout=max(GRACE * self.patience / 2, 0.1))
        except psycopg.Error:
            pass  # then the deadline ends it

    def run(self, statements: Sequence[Statement]) -> None:
        """Send statements in one go. Outside of a transaction they are one: all of them or none.

        StaleRowError if a guarded one did nothing. The others were carried out.
        """
        _judge(statements, self._send(statements))

    def ask(self, sql: str, given: Sequence[Any], *, after: Sequence[Statement] = ()) -> list[Row]:
        """The rows of a question, sent in one go with what has to happen before it."""
        if not after and self.prepares:
            return self._execute(sql, given).fetchall()
        *before, cursor = self._send([*after, (sql, given)])
        _judge(after, before)
        return cursor.fetchall()

    @contextmanager
    def transacting(self) -> Iterator[None]:
        """All of the block or nothing."""
        with self.transaction():
            if not self.prepares:
                self.execute(_LEND_PATH_WITHIN.encode())
            yield

    def _send(self, statements: Sequence[Statement]) -> list[psycopg.Cursor[Row]]:
        lent = None
        if not self.prepares and self.is_idle and not statements[0][0].startswith("VACUUM"):
            lent = int(statements[0][0].startswith("BEGIN"))
            path = _LEND_PATH_WITHIN if lent else _LEND_PATH
            statements = [*statements[:lent], (path, ()), *statements[lent:]]
        if len(statements) == 1:
            return [self._execute(*statements[0])]
        with self.pipeline():
            cursors = [self._execute(*statement) for statement in statements]
        if lent is not None:
            del cursors[lent]
        return cursors

    def _execute(self, sql: str, given: Sequence[Any]) -> psycopg.Cursor[Row]:
        cursor = self.cursor(binary=True)
        return cursor.execute(sql.encode(), given, prepare=self.prepares)

    @property
    def is_idle(self) -> bool:
        """Whether it can be used again."""
        return not self.closed and self.pgconn.transaction_status == TransactionStatus.IDLE

    def is_alive(self) -> bool:
        """An idle connection on which something came was ended by the server."""
        if not self.is_idle or self.pgconn.status != ConnStatus.OK:
            return False
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return not poll.poll(0)

    def abandon(self) -> None:
        """In a forked child: let go of it without a word to the server, with whom the parent talks."""
        if not self.closed:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, self.pgconn.socket)
            os.close(nothing)
            self.pgconn.finish()


def _judge(statements: Sequence[Statement], cursors: Sequence[psycopg.Cursor[Row]]) -> None:
    for (sql, _), cursor in zip(statements, cursors, strict=True):
        if isinstance(sql, Guarded):
            ((verdict,),) = cursor.fetchall()
            if not verdict:
                raise StaleRowError(sql)


def connect(conninfo: str, timeout: float, *, prepares: bool) -> ServerConnection:
    """Connect. `timeout` is for connecting, and then for each answer. `prepares`: if no pooler is noticed."""
    line = ServerConnection.connect(
        conninfo,
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
        **_defaults(conninfo, timeout),
    )
    try:
        line.patience = timeout
        # One type for all numbers: else each statement is prepared anew for every size of number.
        line.adapters.register_dumper(int, Int8BinaryDumper)
        register(line)
        if prepares:
            ((path,),) = line.execute(_KEEP_PATH, (line.info.backend_pid,)).fetchall()
            line.prepares = path is not None
        return line
    except BaseException:
        line.close()
        raise


def _defaults(conninfo: str, timeout: float) -> dict[str, Any]:
    """What the address does not say itself."""
    ours = {
        "application_name": "clew",
        "client_encoding": "UTF8",
        "connect_timeout": max(2, round(timeout)),  # libpq takes whole seconds, from 2 on
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(timeout * 1000),
    }
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    return {name: value for name, value in ours.items() if name not in given}


# ── From the errors of the driver to ours ─────────────────────────────────────────────────────────

CHANGED: Final = (
    StaleRowError,
    errors.UniqueViolation,
    errors.DeadlockDetected,
    errors.SerializationFailure,
)
"""Somebody else was faster; nothing was written, and the same operations can be run again."""

FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""A pooler gave us another session of the server than the one in which a statement was prepared."""

REFUSED: Final = (errors.AdminShutdown, errors.CannotConnectNow)
"""The server says goodbye in the place of an answer: the statement was not carried out."""

_BUSY: Final = (
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.TooManyConnections,
    errors.IdleInTransactionSessionTimeout,
)


def is_lost(exc: BaseException | None) -> bool:
    """The connection is gone, and with it the answer to whatever was sent."""
    if isinstance(exc, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow | DeadlineError):
        return True
    # An error that the server reports has a state; one without is of the connection itself.
    return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError) and exc.sqlstate is None


def censored(exc: BaseException, address: Address) -> str:
    text = str(exc).strip()
    for secret in address.secrets:
        text = text.replace(secret, "***")
    return text


def translate(exc: psycopg.Error, address: Address) -> ClewError:
    """The error of ours that says what `exc` means to a user."""
    detail = f"{address.shown}: {censored(exc, address)}"
    if isinstance(exc, _BUSY):
        return StoreBusyError(f"others hold {detail}; nothing was written; try again")
    if is_lost(exc):
        return BackendUnavailableError(f"can not reach {detail}")
    match exc:
        case errors.DiskFull():
            return DiskFullError(f"no space left to write {detail}")
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return ReadOnlyError(f"not allowed on {detail}")
        case errors.ProgramLimitExceeded() | errors.OutOfMemory():
            return InvalidEntryError(f"larger than PostgreSQL can store: {detail}")
        case psycopg.OperationalError():
            return BackendUnavailableError(f"can not use {detail}")
        case _:
            return BackendError(f"{type(exc).__name__} of {detail}")


# ── How a store is come by: with which rights, and over which wire. For `clew doctor` ─────────────

_ROLE: Final = "SELECT rolname::text, rolsuper FROM pg_roles WHERE rolname = current_user"
_NEAR: Final = ("localhost", "127.0.0.1", "::1")


class Way(msgspec.Struct, frozen=True):
    role: str
    is_superuser: bool
    host: str
    is_near: bool
    """It does not leave this machine."""
    is_encrypted: bool
    is_verified: bool
    """The server has shown that it is the one that was named."""


def examine(url: str, timeout: float) -> Way:
    """Connect as a store does, and look. BackendUnavailableError and others if that is not possible."""
    address = parse_address(url)
    try:
        line = connect(address.conninfo, timeout, prepares=False)
        try:
            ((role, is_superuser),) = line.ask(_ROLE, ())
            host = line.info.host
            return Way(
                role=role,
                is_superuser=is_superuser,
                host=host,
                is_near=host.startswith("/") or host in _NEAR,
                is_encrypted=line.pgconn.ssl_in_use,
                is_verified=line.info.get_parameters().get("sslmode") == "verify-full",
            )
        finally:
            line.close()
    except psycopg.Error as exc:
        error = translate(exc, address)
    raise error
