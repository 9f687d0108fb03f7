"""Several operations as one: a store that stands inside a transaction, or inside one look at the storage.

The handles of such a store are the usual ones. Their engine hands every operation to the transaction that is
already open, so what each of them decides is decided where it always is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn, TypeVar, cast

from clew.backends.contract import Backend, Capabilities, Reader, Transaction
from clew.engine import Engine, Service
from clew.errors import ClewError, InvalidError

T = TypeVar("T")
S = TypeVar("S", bound=Service)


class Unprepared(Exception):
    """A transaction needs something that takes long: do it, and try again. Nothing of it was done."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        super().__init__()
        self.prepare = prepare


class _Front:
    """What may be known of a backend inside; whatever else it can do has to wait."""

    def __init__(self, backend: Backend) -> None:
        self.location = backend.location
        self.capabilities: Capabilities = backend.capabilities

    def bytes_on_disk(self) -> NoReturn:
        raise _not_here("stats")

    def __getattr__(self, name: str) -> NoReturn:
        raise _not_here(name)


class Inside(Engine):
    """An engine for as long as a transaction, or a look, takes."""

    def __init__(self, engine: Engine, reader: Reader, tx: Transaction | None) -> None:
        # Not the constructor of the base: there is nothing to open, no thread to start, no fork to mind.
        self.backend = cast("Backend", _Front(engine.backend))
        self.here = engine.here
        self.now = engine.now
        self.generation = engine.generation
        self._reader: Reader | None = reader
        self._tx = tx
        self.is_reading = tx is None
        self._failed: BaseException | None = None

    def run(self, work: Callable[[Transaction], T]) -> T:
        tx = self._writable()
        before = tx.writes
        try:
            return work(tx)
        except Exception as error:
            # Who catches a refusal may go on. But half of an operation must not be committed.
            if not isinstance(error, ClewError) or tx.writes != before:
                self._failed = error
            raise

    def check_outside(self, what: str) -> NoReturn:
        raise _not_here(what)

    def prepare(self, work: Callable[[], object]) -> NoReturn:
        self._writable()  # only what writes has to be prepared
        self._failed = Unprepared(work)
        raise self._failed

    def run_behind(self, work: Callable[[Transaction], T]) -> T:
        return self.run(work)

    def read(self) -> AbstractContextManager[Reader]:
        self._check()
        assert self._reader is not None
        return nullcontext(self._reader)

    def end(self) -> None:
        """Nothing can be done by the handles any more. Raises what was caught though it must not be."""
        self._reader = self._tx = None
        if self._failed is not None:
            raise self._failed

    def post(self, work: Callable[[Transaction], Any]) -> NoReturn:
        raise _not_here("append_nowait")

    def service(self, kind: Callable[[Engine], S]) -> NoReturn:
        raise _not_here("what needs a thread or looks at files")

    def flush(self) -> NoReturn:
        raise _not_here("flush")

    def close(self) -> NoReturn:
        raise _not_here("close")

    def _writable(self) -> Transaction:
        self._check()
        if self._tx is None:
            raise InvalidError("nothing can be written inside read(): use transact()")
        return self._tx

    def _check(self) -> None:
        if self._reader is None:
            raise InvalidError("this handle belongs to a transaction that is over: get the session again")


def _not_here(what: str) -> InvalidError:
    return InvalidError(f"{what} cannot be a part of a transaction or of read(): do it before or after")
