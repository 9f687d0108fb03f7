"""`with backend.write()` and `with backend.read()`: where transactions begin and end."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

import apsw

from clew.backends.jsonl.committing import speaking, write_out
from clew.backends.jsonl.journal import NotUndoneError
from clew.backends.jsonl.packs import remove_packs
from clew.backends.jsonl.reader import JsonlReader
from clew.backends.jsonl.recognizing import UnreadableLogError
from clew.backends.jsonl.writer import JsonlTransaction
from clew.backends.sqlite.backend import _reraise
from clew.backends.sqlite.connection import patiently, refuse_newer
from clew.errors import BackendUnavailableError, ClewError, OutcomeUnknownError

if TYPE_CHECKING:
    from clew.backends.jsonl.backend import JsonlBackend


class Writing:
    """`with backend.write() as tx`."""

    __slots__ = ("_backend", "_tx")

    def __init__(self, backend: JsonlBackend) -> None:
        self._backend = backend
        self._tx: JsonlTransaction | None = None

    def __enter__(self) -> JsonlTransaction:
        backend = self._backend
        try:
            backend._lock.acquire()
            backend._need_writer()
            backend.store_lock.acquire(backend._timeout)
            connection = backend.refresh()
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), backend.location, backend._timeout)
            refuse_newer(connection, backend.location)
            self._tx = JsonlTransaction(
                connection, backend._branches, backend.layout, backend,
                durable=backend._level == "full",
            )  # fmt: skip
            return self._tx
        except BaseException as exc:
            self._leave()
            backend.suspect(exc)
            with speaking(backend.location):
                raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        backend, tx = self._backend, self._tx
        backend.suspect(exc)
        try:
            if exc is None and tx is not None:
                self._commit(tx)
            else:
                backend._branches.clear()
        except BaseException:
            backend._branches.clear()
            with speaking(backend.location):
                raise
        finally:
            self._tx = None
            self._leave()
            if exc is not None and tx is not None:
                with suppress(OSError):  # the next scrub removes what nothing names
                    remove_packs(backend.layout, tx.new_packs)
        _reraise(exc, backend.location)
        if isinstance(exc, OSError | UnreadableLogError):
            with speaking(backend.location):
                raise exc

    def _commit(self, tx: JsonlTransaction) -> None:
        backend = self._backend
        tx.settle_book()
        written = [(sheet, sheet.data()) for sheet in tx.book.written]
        connection = tx.connection
        if written:
            tx.book.note(written, durable=backend._level == "full")
            if len(written) == 1 and not written[0][0].is_new:
                backend.ensure_name(written[0][0].log)
            backend.store_lock.mark()
            try:
                write_out(backend.layout, backend.journal, written, durable=backend._level == "full")
            except NotUndoneError as failed:
                # The mark stays: whoever comes next reads the logs again.
                cause = failed.__cause__
                raise OutcomeUnknownError(f"could not write {backend.location}: {cause}") from cause
            except Exception:
                backend.store_lock.clear()
                raise
        try:
            tx.book.note_new(written)
            connection.execute("COMMIT")
        except apsw.Error:
            if not written:
                raise
            backend.is_behind = True  # the logs have it: that is what counts
            return
        with suppress(OSError):  # it is written: what is left to do can be done by the next
            if written:
                backend.store_lock.clear()
            if len(written) > 1 or (written and written[0][0].is_new):  # else it did not grow
                backend.journal.empty_if_long()
            self._remove_packs(tx.old_packs)

    def _remove_packs(self, files: list[str]) -> None:
        """Not while somebody reads all of the store: then the next scrub removes them."""
        if files:
            with suppress(ClewError), self._backend.still_lock.alone(0, "the files stay"):
                remove_packs(self._backend.layout, files)

    def _leave(self) -> None:
        """Undo what is not committed, and let others in. Looks at what is, not at what was begun."""
        backend = self._backend
        if backend._lock._is_owned():  # type: ignore[attr-defined]
            if not backend._closed and backend._writer is not None and backend._writer.in_transaction:
                backend._branches.clear()
                try:
                    backend._writer.execute("ROLLBACK")
                except apsw.Error:  # SQLite can not even undo it: this index is not used any more
                    backend.index_is_broken = True
            backend.store_lock.release()
            backend._lock.release()


class Reading:
    """`with backend.read() as reader`: borrows a connection."""

    __slots__ = ("_backend", "_connection")

    def __init__(self, backend: JsonlBackend) -> None:
        self._backend = backend

    def __enter__(self) -> JsonlReader:
        backend = self._backend
        if backend.needs_settling():
            backend.settle()
        self._connection = backend._take_reader()
        return JsonlReader(self._connection, backend._branches, backend.layout, backend)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend._give_reader(self._connection)
        self._backend.suspect(exc)
        _reraise(exc, self._backend.location)
        if isinstance(exc, OSError):
            raise BackendUnavailableError(f"can not read {self._backend.location}: {exc}") from exc
