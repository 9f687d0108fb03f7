"""A store: everything under one address. All that a store can do is in this file."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, tzinfo
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast, overload

from uuid_utils import uuid7

from clew.backends.contract import Backend, Capabilities, Reader, Transaction
from clew.backends.registry import connect, parse
from clew.core.conversation import facets, listing, points, sessions
from clew.core.conversation.points import Point
from clew.core.conversation.sessions import initial, updated
from clew.core.engine.engine import Engine, EngineLike
from clew.core.engine.host import Clock, wall_clock
from clew.core.engine.transaction import NeedsPreparation, TransactionScope, transaction_of
from clew.core.log.ids import check_id, check_limit, check_seconds, check_time
from clew.core.log.rows import SessionRow
from clew.core.runs.access import Access
from clew.errors import InvalidError, SessionNotFoundError
from clew.model import (
    Comparison,
    Facets,
    Json,
    Page,
    RedactionPolicy,
    Removal,
    Retention,
    Stats,
    Status,
    SweepReport,
    UsageGroup,
    UsageKey,
    UsageTotals,
)
from clew.session import Session

if TYPE_CHECKING:
    from typing import Unpack

    from clew.core.conversation.sessions import SessionSettings
    from clew.core.maintenance import Maintenance
    from clew.core.streams.usage import Money
    from clew.files.service import Files
    from clew.files.snapshot.watch import Watch
    from clew.model.files import (
        FileDiff,
        GcReport,
        OnConflict,
        OnProgress,
        PendingRestore,
        RestoreReport,
        Snapshot,
        SnapshotFile,
        VerifyReport,
    )
    from clew.model.search import SearchOrder, SearchPage, SearchRole
    from clew.model.session import Change
    from clew.model.source import Loaded, SourceSession
    from clew.model.transfer import (
        BackupReport,
        CopyReport,
        ExportFormat,
        ImportFormat,
        ImportReport,
        OnCopyConflict,
        OnCopyProgress,
        OnImportProgress,
        RepairReport,
    )
    from clew.run import Run

T = TypeVar("T")

Place: TypeAlias = "Store | str | os.PathLike[str]"
"""A store, or its address."""

DEFAULT_SESSION: Final = "default"
MOST_READ: Final = 1024**3


def open(url: str | os.PathLike[str] | None = None, **options: Any) -> Store:
    """Open a store, creating it if need be.

    Args:
        url: A path or `sqlite:///path` (one SQLite file; absolute), `jsonl:///path` (a directory of logs),
            `postgresql://…`, `https://…` (what a `clew serve` offers; `token=…`, else $CLEW_TOKEN), or
            `memory:`. None: the address in $CLEW_STORE, else the user's own store.
        options: Those of the kind of store, as docs/reference/store-addresses.md lists them. For SQLite:
            `durability="process"` (survives the end of the process, not power loss; default "full"),
            `timeout` in seconds to wait for other writers, `read_only=True`.
    """
    backend = connect(url, **options)
    if parse(url)[0] == "postgresql":
        from clew.core.transfer.new_store import refuse_unfinished

        refuse_unfinished(backend)
    return Store(backend)


def copy(
    src: Place,
    dst: Place,
    *,
    sessions: Sequence[str] | None = None,
    on_conflict: OnCopyConflict = "refuse",
    on_progress: OnCopyProgress | None = None,
) -> CopyReport:
    """Bring the sessions of a store, and the snapshots of its files, into another store of any kind.

    Args:
        src: A store, or its address. It is not changed, and may be in use: each session is copied as it
            was at some moment, and sessions that share a history at the same one.
        dst: A store, or its address; created if need be. Other sessions that it holds stay as they are.
        sessions: Only these (by id or alias), and those that share a history with them by forks. Rules of
            retention, the log of removals and other snapshots then stay behind.
        on_conflict: What to do about a session whose id is another session there, or that was changed
            there too: "refuse" (ConflictError, when all others are copied), "skip" it, or "rename": give
            it a new id there. One that was changed on both sides cannot be renamed: it is skipped.
        on_progress: Called after every transaction with a `CopyProgress`.

    Messages, positions, hashes, times and ids are the same in the copy, byte for byte. Leases are not
    copied: a run that is under way is interrupted in the copy. Killed anywhere, it goes on when it is
    called again; called again after the end it writes what is new, or nothing.

    Nothing of the source is believed: what could not have come through the door, or is not what its hashes
    say, stays behind with the sessions that share its history. CorruptError names the first of it, when
    all others are copied.
    """
    from clew.core.transfer import copy as copying

    copying.check_conflict(on_conflict)
    with ExitStack() as opened:
        source = _engine_at(src, opened, read_only=True)
        held = source.backend.hold_files()
        if held is not None and not isinstance(src, Store):
            # A store that is open for reading only does not follow processes that rewrite its files: so they
            # wait, and it is opened once more, as it is now.
            opened.enter_context(held)
            source = _engine_at(src, opened, read_only=True)
        target = _engine_at(dst, opened)
        return copying.copy(
            source, target, sessions=sessions, on_conflict=on_conflict, on_progress=on_progress
        )


def _engine_at(place: Place, opened: ExitStack, **options: Any) -> Engine:
    """The engine of a store; one that had to be opened is closed with `opened`."""
    if isinstance(place, Store):
        return place._scope.outside("copy()")
    return opened.enter_context(open(place, **options))._engine


class Store:
    """The sessions of one store. Safe to use from any thread; close it, or use it as a context manager."""

    # The methods that work inside `transact` and `read`, or inside `transact` only. All others are refused
    # there by their names, before they do anything. A method that is named here may still refuse some of its
    # arguments: it asks for `self._scope.outside(…)` before it writes.
    _READS: ClassVar = frozenset(
        {
            "capabilities", "compare", "export", "export_pieces", "facets", "find", "get", "interrupted",
            "latest", "list", "location", "redaction", "removals", "retention", "search", "session", "sweep",
            "usage",
        }
    )  # fmt: skip
    _WRITES: ClassVar = frozenset({"clear", "create", "delete", "restore_deleted", "set_retention", "upsert"})

    _run: Run | None = None
    """Inside a transaction: the run under whose lease its session is written to."""
    _maintenances: tuple[Maintenance, ...] = ()

    def __init__(self, backend: Backend, *, clock: Clock = wall_clock, steady: Clock | None = None) -> None:
        """`clock` gives the time for stamps, `steady` one that is never set, for leases and retention;
        both in microseconds. For tests: a store that is opened has those of the machine."""
        self._scope: EngineLike = Engine(backend, clock, steady)

    def __repr__(self) -> str:
        return f"<Store {self._scope.location}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _engine(self) -> Engine:
        """The whole engine: refused inside a transaction, where `_scope` is all there is."""
        return self._scope.outside("this", waits=False)

    def _handle(self, row: SessionRow) -> Session:
        scope, run = self._scope, self._run
        if run is not None and run._sid == row.sid:
            return scope.offered(Session)(scope, run._access)
        return scope.offered(Session)(scope, Access(row.sid, row.id, scope.host))

    @property
    def location(self) -> str:
        """Where the store is, fit to be shown."""
        return self._scope.location

    @property
    def capabilities(self) -> Capabilities:
        """What the store promises."""
        return self._scope.capabilities

    def close(self) -> None:
        """Flush and close; maintenance stops, leases that are still held run out. Idempotent; raises
        what `flush` would raise."""
        engine = self._scope.outside("Store.close()")
        running, self._maintenances = self._maintenances, ()
        for one in running:
            one.stop()
        engine.close()

    # -- sessions

    def session(
        self,
        id: str = DEFAULT_SESSION,
        *,
        created_at: datetime | None = None,
        **settings: Unpack[SessionSettings],
    ) -> Session:
        """The session of this id or alias; created if there is none, and only then with these settings.

        `created_at`, with a time zone, is for sessions that are brought over from elsewhere; default: now.
        """
        changes = sessions.without_secrets(initial("session", settings), self._scope.redactor())
        created = None if created_at is None else check_time(created_at, "created_at")
        found = self.find(id)
        if found is not None:
            return found
        now = self._scope.now()
        return self._handle(
            self._scope.run(lambda tx: sessions.open_or_create(tx, id, changes, now, created))
        )

    def create(
        self,
        id: str | None = None,
        *,
        created_at: datetime | None = None,
        **settings: Unpack[SessionSettings],
    ) -> Session:
        """A new session; without an id it gets one that sorts by time. SessionExistsError if it is taken.

        `created_at` as for `session`.
        """
        changes = sessions.without_secrets(initial("create", settings), self._scope.redactor())
        created = None if created_at is None else check_time(created_at, "created_at")
        new_id = str(uuid7()) if id is None else check_id(id)
        now = self._scope.now()
        return self._handle(self._scope.run(lambda tx: sessions.create(tx, new_id, changes, now, created)))

    def upsert(
        self,
        id: str,
        *,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        **settings: Unpack[SessionSettings],
    ) -> Session:
        """Create the session of this id or alias with these settings, or update it, in one call.

        Args:
            id: The session.
            created_at: When it began, with a time zone, if it is created here; default: `updated_at`, or now.
            updated_at: When it was last active, with a time zone. It counts if it is newer than the last
                activity in the store; a time in the future counts as now.
            settings: As for `update`: None empties one, and what is not given stays.
        """
        changes = sessions.without_secrets(updated("upsert", settings), self._scope.redactor())
        created = None if created_at is None else check_time(created_at, "created_at")
        active = None if updated_at is None else check_time(updated_at, "updated_at")
        check_id(id)
        host = self._scope.host
        return self._handle(
            self._scope.run(lambda tx: sessions.upsert(tx, id, changes, host, created, active))
        )

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
        project: str | None = None,
        tag: str | Sequence[str] | None = None,
        where: Mapping[str, Json] | None = None,
        agent: str | None = None,
        model: str | None = None,
        parent: str | None = None,
        subagents: bool = True,
        min_cost: Money | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
        deleted: bool = False,
        usage: bool = False,
    ) -> Page:
        """Sessions, newest activity first; ties by id. One that is damaged says so in `damaged`.

        Args:
            status: Only those with this status.
            workspace: Only those that work there.
            project: Only those that work in a directory of this name: the last part of its path.
            tag: Only those with this tag, or all of these.
            where: Only those whose metadata has these values at its top level.
            agent: Only those that this program or framework writes, such as "claude-code".
            model: Only those whose setting `model` is this.
            parent: Only subagents of the session of this id.
            subagents: False: without subagents whose parent is in the store.
            min_cost: Only those that cost this or more, in dollars, together with their subagents. Sessions
                are looked at one after the other until the page is full: if few cost so much, that is slow.
            since: Only those whose last activity is at this time or later.
            until: Only those whose last activity is before this time.
            limit: How many at most.
            cursor: From the page before. Sessions that are not touched meanwhile come exactly once;
                one that becomes active moves to the front, before the first page.
            deleted: The trash instead, last deleted first; `since` and `until` are then times of deletion.
            usage: Also sum up what each of them and its subagents have used: `Page.usage`.
        """
        with self._scope.read() as reader:
            return listing.list_page(
                reader,
                status=status,
                workspace=workspace,
                project=project,
                tag=tag,
                where=where,
                agent=agent,
                model=model,
                parent=parent,
                subagents=subagents,
                min_cost=min_cost,
                since=since,
                until=until,
                limit=limit,
                cursor=cursor,
                deleted=deleted,
                usage=usage,
            )

    def facets(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        limit: int = 50,
    ) -> Facets:
        """The projects, agents, models, tags and statuses of the sessions, most frequent first: what `list`
        can filter by. Sessions in the trash do not count.

        Args:
            workspace: Only of sessions that work there.
            tag: Only of sessions with this tag, or all of these.
            limit: How many of each at most.
        """
        with self._scope.read() as reader:
            return facets.count(reader, workspace=workspace, tag=tag, limit=limit)

    def compare(self, a: str, b: str, *, a_at: Point | None = None, b_at: Point | None = None) -> Comparison:
        """Where the paths of two sessions part: the last entry that they share, and what each has behind it.

        Entries are told apart by their hashes, so it does not matter whether one is a fork of the other, a
        copy or an import. Reads no messages.

        Args:
            a: A session, by id or alias.
            b: The other one; may be the same, to compare two of its branches.
            a_at: The path to this point of `a`, not to its head.
            b_at: The same of `b`.
        """
        from clew.core.conversation.fork import compare
        from clew.core.conversation.history import standing_at

        with self._scope.read() as reader:
            one, other = (_row(reader, id) for id in (a, b))
            return compare(reader, standing_at(reader, one, a_at), standing_at(reader, other, b_at))

    def latest(self, *, workspace: str | os.PathLike[str] | None = None) -> Session | None:
        """The session with the newest activity that has messages, or None. What others made over HTTP with a
        token that is bound to a workspace or to tags is left out."""
        with self._scope.read() as reader:
            row = sessions.latest(reader, workspace)
        return None if row is None else self._handle(row)

    def interrupted(self) -> builtins.list[Session]:
        """The sessions whose run was cut off, last active first: its worker was killed, or froze until its
        lease ran out. `s.resume()` tells where to go on.

        Runs whose worker is found to be gone get the status `interrupted` here, unless the store is
        open for reading only.
        """
        from clew.core.runs.lease import find_interrupted

        return [self._handle(row) for row in find_interrupted(self._scope)]

    def delete(self, id: str, *, purge: bool = False, force: bool = False, deleted: bool = False) -> bool:
        """Put the session of this id or alias in the trash, with its subagents; False if there was none.
        LeaseHeldError while a worker holds a lease of one of them, unless `force` is set: then the worker
        loses the lease.

        With `purge` they are removed for good, from the trash too: when this returns, no byte that
        only these sessions reached is left in the store, neither of messages nor of files. Forks keep all
        that they share with it. ConflictError while files are half restored with it, unless `force` is set.
        `deleted` purges only what is in the trash, and leaves a session of the same id that is in use.
        A purge rewrites the store's file: it takes as long as copying it.
        """
        check_id(id)
        if deleted and not purge:
            raise InvalidError(
                "delete(deleted=True) is for what is in the trash already: pass purge=True too"
            )
        if purge:
            return bool(self._purge("Store.delete(purge=True)", id, force=force, deleted=deleted))
        now, host = self._scope.now(), self._scope.host
        return self._scope.run(lambda tx: sessions.delete(tx, id, now, host, force=force))

    def restore_deleted(self, id: str) -> Session:
        """Bring the session of this id or alias back from the trash, the one deleted last if there are
        several. Its subagents in the trash come back with it, unless their ids are in use again."""
        check_id(id)
        now = self._scope.now()
        return self._handle(self._scope.run(lambda tx: sessions.restore(tx, id, now)))

    def clear(self, *, confirm: bool = False, purge: bool = False, force: bool = False) -> int:
        """Delete every session, into the trash or (with `purge`) for good; how many there were.
        LeaseHeldError while a worker holds a lease of one of them, unless `force` is set."""
        if confirm is not True:
            raise InvalidError("clear deletes every session of the store: pass confirm=True if you mean it")
        if purge:
            return self._purge("Store.clear(purge=True)", None, force=force)
        now, host = self._scope.now(), self._scope.host
        return self._scope.run(lambda tx: sessions.delete_all(tx, now, host, force=force))

    def _purge(self, what: str, id: str | None, *, force: bool, deleted: bool = False) -> int:
        """Remove one session or all for good; how many there were."""
        from clew.core.maintenance import purge_and_scrub
        from clew.core.retention import purge

        engine = self._scope.outside(what)
        work: Callable[[Transaction], int] = partial(purge.purge_everything, host=engine.host, force=force)
        if id is not None:
            work = partial(purge.purge_id, id=id, host=engine.host, force=force)
        if id is not None and deleted:
            work = partial(purge.purge_deleted, id=id)
        return purge_and_scrub(engine, work, force=force)

    # -- reading

    def search(
        self,
        query: str,
        *,
        role: SearchRole | None = None,
        session: str | Sequence[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        project: str | None = None,
        tag: str | Sequence[str] | None = None,
        where: Mapping[str, Json] | None = None,
        agent: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tools: bool = False,
        order: SearchOrder = "newest",
        limit: int = 20,
        cursor: str | None = None,
    ) -> SearchPage:
        """Messages that have all words of a query, in their text or in the note beside them; all that was
        appended before is found.

        Words in any order, `"a phrase"`, `prefix*`, `-without`; upper and lower case and accents are the
        same. Parts of identifiers, and of texts in scripts without spaces, are found too. What only
        sessions in the trash can show is not found; a message that several sessions share is found once.
        On one page, so is what a program copied to another session, and what a subagent was told or
        answered: `Hit.copies` counts the others. A note is what `annotate(entry, note="…")` put beside an
        entry, be that a message or a mark; the filters are then about the entry.

        Args:
            role: Only messages of this role: `user` is a human. The results of tools are not `user`, and
                neither are messages that an importer found to be said in the user's name: they are `other`.
            session: Only what this session can show, or one of these, by id or alias.
            workspace: Only in sessions that work there.
            project: Only in sessions that work in a directory of this name.
            tag: Only in sessions with this tag, or all of these.
            where: Only in sessions whose metadata has these values, as for `list`.
            agent: Only in sessions that this program or framework writes.
            model: Only in sessions whose setting `model` is this.
            since: Only messages of this time or later.
            until: Only messages of before this time.
            tools: Also look at the calls and results of tools.
            order: `newest` first, or the `best` of the newest 1,000 that match.
            limit: How many at most, up to 1,000.
            cursor: From the page before, of the same search.
        """
        from clew.core.search.search import request_of, search

        request = request_of(
            query,
            role=role,
            session=session,
            workspace=workspace,
            project=project,
            tag=tag,
            where=where,
            agent=agent,
            model=model,
            since=since,
            until=until,
            tools=tools,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        return search(self._scope, request)

    def stats(self) -> Stats:
        """Totals of the store."""
        engine = self._scope.outside("Store.stats()", waits=False)
        with engine.read() as reader:
            return sessions.stats(reader, engine.now(), engine.backend.bytes_on_disk())

    @overload
    def usage(
        self,
        *,
        by: None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        model: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        subagents: bool = False,
    ) -> UsageTotals: ...
    @overload
    def usage(
        self,
        *,
        by: UsageKey,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        model: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        subagents: bool = False,
    ) -> dict[UsageGroup, UsageTotals]: ...
    def usage(
        self,
        *,
        by: UsageKey | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        model: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        subagents: bool = False,
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        """What all sessions have used, those in the trash too; grouped, if you say by what.

        A call that two forks share was paid for once, and is counted once.

        Args:
            by: One sum for each day, week (named by its Monday), month, model, agent, project (the last part
                of the workspace's path), session, vendor, endpoint, source, workspace or branch.
            since: Only calls at this time or later.
            until: Only calls before this time.
            tz: The time zone of days, weeks and months; UTC when not given.
            model: Only calls of this model.
            agent: Only calls of sessions of this agent.
            project: Only calls of sessions of this project.
            workspace: Only calls of sessions that work there now.
            tag: Only calls of sessions with this tag, or all of these.
            subagents: By session: calls of a subagent count for the session that it works for.
        """
        from clew.core.streams import totals

        asked = totals.wanted(
            by, since, until, tz, model=model, agent=agent, project=project, subagents=subagents
        )
        place, tags = sessions.filters(workspace, tag)
        with self._scope.read() as reader:
            return totals.store_totals(reader, asked, place, tags)

    def read(self, work: Callable[[Store], T]) -> T:
        """Read several things as they are at one moment: `work` gets a store that can only be read from,
        good until it returns. Others go on writing meanwhile."""
        engine = self._scope.outside("Store.read()", waits=False)
        with engine.backend.read_snapshot() as reader:
            scope = TransactionScope(engine, reader, None)
            try:
                with engine.staying():
                    return work(_store_in(scope))
            finally:
                scope.end()

    def watch(self, after: str | None = None, *, wait: bool = True, every: float = 10.0) -> Iterator[Change]:
        """What happens in the sessions of this store, by whatever process, in the order of its time: to their
        conversation, status, settings and usage.

        A change says where a session stands now: several appends in a row may be one change, and no change is
        missed. After a restart the changes of the last minute before the cursor are reported again.

        Args:
            after: The cursor of the last change that was seen; None: from now on.
            wait: False: the changes until now; else it goes on until the store is closed.
            every: Seconds after which it looks for changes though storage told of none. Usually storage
                tells of every commit at once; not of one whose process was killed right behind it.
        """
        from clew.core.streams.watch import Watcher

        watcher = Watcher(self._scope.outside("Store.watch()"), after, every)
        return watcher.follow() if wait else iter(watcher.look())

    # -- writing

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
        operation = transaction(engine, work, run)
        while True:
            try:
                return engine.run(operation)
            except NeedsPreparation as needs:
                needs.prepare()

    def flush(self) -> None:
        """Wait until all that `append_nowait` and `add_event_nowait` took is durable; raise the first
        failure."""
        self._scope.outside("Store.flush()").flush()

    # -- files: no git is needed, and the user's `.git` is never touched

    @property
    def _files(self) -> Files:
        from clew.files.service import Files  # only stores with files pay for it

        return self._engine.service(Files)

    def snapshot(
        self,
        root: str | os.PathLike[str],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_file_bytes: int | None = None,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Snapshot:
        """Keep the content of a directory tree: every file's exact bytes, executable bits, symlinks as
        links, empty directories. A file that is unchanged since the last snapshot costs a look.

        Args:
            root: The directory. The root of a drive and a home directory are refused unless forced.
            include: Patterns as in `.gitignore`: files that are taken although they are ignored.
            exclude: More patterns of what is left out.
            max_file_bytes: Larger files are skipped, and listed (100 MiB).
            force: Take a home directory all the same.
            on_progress: Called from time to time with a `FileProgress`.

        `.gitignore`, `.clewignore` and sensible defaults (node_modules, .venv, caches) are left out.
        Files that by their names hold secrets (`.env`, `*.pem`, `.ssh`, …) are left out and listed in
        `skipped`, as is what cannot be kept (FIFOs, sockets, other mounts, files that this user may not
        read, …). SnapshotFailedError: the system failed to read a file, and no snapshot was kept.
        """
        from clew.files.snapshot.take import rules_of

        rules = rules_of(include, exclude, max_file_bytes)
        return self._files.snapshot(root, rules, force=force, on_progress=on_progress)

    def watch_files(self, root: str | os.PathLike[str], *, force: bool = False) -> Watch:
        """Watch a directory, so that snapshots of it in this process need not look at directories that did
        not change: until `stop()`, the end of a `with` block, or the end of the store.

        Whenever the watcher cannot vouch for a directory, it is looked at; where the system gives no
        notices (anything but Linux), all of them are, as without a watcher.
        """
        return self._files.watch(root, force=force)

    def snapshots(
        self, *, root: str | os.PathLike[str] | None = None, limit: int = 100, before: str | None = None
    ) -> builtins.list[Snapshot]:
        """Newest first; of one directory, or of all. `before`: only those that are older than the one of this
        id, for the next page."""
        if before is not None:
            check_id(before, "before")
        return self._files.snapshots(root, check_limit(limit), before)

    def get_snapshot(self, id: str) -> Snapshot:
        """SnapshotNotFoundError if there is none."""
        return self._files.get(id)

    def sessions_with_snapshot(self, id: str) -> builtins.list[Session]:
        """The sessions whose checkpoints name a snapshot, oldest first; none if it was taken for itself.
        SnapshotNotFoundError if there is none."""
        return [self._handle(row) for row in self._files.sessions(id)]

    def list_files(
        self,
        snap: Snapshot | str,
        path: str = "",
        *,
        after: str | None = None,
        limit: int = 1000,
        deep: bool = True,
    ) -> builtins.list[SnapshotFile]:
        """What a snapshot holds: files, links and empty directories, without their content.

        Args:
            snap: A snapshot, or its id.
            path: Only what is in this directory, however deep; or only this file.
            after: Only what comes behind this path; for the next page.
            limit: How many at most.
            deep: False: only what is directly in the directory, with every directory in it, empty or not.

        Names are in the order of their bytes, and what is in a directory stands in its place.
        NotFoundError if the snapshot holds nothing at this path.
        """
        return self._files.files(snap, path, after, check_limit(limit), deep=deep)

    def read_file(
        self,
        snap: Snapshot | str,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        max_bytes: int = MOST_READ,
    ) -> bytes:
        """What a file held in a snapshot, byte for byte; of a symlink, where it leads.

        Args:
            snap: A snapshot, or its id.
            path: Below the root of the snapshot.
            start: From this byte on.
            length: So many bytes, or as many as there are; None: all.
            max_bytes: More at once is refused (1 GiB).

        NotFoundError if the snapshot holds no such file. What is asked for is in memory at once.
        """
        return self._files.read_file(snap, path, start=start, length=length, max_bytes=max_bytes)

    def delete_snapshot(self, id: str) -> bool:
        """Forget a snapshot; False if there was none. `gc()` then frees its content."""
        return self._files.delete(id)

    def restore(
        self,
        snap: Snapshot | str,
        root: str | os.PathLike[str] | None = None,
        *,
        paths: Sequence[str] | None = None,
        dry_run: bool = False,
        on_conflict: OnConflict = "overwrite",
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> RestoreReport:
        """Make a directory what it was in a snapshot: what changed comes back, what was deleted comes back,
        what came since is deleted. The present state is kept first: `undo_restore` brings it back.

        Args:
            snap: A snapshot, or its id.
            root: Where; default: where it was taken, if that was by this user on this machine.
            paths: Only these files, and what is below these directories.
            dry_run: Only say what would be done.
            on_conflict: What to do with files that changed, or came, since the last snapshot:
                "overwrite" them (the safety snapshot has them), "keep" them as they are, or "refuse".
            force: As for `snapshot`.

        Only what the safety snapshot holds, byte for byte, is replaced or deleted. What is ignored, or
        was, and what no snapshot can hold, stays; so does what is in a directory of which this store has
        no snapshot. `kept` in the report names it, with the reason. A file that changes while the restore
        runs is left alone, and in `failed`. Killed half-way, a restore is in `pending_restores()`, to be
        finished or undone.
        """
        return self._files.restore(
            snap, root, paths, on_conflict, dry_run=dry_run, force=force, on_progress=on_progress
        )

    def undo_restore(
        self,
        restore: RestoreReport | str,
        root: str | os.PathLike[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> RestoreReport:
        """Bring back every byte that a restore replaced or removed, be it finished or cut off.

        `root` is its directory. It has to be named if another user began the restore, or this user on
        another machine; else that is refused (RootNotNamedError). `dry_run` only says what would be done.
        """
        id = restore if isinstance(restore, str) else restore.id
        if id is None:
            raise InvalidError("this restore changed nothing: there is nothing to undo")
        return self._files.undo(id, root, dry_run=dry_run)

    def pending_restores(self) -> builtins.list[PendingRestore]:
        """Restores that were cut off half-way, oldest first."""
        return self._files.pending()

    def finish_restore(
        self, id: str, root: str | os.PathLike[str] | None = None, *, dry_run: bool = False
    ) -> RestoreReport:
        """Go on with a restore that was cut off; a head that was to move with it moves too. `root` and
        `dry_run` as for `undo_restore`."""
        from clew.files.rewind import finish_restore

        return finish_restore(self._engine, id, root, dry_run=dry_run)

    def diff(
        self,
        a: Snapshot | str,
        b: Snapshot | str | os.PathLike[str] | None = None,
        *,
        text: bool = False,
        renames: bool = True,
        after: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[FileDiff]:
        """What differs from `a` to `b`: another snapshot (or its id), or a directory as it is now; default:
        the one where `a` was taken, if that was by this user on this machine.

        `text` adds unified diffs of text files; `renames` pairs files that were moved. In the order of the
        paths; `after` and `limit` choose a page of them.
        """
        most = None if limit is None else check_limit(limit)
        return self._files.diff(a, b, text=text, renames=renames, after=after, limit=most)

    def gc(
        self,
        *,
        dry_run: bool = False,
        thorough: bool = False,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> GcReport:
        """Remove the content that no snapshot, checkpoint or trash needs any more.

        Args:
            dry_run: Only say what would be removed, and what merging would save.
            thorough: Pack anew whatever has a gap, so that no byte of what is removed stays in a pack.
            merge: Join the small packs that small snapshots leave: many snapshots of a few edits each then
                take a fraction of the space. It reads and packs anew all that they hold.
            on_progress: Called from time to time with a `FileProgress`.

        The file of the store does not get smaller: what was freed is used again, until `vacuum()` gives it
        back to the system. LeaseHeldError: another gc is under way.
        """
        return self._files.gc(dry_run=dry_run, thorough=thorough, merge=merge, on_progress=on_progress)

    # -- transfer

    def export(
        self, id: str, format: ExportFormat, *, path: str | os.PathLike[str] | None = None, **options: Any
    ) -> str:
        """A session as a file: its text, or, with a path, where it was written to.

        Args:
            id: The session, by id or alias.
            format: "jsonl": all of it, as `import_path` and JSONL stores take it (docs/reference/format.md).
                "json", "markdown", "html": for programs and people to read. "claude-code", "codex", "pi",
                "picoclaw", "ggcode", "tingly-box", "ductwork", "openrouter", "gemini-cli", "opencode": as
                these agents keep it.
            path: The file. It appears when it is whole and durable, readable by its owner only; one that
                is there is replaced, and so is a link: what it leads to stays as it is. "tingly-box" is an
                SQLite file and needs a path; "picoclaw" puts its `.meta.json` beside it.
            options: `redact` (without secrets: True, or a `clew.exporters.redact.Redactor` that reports);
                `at` (the path to this point instead of the one to the head: claude-code, codex, pi,
                gemini-cli, opencode);
                `whole` (all branches, not only the path; not for jsonl, which always has all); `tools` and
                `thinking` (False leaves them out), `links` (the names of pages that will lie beside this one,
                by the ids of their sessions): for markdown and html; `calls` (lists the model calls), `last`,
                `before` and `after` (only these entries): for markdown.
        """
        return cast("str", _edge("clew.exporters").export(self, id, format, path, options))

    def export_pieces(self, id: str, format: ExportFormat, **options: Any) -> Iterator[bytes]:
        """The same text piece by piece, in bounded memory: to be sent somewhere."""
        found: Iterator[bytes] = _edge("clew.exporters").pieces(self, id, format, options)
        return found

    def import_path(
        self,
        path: str | os.PathLike[str],
        format: ImportFormat | None = None,
        *,
        dry_run: bool = False,
        rename: bool = False,
        strict: bool = False,
        again: bool = False,
        redact: bool | None = None,
        name: str | None = None,
        max_unpacked: int | None = None,
        on_progress: OnImportProgress | None = None,
    ) -> ImportReport:
        """Bring the sessions of a file, or of all files in a directory, into this store. Files are only
        read; one that did not change since its last import is not even opened, one that has grown adds what
        is new. What was brought is indexed for `search`.

        Args:
            path: The file, or the directory.
            format: What it is, such as "claude-code"; None: its content tells.
            dry_run: Only say what would be brought. Writes nothing.
            rename: Give a session a new id if the store has another one of that id; else ConflictError.
            strict: Import nothing if anything cannot be read: InvalidError. Else the report lists it, and
                files of which nothing came are its `left_out`.
            again: Read all files, also those that did not change. It adds nothing that is there.
            redact: Whether definite secrets are replaced; None: as `redaction` says.
            name: What the file is called instead of its path: it came through a pipe or over a network, and
                is not kept where it is now. The store keeps no record of the place.
            max_unpacked: Bytes that compressed files, sparse files and databases may unpack to beyond a
                multiple of their sizes, all of them together; None: 32 MiB. What is more is left out, and
                the report says so.
            on_progress: Told how far it is.
        """
        self._scope.outside("Store.import_path()")
        report: ImportReport = _edge("clew.importers.run").import_path(
            lambda **_: self,
            path,
            format,
            dry_run=dry_run,
            rename=rename,
            strict=strict,
            again=again,
            redact=redact,
            name=name,
            max_unpacked=max_unpacked,
            on_progress=on_progress,
        )
        return report

    def sync(
        self,
        sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        *,
        dry_run: bool = False,
        on_progress: OnImportProgress | None = None,
    ) -> ImportReport:
        """Bring what agents wrote since the last time. A file that did not change is not opened, one that has
        grown is read from where the last time ended, and a last line without its end waits for it. What a
        program has deleted since stays here. The report is about files that were read.

        Args:
            sources: Files and directories; None: the usual places of all known agents on this machine.
            dry_run: Only say what would be brought. Writes nothing.
            on_progress: Told how far it is.
        """
        self._scope.outside("Store.sync()")
        given = [sources] if isinstance(sources, str | os.PathLike) else sources
        sync = _edge("clew.importers.sync").Sync(
            lambda **_: self, given, dry_run=dry_run, on_progress=on_progress
        )
        report: ImportReport = sync.all()
        return report

    def load(
        self,
        source: SourceSession,
        *,
        dry_run: bool = False,
        rename: bool = False,
        on_refused: Callable[[str, InvalidError], None] | None = None,
    ) -> Loaded:
        """Bring one session of another program into this store: once, and the next time what is new.

        Its entries keep their own times, and go behind the parents that they name; the head is where the
        source says, unless it was moved here since. There is nothing to undo. A model call of which the
        source does not tell the cost is estimated by the price list, as in `add_usage`, at its own time.

        Args:
            source: As `clew.importers.contract` describes it.
            dry_run: Only say what would be brought. Writes nothing.
            rename: Give it a new id if the store has another session of its id; else ConflictError.
            on_refused: Told of entries that cannot be kept, and why; without it the first one raises.
        """
        from clew.core.engine.redaction import incoming
        from clew.core.load.load import load

        engine = self._scope.outside("Store.load()")
        return load(
            engine,
            source,
            dry_run=dry_run,
            rename=rename,
            on_refused=on_refused or _refuse,
            redactor=None if self.redaction == "off" else incoming(engine, writes=not dry_run),
        )

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        on_progress: OnCopyProgress | None = None,
    ) -> BackupReport:
        """Write the whole store, as it is at one moment, into one SQLite file that `clew.open` opens.

        Args:
            path: The file. It appears when it is whole and durable, readable by its owner only.
            overwrite: Replace what is there; else that is refused.
            on_progress: Called from time to time with a `CopyProgress`, unless the backup is one step.

        Others go on writing meanwhile; what they commit after the moment of the backup is not in it.
        """
        from clew.core.transfer.backup import backup

        engine = self._scope.outside("Store.backup()")
        return backup(engine, path, overwrite=overwrite, on_progress=on_progress)

    def repair(
        self, *, to: str | os.PathLike[str], on_progress: OnCopyProgress | None = None
    ) -> RepairReport:
        """Bring all that can be read of this store into a new one. This one is not changed.

        Args:
            to: The address of the new store, of any kind. A file that is there is refused, and so is a
                store on a server that holds something. It can be opened when it is whole.
            on_progress: Called from time to time with a `CopyProgress`.

        No program should write to the store meanwhile. `lost` in the report names everything that could not
        be brought over. An entry that is lost leaves an empty place of kind "removed", so that all others
        keep their positions and hashes.
        """
        from clew.core.transfer.repair import repair

        return repair(self._scope.outside("Store.repair()"), to, on_progress)

    # -- upkeep: nothing is ever removed unless a rule says so

    @property
    def retention(self) -> Retention:
        """The rules of this store, for every process that uses it."""
        from clew.core.retention import records

        with self._scope.read() as reader:
            return records.rules_of(reader)

    def set_retention(self, rules: Retention) -> None:
        """Let these rules hold from the next sweep on, instead of those before.

        They are kept in the store, for all who use it. `Retention()` switches everything off.
        """
        from clew.core.retention import records
        from clew.core.retention.rules import checked

        new, moment = checked(rules), self._scope.host.moment()
        self._scope.run(lambda tx: records.set_rules(tx, new, moment))

    @property
    def redaction(self) -> RedactionPolicy:
        """Where definite secrets are replaced by markers before anything is stored, for every process that
        uses this store: "import" (what `import_path` and `load` bring), "all" (appends too), or "off"."""
        from clew.core.engine.redaction import policy_of

        with self._scope.read() as reader:
            return policy_of(reader)

    def set_redaction(self, policy: RedactionPolicy) -> None:
        """Let this policy hold for all that is stored from now on. What is stored stays as it is.

        It is kept in the store, for all who use it. Appends of a process that has the store open already go
        by it when that process opens it again.
        """
        from clew.core.engine.redaction import check_policy, set_policy

        new = check_policy(policy)
        engine = self._scope.outside("Store.set_redaction()")
        engine.run(lambda tx: set_policy(tx, new))
        engine.forget_policy()

    def sweep(
        self, *, rules: Retention | None = None, dry_run: bool = False, scrub: bool = False
    ) -> SweepReport:
        """Do what the rules say, now: expire, trash, purge, remove messages.

        Args:
            rules: Go by these, this once, instead of those of the store. They are not kept; every session
                is looked at. `max_events` cannot be one of them: it is applied as events are added.
            dry_run: Only say what would be done. Writes nothing at all.
            scrub: Rewrite the store's file at the end, so that no byte of what was purged or removed
                is left in it. That takes as long as copying it; without it the bytes stay in free
                space until it is used again.

        LeaseHeldError if another sweep of this store is under way.
        """
        from clew.core import maintenance

        once = None if rules is None else maintenance.check_rules(rules)
        if dry_run:
            return maintenance.preview_sweep(self._scope, once)
        return maintenance.sweep_now(self._scope.outside("Store.sweep()"), once, scrub=scrub)

    def maintain(self, *, every: float = 300.0) -> Maintenance:
        """Sweep now and every so many seconds, in a thread of its own, until it is stopped.

        Any number of processes may do this: one that finds another one sweeping waits for its next turn.
        Closing the store stops it.
        """
        from clew.core.maintenance import Maintenance

        self._scope.outside("Store.maintain()")
        started = Maintenance(self.sweep, check_seconds(every, "every", most=1e9))
        self._maintenances = (*(one for one in self._maintenances if one.is_running), started)
        return started

    def removals(self, *, limit: int = 100) -> builtins.list[Removal]:
        """What sweeps have put in the trash, purged and removed; newest first."""
        from clew.core.retention import records

        most = check_limit(limit)
        with self._scope.read() as reader:
            return records.removals(reader, most)

    def verify(
        self, *, full: bool = True, time_limit: float | None = None, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        """Check that all conversations and all snapshots are whole.

        Args:
            full: Read all of it: entries and objects are compared with their hashes, events, model calls
                and indices are read; else only whether all is there, and whether what leads somewhere leads
                to what exists.
            time_limit: Seconds after which to end with what was found; `complete` says if it did.
            on_progress: Called from time to time with a `FileProgress`.

        Nothing is changed or locked; what others purge meanwhile is no problem.
        """
        return self._files.verify(full=full, time_limit=time_limit, on_progress=on_progress)

    def vacuum(self) -> int:
        """Give the space that nothing uses back to the system; how many bytes that was.

        It rewrites the store, which takes as long as copying it, and removes nothing that can be reached:
        that is for `gc` and retention. Others wait meanwhile; StoreBusyError if they kept it from running.
        """
        from clew.core.maintenance import vacuum

        return vacuum(self._scope.outside("Store.vacuum()"))


def transaction(engine: Engine, work: Callable[[Store], T], run: Run | None) -> Callable[[Transaction], T]:
    """The operation that `transact` commits."""
    return transaction_of(engine, lambda scope: work(_store_in(scope, run)))


def _store_in(scope: TransactionScope, run: Run | None = None) -> Store:
    """A store whose handles stand in a scope. Not by its constructor: there is nothing to open."""
    kind = scope.offered(Store)
    store = kind.__new__(kind)
    store._scope = scope
    store._run = run
    return store


def _row(reader: Reader, id: str) -> SessionRow:
    row = points.find(reader, check_id(id))
    if row is None:
        raise SessionNotFoundError(id)
    return row


def _refuse(uid: str, error: InvalidError) -> None:
    raise error


def _edge(name: str) -> Any:
    """A package above this one: formats stand on the public objects, which only know their names."""
    from importlib import import_module

    return import_module(name)
