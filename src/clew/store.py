"""A store: everything under one address."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, overload

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import Backend, Capabilities, Transaction
from clew.backends.listing import make_cursor, read_cursor, wanted
from clew.backends.registry import connect
from clew.care import Care
from clew.core.conversation import points, sessions
from clew.core.conversation.settings import normalised
from clew.core.engine.engine import Engine, EngineLike
from clew.core.engine.host import Clock, wall_clock
from clew.core.engine.transaction import NeedsPreparation, TransactionScope, transaction_of
from clew.core.log.ids import check_id
from clew.core.log.rows import INTERRUPTED, RUNNING, SessionQuery, SessionRow
from clew.core.runs.access import Access, is_held
from clew.core.runs.status import status_number
from clew.errors import InvalidError, InvalidQueryError, ReadOnlyError, SessionNotFoundError
from clew.model import STATUSES, Json, Page, Stats, Status, UsageGroup, UsageKey, UsageTotals
from clew.porting import Porting
from clew.searching import Searching
from clew.session import Session
from clew.store_files import StoreFiles
from clew.upkeep import Upkeep, purge_and_scrub

if TYPE_CHECKING:
    from clew.model.session import Change
    from clew.run import Run

T = TypeVar("T")

DEFAULT_SESSION: Final = "default"
MOST_LISTED: Final = 2**31
DAY: Final = 86_400_000_000


def open(url: str | os.PathLike[str] | None = None, **options: Any) -> Store:
    """Open a store, creating it if need be.

    Args:
        url: A path or `sqlite:///path` (one SQLite file) or `memory:`. None: what $CLEW_STORE
            names, else the user's own store.
        options: `durability="process"` (survives the end of the process, not power loss; default
            "full"), `timeout` in seconds to wait for other writers, `read_only=True`.
    """
    return Store(connect(url, **options))


class Store(Upkeep, Care, StoreFiles, Porting, Searching):
    """The sessions of one store. Safe to use from any thread; close it, or use it as a context manager."""

    def __init__(self, backend: Backend, *, clock: Clock = wall_clock, steady: Clock | None = None) -> None:
        """`clock` gives the time for stamps, `steady` one that is never set, for leases and retention;
        both in microseconds. For tests: a store that is opened has those of the machine."""
        self._scope: EngineLike = Engine(backend, clock, steady)

    @property
    def _engine(self) -> Engine:
        """The whole engine: refused inside a transaction, where `_scope` is all there is."""
        return self._scope.outside("this", waits=False)

    _run: Run | None = None
    """Inside a transaction: whose writes to its session are those of this run."""

    # The methods that work inside `transact` and `read`, or inside `transact` only. All others are refused
    # there by their names, before they do anything. A method that is named here may still refuse some of its
    # arguments: it asks for `self._scope.outside(…)` before it writes.
    _READS: ClassVar = frozenset(
        {
            "capabilities", "export", "find", "get", "interrupted", "latest", "list", "location", "removals",
            "retention", "search", "session", "sweep", "usage",
        }
    )  # fmt: skip
    _WRITES: ClassVar = frozenset({"clear", "create", "delete", "restore_deleted", "set_retention"})

    def __repr__(self) -> str:
        return f"<Store {self._scope.location}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _handle(self, row: SessionRow) -> Session:
        engine, run = self._scope, self._run
        if run is not None and run._sid == row.sid:
            return engine.offered(Session)(engine, run._access)
        return engine.offered(Session)(engine, Access(row.sid, row.id, engine.here))

    @property
    def location(self) -> str:
        """Where the store is, fit to be shown."""
        return self._scope.location

    @property
    def capabilities(self) -> Capabilities:
        """What the store promises."""
        return self._scope.capabilities

    # -- sessions

    def session(
        self,
        id: str = DEFAULT_SESSION,
        *,
        title: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tags: Sequence[str] = (),
        vendor: str | None = None,
        endpoint: str | None = None,
        model: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        idle_timeout: timedelta | float | None = None,
        created_at: datetime | None = None,
    ) -> Session:
        """The session of this id or alias; created if there is none, and only then with these settings.

        `created_at`, with a time zone, is for sessions that are brought over from elsewhere; default: now.
        """
        from clew.core.streams import usage as calls

        changes = _initial(
            title=title,
            workspace=workspace,
            tags=tags or None,
            vendor=vendor,
            endpoint=endpoint,
            model=model,
            metadata=metadata,
            expires_at=expires_at,
            idle_timeout=idle_timeout,
        )
        created = None if created_at is None else calls.moment(created_at, "created_at")
        check_id(id)
        with self._scope.read() as reader:
            row = points.find(reader, id)
        if row is None:
            now = self._scope.now()
            row = self._scope.run(lambda tx: sessions.open_or_create(tx, id, changes, now, created))
        return self._handle(row)

    def create(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tags: Sequence[str] = (),
        vendor: str | None = None,
        endpoint: str | None = None,
        model: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        idle_timeout: timedelta | float | None = None,
        created_at: datetime | None = None,
    ) -> Session:
        """A new session; without an id it gets one that sorts by time. SessionExistsError if it is taken.

        `created_at` as for `session`.
        """
        from clew.core.streams import usage as calls

        changes = _initial(
            title=title,
            workspace=workspace,
            tags=tags or None,
            vendor=vendor,
            endpoint=endpoint,
            model=model,
            metadata=metadata,
            expires_at=expires_at,
            idle_timeout=idle_timeout,
        )
        created = None if created_at is None else calls.moment(created_at, "created_at")
        new_id = str(uuid7()) if id is None else check_id(id)
        now = self._scope.now()
        return self._handle(self._scope.run(lambda tx: sessions.create(tx, new_id, changes, now, created)))

    def get(self, id: str) -> Session:
        """The session of this id or alias; SessionNotFoundError if there is none."""
        found = self.find(id)
        if found is None:
            raise SessionNotFoundError(id)
        return found

    def find(self, id: str) -> Session | None:
        """The session of this id or alias, or None."""
        with self._scope.read() as reader:
            row = points.find(reader, check_id(id))
        return None if row is None else self._handle(row)

    def list(
        self,
        *,
        status: Status | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        where: Mapping[str, Json] | None = None,
        limit: int = 50,
        cursor: str | None = None,
        deleted: bool = False,
    ) -> Page:
        """Sessions, newest activity first; ties by id. One that is damaged says so in `damaged`.

        Args:
            status: Only those with this status.
            workspace: Only those that work there.
            tag: Only those with this tag, or all of these.
            where: Only those whose metadata has these values at its top level.
            limit: How many at most.
            cursor: From the page before. Sessions that nobody touches meanwhile come exactly once;
                one that becomes active moves to the front, before the first page.
            deleted: The trash instead, last deleted first.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidQueryError(f"limit must be a number from 1 on, not {limit!r}")
        query = SessionQuery(
            limit=min(limit, MOST_LISTED) + 1,
            workspace=None if workspace is None else normalised(workspace),
            tags=tuple(check_id(name, "tag") for name in _several(tag)),
            where=wanted(where or {}),
            after=None if cursor is None else read_cursor(cursor),
            deleted=deleted,
            status=_status(status),
            damaged=True,
        )
        with self._scope.read() as reader:
            found = reader.list_sessions(query)
            infos = tuple(sessions.listed_info(reader, one) for one in found[:limit])
        if len(found) <= limit:
            return Page(infos, None)
        last = found[limit - 1]
        moment = last.row.updated if last.row.deleted is None else last.row.deleted
        return Page(infos, make_cursor(*(last.behind or (moment, last.row.id))))

    def latest(self, *, workspace: str | os.PathLike[str] | None = None) -> Session | None:
        """The session with the newest activity that has messages, or None."""
        place = None if workspace is None else normalised(workspace)
        query = SessionQuery(limit=1, workspace=place, nonempty=True)
        with self._scope.read() as reader:
            found = reader.list_sessions(query)
        return self._handle(found[0].row) if found else None

    def interrupted(self) -> builtins.list[Session]:
        """The sessions whose run ended without a word, last active first: its worker was killed, or
        froze until its lease ran out. `s.resume()` tells where to go on.

        Runs whose worker is found to be gone get the status `interrupted` here, unless the store is
        open for reading only.
        """
        from clew.core.runs import lease

        here = self._scope.here
        with self._scope.read() as reader:
            running = reader.list_sessions(SessionQuery(limit=MOST_LISTED, status=RUNNING))
            gone = [one.row for one in running if one.row.fence and not is_held(reader, one.row, here)]
        if not self._scope.is_reading:
            with suppress(ReadOnlyError):
                for row in gone:
                    self._scope.run(partial(lease.interrupt_deserted, sid=row.sid, here=here))
                gone = []
        with self._scope.read() as reader:
            found = reader.list_sessions(SessionQuery(limit=MOST_LISTED, status=INTERRUPTED))
        return [self._handle(row) for row in (*gone, *(one.row for one in found))]

    # -- deleting

    def delete(self, id: str, *, purge: bool = False, force: bool = False, deleted: bool = False) -> bool:
        """Put the session of this id or alias in the trash; False if there was none. LeaseHeldError while
        somebody works on it, unless `force` is set: then the worker loses its lease.

        With `purge` it is removed for good, from the trash too: when this returns, no byte of what
        only this session reached is left in the store, neither of messages nor of files. Forks keep all
        that they share with it. ConflictError while files are half restored with it, unless `force` is set.
        `deleted` purges only what is in the trash, and leaves a session of the same id that is in use.
        A purge rewrites the store's file: it takes as long as copying it.
        """
        from clew.core.retention import purge as purge_

        check_id(id)
        here = self._scope.here
        if deleted and not purge:
            raise InvalidError(
                "delete(deleted=True) is for what is in the trash already: pass purge=True too"
            )
        if purge:
            engine = self._scope.outside("Store.delete(purge=True)")
            purging = purge_.purge_deleted if deleted else partial(purge_.purge_id, here=here, force=force)
            return purge_and_scrub(engine, lambda tx: purging(tx, id), force=force)
        now = self._scope.now()
        return self._scope.run(lambda tx: sessions.delete(tx, id, now, here, force=force))

    def restore_deleted(self, id: str) -> Session:
        """Bring the session of this id or alias back from the trash, the one deleted last if there are
        several."""
        check_id(id)
        now = self._scope.now()
        return self._handle(self._scope.run(lambda tx: sessions.restore(tx, id, now)))

    def clear(self, *, confirm: bool = False, purge: bool = False, force: bool = False) -> int:
        """Delete every session, into the trash or (with `purge`) for good; how many there were.
        LeaseHeldError while somebody works on one of them, unless `force` is set."""
        from clew.core.retention import purge as purge_

        if confirm is not True:
            raise InvalidError("clear deletes every session of the store: pass confirm=True if you mean it")
        now, here = self._scope.now(), self._scope.here
        if purge:
            engine = self._scope.outside("Store.clear(purge=True)")
            everything = partial(purge_.purge_everything, here=here, force=force)
            return purge_and_scrub(engine, everything, force=force)
        return self._scope.run(lambda tx: sessions.delete_all(tx, now, here, force=force))

    def stats(self) -> Stats:
        """Totals of the store."""
        engine = self._scope.outside("Store.stats()", waits=False)
        with engine.read() as reader:
            totals = reader.totals(engine.now() - DAY)
            usage = reader.sum_usage(None, None)
        return Stats(
            sessions=totals.sessions,
            deleted=totals.deleted,
            messages=totals.messages,
            entries=totals.entries,
            bytes=totals.size,
            bytes_on_disk=engine.backend.bytes_on_disk(),
            by_status={name: totals.by_status.get(number, 0) for number, name in enumerate(STATUSES)},
            active_24h={name: totals.active.get(number, 0) for number, name in enumerate(STATUSES)},
            created_24h=totals.created,
            calls=sum(group.calls for group in usage),
            input_tokens=sum(group.input for group in usage),
            output_tokens=sum(group.output for group in usage),
        )

    @overload
    def usage(
        self, *, by: None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals: ...
    @overload
    def usage(
        self, *, by: UsageKey, since: datetime | None = None, until: datetime | None = None
    ) -> dict[UsageGroup, UsageTotals]: ...
    def usage(
        self, *, by: UsageKey | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        """What all sessions have used, those in the trash too; grouped, if you say by what.

        `since` (included) and `until` (not) bound the time of the calls. What two forks share was
        paid for once, and is counted once.
        """
        from clew.core.streams import usage

        first, end = usage.span_of(by, since, until)
        with self._scope.read() as reader:
            return usage.store_totals(reader, by, first, end)

    # -- several things at once

    def transact(self, work: Callable[[Store], T], *, run: Run | None = None) -> T:
        """Do several things as one: all that `work` does through the store that it is given is committed
        together when it returns, or, when it raises, not at all.

        Args:
            work: Gets a store to read from and write to, good until it returns. It may be called more than
                once, in whatever thread commits, while others wait: no effects but those in the store.
            run: Lets it write to the session of this run under the run's lease.

        Methods that need a thread, look at files or rewrite the store (`append_nowait`, `run`, snapshots,
        `purge`) are refused in there with InvalidError, before anything is written; so is another `transact`.
        """
        engine = self._scope.outside("Store.transact()")
        operation = self._transaction(engine, work, run)
        while True:
            try:
                return engine.run(operation)
            except NeedsPreparation as needs:
                needs.prepare()

    def _transaction(
        self, engine: Engine, work: Callable[[Store], T], run: Run | None
    ) -> Callable[[Transaction], T]:
        return transaction_of(engine, lambda scope: work(_store_in(scope, run)))

    def read(self, work: Callable[[Store], T]) -> T:
        """Read several things as they are at one moment: `work` gets a store that can only be read from,
        good until it returns. Others go on writing meanwhile."""
        engine = self._scope.outside("Store.read()", waits=False)
        backend = engine.backend
        with backend.read_snapshot() as reader:
            scope = TransactionScope(engine, reader, None)
            try:
                return work(_store_in(scope))
            finally:
                scope.end()

    # -- the store itself

    def watch(self, after: str | None = None, *, wait: bool = True, every: float = 0.5) -> Iterator[Change]:
        """What happens in the sessions of this store, by whatever process, in the order of its time.

        A change says where a session stands now: several appends in a row may be one change, and none is
        passed over. After a restart the last minute before the cursor is told again.

        Args:
            after: The cursor of the last change that was seen; None: from now on.
            wait: False tells what has happened until now; else it goes on until the store is closed.
            every: Seconds between two looks. PostgreSQL also wakes up those who wait.
        """
        from clew.core.watch.watch import Watcher

        watcher = Watcher(self._scope.outside("Store.watch()"), after, every)
        return watcher.follow() if wait else iter(watcher.look())

    def flush(self) -> None:
        """Wait until all that `append_nowait` took is durable; raise the first thing that went wrong."""
        self._scope.outside("Store.flush()").flush()

    def close(self) -> None:
        """Flush and close; maintenance stops, leases that are still held run out. Idempotent; raises
        what `flush` would raise."""
        engine = self._scope.outside("Store.close()")
        self._stop_maintenance()
        engine.close()


def _store_in(scope: TransactionScope, run: Run | None = None) -> Store:
    """A store whose handles stand in a scope. Not by its constructor: there is nothing to open."""
    kind = scope.offered(Store)
    store = kind.__new__(kind)
    store._scope = scope
    store._run = run
    return store


def _status(status: str | None) -> int | None:
    number = None if status is None else status_number(status)
    if status is not None and number is None:
        raise InvalidQueryError(f"status is one of {', '.join(STATUSES)}; not {status!r}")
    return number


def _several(tag: str | Sequence[str] | None) -> Sequence[str]:
    return () if tag is None else (tag,) if isinstance(tag, str) else tag


def _initial(**given: Any) -> sessions.Changes:
    """The settings of a new session: what is None is not set."""
    return sessions.settings(
        **{name: msgspec.UNSET if value is None else value for name, value in given.items()}
    )
