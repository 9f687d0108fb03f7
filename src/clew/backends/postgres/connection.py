"""A connection to the server: deadlines, a fixed search path, and the driver's errors as ours.

The owner of a database can set where functions, operators and types are looked for, and so choose whose code
runs with our rights. Clew therefore sets the search path itself: once for a connection, or for each
transaction behind a pooler, which gives the sessions of the server to other clients in between.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from clew.backends.postgres import sql
from clew.backends.postgres.address import Address, parse_address
from clew.backends.postgres.rows import Row, register
from clew.errors import (
    BackendError,
    BackendUnavailableError,
    ClewError,
    DiskFullError,
    InvalidEntryError,
    ReadOnlyError,
    StoreBusyError,
)

# Clew handles lost connections itself. The driver's messages go to loggers that a program has set up, and
# not to the screen of one that has not.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Statement = tuple[str, Sequence[Any]]

GRACE: Final = 0.2
"""The part of a deadline that is kept for asking the server to stop."""


class DeadlineError(psycopg.OperationalError):
    """The server did not answer in time, not even when it was asked to stop."""


class StaleRowError(psycopg.Error):
    """A guarded statement found another version of a row than the remembered one, and did nothing."""

    def __init__(self, statement: str) -> None:
        super().__init__("another process changed a row")
        self.statement = statement


class ServerConnection(psycopg.Connection[Row]):
    """One connection, in autocommit: statements of ours begin and end transactions."""

    patience = 10.0
    clock: Callable[[], float] = staticmethod(time.monotonic)
    prepares = False
    """The session of the server is ours alone: statements can be prepared, and the search path stays set."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait as the driver does, but not for ever."""
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
        """The driver wakes several times a second, even when no data came: then look at the clock. A long
        answer may take its time, as long as some of it keeps coming."""
        heard, cancelled = self.clock(), False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = self.clock()
                if ready and not cancelled:
                    heard = now
                elif now - heard >= self.patience:
                    self.pgconn.finish()  # its state is unknown
                    raise DeadlineError(f"no answer within {self.patience:g} s")
                elif now - heard >= self.patience * (1 - GRACE) and not cancelled:
                    cancelled = True
                    self._ask_to_stop()
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value

    @contextmanager
    def with_timeout(self, patience: float) -> Iterator[None]:
        """A longer deadline, for statements that are known to take long."""
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
        """Send statements together. Outside of a transaction they are one: all of them or none.

        Raises StaleRowError if a guarded one did nothing; the others were carried out.
        """
        _judge(statements, self._send(statements))

    def ask(self, statement: str, given: Sequence[Any], *, after: Sequence[Statement] = ()) -> list[Row]:
        """The rows that a statement returns, sent together with the statements that must run before it."""
        if not after and self.prepares:
            return self._execute(statement, given).fetchall()
        *before, cursor = self._send([*after, (statement, given)])
        _judge(after, before)
        return cursor.fetchall()

    @contextmanager
    def transacting(self) -> Iterator[None]:
        """All of the block or nothing."""
        with self.transaction():
            if not self.prepares:
                self.execute(sql.SET_PATH_WITHIN.encode())
            yield

    def _send(self, statements: Sequence[Statement]) -> list[psycopg.Cursor[Row]]:
        lent = None
        if not self.prepares and self.is_idle and not statements[0][0].startswith("VACUUM"):
            lent = int(statements[0][0].startswith("BEGIN"))
            path = sql.SET_PATH_WITHIN if lent else sql.SET_PATH_ONCE
            statements = [*statements[:lent], (path, ()), *statements[lent:]]
        if len(statements) == 1:
            return [self._execute(*statements[0])]
        with self.pipeline():
            cursors = [self._execute(*statement) for statement in statements]
        if lent is not None:
            del cursors[lent]
        return cursors

    def _execute(self, statement: str, given: Sequence[Any]) -> psycopg.Cursor[Row]:
        cursor = self.cursor(binary=True)
        return cursor.execute(statement.encode(), given, prepare=self.prepares)

    def roll_back(self) -> None:
        """Undo the transaction under way. A connection that cannot do so is closed, or not idle,
        afterwards."""
        try:
            self.execute(sql.ROLLBACK.encode())
        except psycopg.Error:
            pass

    @property
    def is_idle(self) -> bool:
        """Whether it can be used again."""
        return not self.closed and self.pgconn.transaction_status == TransactionStatus.IDLE

    def is_alive(self) -> bool:
        """Data on an idle connection means that the server has ended it."""
        if not self.is_idle or self.pgconn.status != ConnStatus.OK:
            return False
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return not poll.poll(0)

    def abandon(self) -> None:
        """In a forked child: let go of it without a message to the server, which serves the parent."""
        if not self.closed:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, self.pgconn.socket)
            os.close(nothing)
            self.pgconn.finish()


