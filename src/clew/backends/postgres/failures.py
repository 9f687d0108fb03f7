"""From the errors of the driver to ours."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from clew.backends.postgres.address import Address
from clew.backends.postgres.connection import DeadlineError, StaleRowError
from clew.errors import (
    BackendError,
    BackendUnavailableError,
    ClewError,
    DiskFullError,
    InvalidEntryError,
    ReadOnlyError,
    StoreBusyError,
)

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
