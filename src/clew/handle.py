"""What every handle on a session can do: write by its right, read what is there now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

from clew.backends.contract import Reader, Transaction
from clew.core.conversation import history
from clew.core.engine.engine import Engine, EngineLike
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access, live

P = ParamSpec("P")
T = TypeVar("T")


class Handle:
    """The base of `Session` and `Run`. Holds no state of the session."""

    def __init__(self, scope: EngineLike, access: Access) -> None:
        self._scope = scope
        self._access = access
        self._sid = access.sid
        self.id = access.id

    @property
    def _engine(self) -> Engine:
        """The whole engine: refused inside a transaction, where `_scope` is all there is."""
        return self._scope.outside("this", waits=False)

    def _write(
        self, work: Callable[Concatenate[Transaction, Access, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Commit one operation; durable when this returns."""
        access = self._access
        return self._scope.run(lambda tx: work(tx, access, *args, **kwargs))

    @contextmanager
    def _look(self) -> Iterator[tuple[Reader, SessionRow]]:
        with self._scope.read() as reader:
            row = live(reader, self._sid, self.id)
            with history.unless_purged(reader, self._sid, self.id):
                yield reader, row