def _judge(statements: Sequence[Statement], cursors: Sequence[psycopg.Cursor[Row]]) -> None:
    for (statement, _), cursor in zip(statements, cursors, strict=True):
        if isinstance(statement, sql.Guarded):
            ((verdict,),) = cursor.fetchall()
            if not verdict:
                raise StaleRowError(statement)


def connect(conninfo: str, timeout: float, *, prepares: bool) -> ServerConnection:
    """Connect. `timeout` is for connecting, and then for each answer. `prepares`: unless a pooler is
    found."""
    connection = ServerConnection.connect(
        conninfo,
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
        **_defaults(conninfo, timeout),
    )
    try:
        connection.patience = timeout
        # One type for all numbers: else each statement is prepared again for every size of number.
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        register(connection)
        if prepares:
            ((path,),) = connection.execute(sql.SET_PATH, (connection.info.backend_pid,)).fetchall()
            connection.prepares = path is not None
        return connection
    except BaseException:
        connection.close()
        raise


def _defaults(conninfo: str, timeout: float) -> dict[str, Any]:
    """Settings that the address does not name."""
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


# -- the driver's errors, as ours

CHANGED: Final = (
    StaleRowError,
    errors.UniqueViolation,
    errors.DeadlockDetected,
    errors.SerializationFailure,
)
"""Another transaction was faster. Nothing was written; the same operations can be run again."""

FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""A pooler gave us another session of the server than the one in which a statement was prepared."""

REFUSED: Final = (errors.AdminShutdown, errors.CannotConnectNow)
"""The server shuts down instead of answering: the statement was not carried out."""

_BUSY: Final = (
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.TooManyConnections,
    errors.IdleInTransactionSessionTimeout,
)


def is_lost(exc: BaseException | None) -> bool:
    """Whether the connection is lost, and with it the answer to the last statement."""
    if isinstance(exc, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow | DeadlineError):
        return True
    # An error that the server reports has a state; one without comes from the connection itself.
    return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError) and exc.sqlstate is None


def censored(exc: BaseException, address: Address) -> str:
    text = str(exc).strip()
    for secret in address.secrets:
        text = text.replace(secret, "***")
    return text


def translate(exc: psycopg.Error, address: Address) -> ClewError:
    """The Clew error that tells a user what happened."""
    detail = f"{address.shown}: {censored(exc, address)}"
    if isinstance(exc, _BUSY):
        return StoreBusyError(f"other processes hold {detail}; nothing was written; try again")
    if is_lost(exc):
        return BackendUnavailableError(f"cannot reach {detail}")
    match exc:
        case errors.DiskFull():
            return DiskFullError(f"no space left to write {detail}")
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return ReadOnlyError(f"not allowed on {detail}")
        case errors.ProgramLimitExceeded() | errors.OutOfMemory():
            return InvalidEntryError(f"too large for PostgreSQL: {detail}")
        case psycopg.OperationalError():
            return BackendUnavailableError(f"cannot use {detail}")
        case _:
            return BackendError(f"{type(exc).__name__} of {detail}")


# -- how safe a connection is, for `clew doctor`

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class ConnectionCheck(msgspec.Struct, frozen=True):
    role: str
    is_superuser: bool
    host: str
    is_local: bool
    """It does not leave this machine."""
    is_encrypted: bool
    is_verified: bool
    """The server has proved that it is the host that the address names."""


def check_connection(url: str, timeout: float) -> ConnectionCheck:
    """Connect as a store does and report rights and encryption. Raises BackendUnavailableError and others."""
    address = parse_address(url)
    try:
        connection = connect(address.conninfo, timeout, prepares=False)
        try:
            ((role, is_superuser),) = connection.ask(sql.ROLE, ())
            host = connection.info.host
            return ConnectionCheck(
                role=role,
                is_superuser=is_superuser,
                host=host,
                is_local=host.startswith("/") or host in _LOCAL,
                is_encrypted=connection.pgconn.ssl_in_use,
                is_verified=connection.info.get_parameters().get("sslmode") == "verify-full",
            )
        finally:
            connection.close()
    except psycopg.Error as exc:
        error = translate(exc, address)
    raise error
