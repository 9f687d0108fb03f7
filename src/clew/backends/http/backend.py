"""A store on another machine: `clew.open("https://host", token=…)`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from clew.backends.contract import BLIND, Backend, Capabilities, Reader
from clew.backends.http.address import parse_address
from clew.backends.http.cache import RowCache
from clew.backends.http.calls import Step, answer_of
from clew.backends.http.calls.base import Read
from clew.backends.http.connection import Connection
from clew.backends.http.reader import HttpReader
from clew.backends.http.remote import Remote, RowsChanged
from clew.backends.http.transaction import HttpTransaction
from clew.core.log.rows import BranchRow, SessionRow
from clew.core.messages.search_text import PageQuery
from clew.errors import (
    AccessDeniedError,
    BackendUnavailableError,
    ClewError,
    InvalidUrlError,
    ReadOnlyError,
    StoreBusyError,
    StoreClosedError,
)

if TYPE_CHECKING:
    from clew.model.search import SearchPage

TIMEOUT: Final = 30.0
T = TypeVar("T")


class HttpBackend(Backend):
    """The rows of a store that another process serves."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float | None = None,
        read_only: bool | None = None,
        ca: str | None = None,
        insecure: bool | None = None,
    ) -> None:
        """`insecure`: send the token without encryption to another machine, as between containers."""
        address = parse_address(url)
        token = token or os.environ.get("CLEW_TOKEN")
        if not token:
            raise AccessDeniedError(
                f"{address.shown} needs a token: pass token=… to clew.open(), or set CLEW_TOKEN"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidUrlError("the token holds characters that no token has")  # and is not repeated
        if (
            address.scheme == "http"
            and not address.is_loopback
            and not _first(insecure, address.options.get("insecure"), False)
        ):
            raise InvalidUrlError(
                f"{address.shown}: everybody on the way could read the token; use https://, or"
                " insecure=True if the network is your own"
            )
        timeout = _first(timeout, address.options.get("timeout"), TIMEOUT)
        ca = _first(ca, address.options.get("ca"), "") or None
        self._connection = Connection(address, token, timeout or TIMEOUT, ca)
        self._lock = threading.RLock()
        self._held: list[threading.RLock] = []
        self._cache = RowCache()
        self.transaction: HttpTransaction | None = None
        """The one that is open, in whatever thread."""
        self._count: int | None = None
        """Of commits, as the server counts them: up to which `pause` has told."""
        self.remote = Remote(self._connection)
        self._read_only = bool(_first(read_only, address.options.get("read_only"), False))
        self._capabilities = Capabilities(durability=self.remote.hello.durability, shared=True)

    def __repr__(self) -> str:
        return f"<HttpBackend {self.location}>"

    @property
    def location(self) -> str:
        return self._connection.location

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def requests(self) -> int:
        """How many were sent so far."""
        return self._connection.requests

    # -- transactions

    def write(self, certain: bool = True) -> WriteScope:
        return WriteScope(self, certain)

    def read(self) -> ReadScope:
        return ReadScope(self)

    @contextmanager
    def read_snapshot(self) -> Iterator[Reader]:
        """The whole store as it is at one moment, while others write."""
        self.check_open()
        reader = SnapshotReader(self.remote)
        try:
            yield reader
        finally:
            reader.end()

    def check_open(self) -> None:
        if self._connection.is_closed:
            raise StoreClosedError(self.location)

    def check_writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(f"the store {self.location} is open for reading only")
        if self.remote.hello.read_only:
            raise ReadOnlyError(f"the store {self.location} can be read only: {self.remote.hello.reason}")

    # -- time

    def clock(self) -> int:
        return self._connection.clock.now()

    def pause(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._connection.is_closed:
            left = deadline - time.monotonic()
            try:
                before, self._count = self._count, self.remote.pause(self._count, max(left, 0))
            except StoreClosedError:
                break
            except ClewError:
                time.sleep(max(min(left, BLIND), 0))
                break  # the next look tells why
            if self._count != before:
                return True
            if left <= 0:
                return False
        return True

    # -- upkeep

    def scrub(self) -> None:
        self.check_open()
        self.check_writable()
        self.remote.scrub()

    def bytes_on_disk(self) -> int:
        self.check_open()
        return self.remote.bytes_on_disk()

    # -- forks, and the end

    def before_fork(self) -> None:
        timeout = self._connection.timeout
        if self._lock.acquire(timeout=timeout):
            self._held.append(self._lock)
        self._connection.gate.shut(timeout)

    def after_fork(self, *, is_child: bool) -> None:
        """In the child: leave the parent's connections to the parent, and connect again when needed."""
        if is_child:
            self._held = []
            self._lock = threading.RLock()
            self._cache.renew()
            self._connection.abandon()
        else:
            self._connection.gate.open()
            while self._held:
                self._held.pop().release()

    def close(self) -> None:
        self._connection.close()


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


# -- write


class WriteScope:
    """`with backend.write() as tx`. One thread at a time: the others would only get in each other's way."""

    __slots__ = ("_backend", "_certain", "_transaction")

    def __init__(self, backend: HttpBackend, certain: bool) -> None:
        self._backend = backend
        self._certain = certain
        self._transaction: HttpTransaction | None = None

    def __enter__(self) -> HttpTransaction:
        backend = self._backend
        try:
            timeout = backend._connection.timeout
            if not backend._lock.acquire(timeout=timeout):
                raise StoreBusyError(
                    f"other threads wrote to {backend.location} for {timeout:g} s; try again"
                )
            backend.check_open()
            backend.check_writable()
            self._transaction = HttpTransaction(backend.remote, backend._cache, certain=self._certain)
            backend.transaction = self._transaction
            return self._transaction
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        transaction, self._transaction = self._transaction, None
        failed = True
        try:
            if transaction is not None and exc is None:
                transaction.commit()
                failed = False
        finally:
            try:
                if transaction is not None and failed:
                    transaction.forget()
                    transaction.undo()
            finally:
                self._leave()

    def _leave(self) -> None:
        """Looks at the actual state, not at the steps taken: a signal handler may have raised anywhere."""
        lock = self._backend._lock
        if lock._is_owned():  # type: ignore[attr-defined]
            self._backend.transaction = None
            lock.release()


# -- read


class PlainReader(HttpReader):
    """Reads outside of transactions. Each question sees everything committed before it."""

    def __init__(self, remote: Remote, cache: RowCache) -> None:
        self._remote = remote
        self._cache = cache

    def ask(self, call: Read[T]) -> T:
        answer = self._remote.read(call)
        if isinstance(answer, ClewError):
            raise answer
        return answer_of(call, answer)

    def get_session(self, sid: int) -> SessionRow | None:
        return self._noted(super().get_session(sid))

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        return self._noted(super().find_session(id, deleted=deleted))

    def _noted(self, row: SessionRow | None) -> SessionRow | None:
        if row is not None:
            self._cache.note_read(row)
        return row

    def get_branch(self, branch: int) -> BranchRow:
        known = self._cache.branch(branch)
        if known is None:
            known = super().get_branch(branch)
            self._cache.note_branch(known)
        return known

    def search_page(self, query: PageQuery) -> SearchPage | None:
        return self._remote.search(query)

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        for sentence in self._remote.damage(full=full):
            go_on()
            yield sentence


class ReadScope(AbstractContextManager[HttpReader]):
    """`with backend.read() as reader`. Nothing is open in between."""

    def __init__(self, backend: HttpBackend) -> None:
        self._backend = backend

    def __enter__(self) -> HttpReader:
        self._backend.check_open()
        mine = self._backend.transaction
        if mine is not None and self._backend.remote.hello.durability == "memory" and self._is_mine():
            return mine  # in memory, one who reads waits for who writes: this thread would wait for itself
        return PlainReader(self._backend.remote, self._backend._cache)

    def _is_mine(self) -> bool:
        return self._backend._lock._is_owned()  # type: ignore[attr-defined,no-any-return]

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class SnapshotReader(HttpReader):
    """Reads within one look at the store, which the server keeps open."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._id: str | None = None

    def ask(self, call: Read[T]) -> T:
        try:
            found = self._remote.step(Step(transaction=self._id, calls=[call]), "snapshot")
        except RowsChanged as error:
            raise BackendUnavailableError("the server has given up this snapshot; begin again") from error
        self._id = found.transaction
        if found.problem is not None:
            raise self._remote.error(found.problem)
        return answer_of(call, msgspec.Raw(found.answers[-1]))

    def end(self) -> None:
        if self._id is not None:
            self._remote.undo(self._id, "snapshot")
            self._id = None
