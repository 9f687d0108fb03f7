"""`with backend.write()` and `with backend.read()`: where transactions begin and end."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import msgspec
import psycopg

from clew.backends.contract import Stale
from clew.backends.postgres.borrowed import BorrowedReader
from clew.backends.postgres.connection import StaleRowError
from clew.backends.postgres.failures import CHANGED, FORGOTTEN, REFUSED, is_lost, translate
from clew.backends.postgres.sql import FITS
from clew.backends.postgres.transaction import PostgresTransaction
from clew.errors import CorruptError, OutcomeUnknownError, ReadOnlyError, StoreBusyError

if TYPE_CHECKING:
    from clew.backends.postgres.backend import PostgresBackend


class Writing:
    """`with backend.write() as tx`: a class, not a generator, because every append passes here."""

    __slots__ = ("_backend", "_certain", "_transaction")

    def __init__(self, backend: PostgresBackend, certain: bool) -> None:
        self._backend = backend
        self._certain = certain
        self._transaction: PostgresTransaction | None = None

    def __enter__(self) -> PostgresTransaction:
        backend = self._backend
        try:
            if not backend._lock.acquire(timeout=backend._timeout):
                raise StoreBusyError(f"other threads wrote to {backend.location} for {backend._timeout:g} s")
            backend.check_open()
            if backend._read_only:
                raise ReadOnlyError(f"the store {backend.location} is open for reading only")
            self._transaction = PostgresTransaction(backend, certain=self._certain)
            return self._transaction
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            self._leave()
            return
        try:
            if exc is None:
                try:
                    transaction.commit()
                except psycopg.Error as error:
                    exc = error
                    was_refused = transaction.is_implicit and isinstance(error, REFUSED)
                    if transaction.is_ending and is_lost(error) and not was_refused:
                        raise OutcomeUnknownError(
                            f"the connection to {self._backend.location} was lost while committing"
                        ) from error
        finally:
            if exc is not None:
                transaction.forget()
            self._leave()
            if transaction.doubtful:
                self._backend.try_to_sweep()
        if exc is None and transaction.writes:
            self._backend.bell.ring()
        self._reraise(exc)

    def _reraise(self, exc: BaseException | None) -> None:
        """What went wrong, in our words."""
        backend = self._backend
        if isinstance(exc, StaleRowError) and exc.sql == backend.schema[FITS]:
            backend.refuse_newer()
        if isinstance(exc, CHANGED):
            backend.numbers.change_lane()
            raise Stale from exc
        if isinstance(exc, FORGOTTEN):
            backend.stop_preparing()
            backend.close_writer()
            raise Stale from exc
        if isinstance(exc, psycopg.Error):
            if is_lost(exc):
                raise Stale from exc  # nothing was committed: again, on a new connection
            raise translate(exc, backend._address) from exc
        if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
            raise CorruptError(f"a record in {backend.location} is damaged: {exc}") from exc

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun:
        a signal handler may have raised anywhere."""
        backend = self._backend
        if backend._lock._is_owned():  # type: ignore[attr-defined]
            line = backend._writer
            if line is not None and not line.closed and not line.is_idle:
                try:
                    line.execute("ROLLBACK")
                except psycopg.Error:
                    pass
                if not line.is_idle:
                    line.close()
            backend._lock.release()


class Reading:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_backend", "_reader")

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend

    def __enter__(self) -> BorrowedReader:
        self._backend.check_open()
        self._reader = BorrowedReader(self._backend)
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.give_back()
        reraise_read(exc, self._backend)


def reraise_read(exc: BaseException | None, backend: PostgresBackend) -> None:
    """What went wrong while reading, in our words."""
    if isinstance(exc, psycopg.Error):
        raise translate(exc, backend._address) from exc
    if isinstance(exc, msgspec.DecodeError | UnicodeDecodeError):
        raise CorruptError(f"a record in {backend.location} is damaged: {exc}") from exc
