"""Several operations as one: what a store has instead of its engine inside `transact` and `read`.

The handles inside are the usual ones. Their scope hands every operation to the transaction that is already
open, so each operation decides where it always does. Most of what a store can do besides (threads, files, the
backend itself) cannot be undone with the transaction: a scope does not have it, and `offered` refuses the
methods that need it by their names, before any of them runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar, cast

from clew.backends.contract import Capabilities, Reader, Transaction
from clew.core.engine.engine import Engine
from clew.errors import ClewError, InvalidError

T = TypeVar("T")


class NeedsPreparation(Exception):
    """A transaction needs something slow first, such as a price list that is not loaded. Nothing was written:
    call `prepare()` and run the transaction again."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        super().__init__()
        self.prepare = prepare


class Handle(Protocol):
    """A public class whose handles may stand inside a scope: it says what of it is offered there."""

    _READS: ClassVar[frozenset[str]]
    """The public names that work inside `transact` and `read`."""
    _WRITES: ClassVar[frozenset[str]]
    """Those that work inside `transact` only. A name in neither of the two is refused inside both."""


H = TypeVar("H")


class TransactionScope:
    """Stands for an engine while a transaction, or a look at the storage, is open."""

    def __init__(self, engine: Engine, reader: Reader, tx: Transaction | None) -> None:
        """Without `tx` it can only be read from."""
        self.host = engine.host
        self.now = engine.now
        self._backend = engine.backend
        self.redactor = engine.redactor
        self.is_reading = tx is None
        self._reader: Reader | None = reader
        self._tx = tx
        self._failed: BaseException | None = None

    @property
    def location(self) -> str:
        return self._backend.location

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Do one operation as part of the transaction."""
        tx = self._writable()
        before = tx.writes
        try:
            return work(tx)
        except Exception as error:
            # A caller that catches a refusal may go on. But half of an operation must not be committed.
            if not isinstance(error, ClewError) or tx.writes != before:
                self._failed = error
            raise

    def run_in_turn(self, work: Callable[[Transaction], T]) -> T:
        """Nobody comes in between: all of it is one transaction."""
        return self.run(work)

    def read(self) -> AbstractContextManager[Reader]:
        self._check()
        assert self._reader is not None
        return nullcontext(self._reader)

    def wait_for_posted(self) -> None:
        """Nothing: a scope sees one moment, and posts nothing."""

    def prepare(self, work: Callable[[], object]) -> NoReturn:
        """Not here, while others wait: the transaction ends, and is run again when it is prepared."""
        self._writable()  # only what writes has to be prepared
        self._failed = NeedsPreparation(work)
        raise self._failed

    def offered(self, kind: type[H]) -> type[H]:
        """`Store` or `Session` with those methods refused that cannot be part of this scope."""
        return cast("type[H]", offered(cast("type[Handle]", kind), self.is_reading))

    def outside(self, what: str, *, waits: bool = True) -> NoReturn:
        """There is no engine in here: InvalidError."""
        self._check()
        part = "read()" if self.is_reading else "a transaction"
        raise InvalidError(
            f"{what} cannot be part of {part}: call it before or after, on the store that you opened"
        )

    def refuse_write(self, what: str) -> NoReturn:
        """A method that works inside `transact` only."""
        self._check()
        raise InvalidError(f"{what} writes, and nothing can be written inside read(): use transact()")

    def end(self) -> None:
        """The handles are of no use from here on."""
        self._reader = self._tx = None

    def check(self) -> None:
        """Raise what made it impossible to commit, though the caller has caught it."""
        if self._failed is not None:
            raise self._failed

    def _writable(self) -> Transaction:
        self._check()
        if self._tx is None:
            raise InvalidError("nothing can be written inside read(): use transact()")
        return self._tx

    def _check(self) -> None:
        if self._reader is None:
            raise InvalidError("this handle belongs to a transaction that is over: get the session again")


@cache
def offered(kind: type[Handle], is_reading: bool) -> type[Handle]:
    """`kind` as it is inside `read` or `transact`: every public name that it does not offer there is refused,
    so also one that was added without a thought of transactions."""
    allowed = kind._READS if is_reading else kind._READS | kind._WRITES
    names = [name for name in dir(kind) if not name.startswith("_") and name not in allowed]
    refusals = {name: _refusal(kind, name) for name in names}
    return type(kind.__name__, (kind,), {**refusals, "__module__": kind.__module__, "__doc__": kind.__doc__})


def _refusal(kind: type[Handle], name: str) -> Any:
    is_property = isinstance(getattr(kind, name), property)
    what = f"{kind.__name__}.{name}" if is_property else f"{kind.__name__}.{name}()"
    is_write = name in kind._WRITES

    def refuse(self: Any, *_: object, **__: object) -> NoReturn:
        scope: TransactionScope = self._scope
        if is_write:
            scope.refuse_write(what)
        scope.outside(what)

    return property(refuse) if is_property else refuse


def transaction_of(engine: Engine, work: Callable[[TransactionScope], T]) -> Callable[[Transaction], T]:
    """The operation that does all that `work` does in its scope as one."""
    engine.redactor()  # looked up here: inside, nothing else can be read

    def operation(tx: Transaction) -> T:
        scope = TransactionScope(engine, tx, tx)
        me = threading.get_ident()
        engine.transacting.add(me)
        try:
            result = work(scope)
        finally:
            engine.transacting.discard(me)
            scope.end()
        scope.check()
        return result

    return operation
