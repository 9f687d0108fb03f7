"""`Store` for tasks: the same methods, with `await`. What each promises is written there."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from clew.aio.bridge import Bridge
from clew.aio.session import AsyncSession
from clew.backends.contract import Backend, Capabilities
from clew.core.engine.host import Clock, wall_clock
from clew.core.engine.transaction import NeedsPreparation
from clew.errors import SessionNotFoundError, StoreClosedError
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
from clew.store import DEFAULT_SESSION, MOST_READ, Store, copy, transaction
from clew.store import open as open_sync

if TYPE_CHECKING:
    from typing import Unpack

    from clew.aio.session import AsyncRun
    from clew.core.conversation.points import Point
    from clew.core.conversation.sessions import SessionSettings
    from clew.core.maintenance import Maintenance
    from clew.core.streams.usage import Money
    from clew.errors import InvalidError
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

T = TypeVar("T")

LONGEST_WAIT = 0.5
"""Seconds for which a thread waits on behalf of a task: one that is cancelled leaves no thread for long."""


def open_async(url: str | os.PathLike[str] | None = None, **options: Any) -> Opening:
    """Open a store for tasks: `store = await open_async(…)` or `async with open_async(…) as store`.

    Takes what `clew.open` takes.
    """
    return Opening(url, options)


class Opening:
    """A store about to be opened."""

    def __init__(self, url: str | os.PathLike[str] | None, options: dict[str, Any]) -> None:
        self._url = url
        self._options = options
        self._store: AsyncStore | None = None

    async def _open(self) -> AsyncStore:
        opening = asyncio.get_running_loop().run_in_executor(None, partial(_opened, self._url, self._options))
        try:
            self._store = AsyncStore.over(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        return self._store

    def __await__(self) -> Generator[Any, Any, AsyncStore]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncStore:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()


def _opened(url: str | os.PathLike[str] | None, options: dict[str, Any]) -> Store:
    store = open_sync(url, **options)
    store._engine.redactor()  # an append does not wait for it then, in a thread that must not wait
    return store


def _close_unwanted(opening: asyncio.Future[Store]) -> None:
    """The task that wanted the store was cancelled while it was opened."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


AsyncPlace: TypeAlias = "AsyncStore | Store | str | os.PathLike[str]"


async def copy_async(
    src: AsyncPlace,
    dst: AsyncPlace,
    *,
    sessions: Sequence[str] | None = None,
    on_conflict: OnCopyConflict = "refuse",
    on_progress: OnCopyProgress | None = None,
) -> CopyReport:
    """As `clew.copy`, in a thread of its own, where `on_progress` is called too. Cancelling the await does
    not stop the copy."""
    work = partial(
        copy,
        _plain(src),
        _plain(dst),
        sessions=sessions,
        on_conflict=on_conflict,
        on_progress=on_progress,
    )
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _plain(place: AsyncPlace) -> Store | str | os.PathLike[str]:
    return place._store if isinstance(place, AsyncStore) else place


class AsyncStore:
    """The sessions of one store. As `Store`, with `await`, also for `retention` and `redaction`; usable from
    any number of event loops. `on_progress` is called in another thread."""

    def __init__(self, backend: Backend, *, clock: Clock = wall_clock, steady: Clock | None = None) -> None:
        self._use(Store(backend, clock=clock, steady=steady))

    @classmethod
    def over(cls, store: Store) -> AsyncStore:
        """The async face of a store that is open already."""
        self = cls.__new__(cls)
        self._use(store)
        return self

    def _use(self, store: Store) -> None:
        self._store = store
        # One for all that use this store with await: adapters make many of these.
        self._bridge = store._scope.outside("AsyncStore.over()").service(Bridge)
        self._call = self._bridge.call

    def __repr__(self) -> str:
        return f"<AsyncStore {self.location}>"

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def blocking(self) -> Store:
        """The same store for code that may block."""
        return self._store

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    async def close(self) -> None:
        """Flush and close. Idempotent; raises what `flush` would raise."""
        if self._bridge.closed:
            return
        try:
            await self._call(self._store.close)
        finally:
            self._bridge.stop()

    # -- sessions

    async def session(
        self,
        id: str = DEFAULT_SESSION,
        *,
        created_at: datetime | None = None,
        **settings: Unpack[SessionSettings],
    ) -> AsyncSession:
        found = await self._call(self._store.session, id, created_at=created_at, **settings)
        return AsyncSession(self._bridge, found)

    async def create(
        self,
        id: str | None = None,
        *,
        created_at: datetime | None = None,
        **settings: Unpack[SessionSettings],
    ) -> AsyncSession:
        made = await self._call(self._store.create, id, created_at=created_at, **settings)
        return AsyncSession(self._bridge, made)

    async def upsert(
        self,
        id: str,
        *,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        **settings: Unpack[SessionSettings],
    ) -> AsyncSession:
        found = await self._call(
            self._store.upsert, id, created_at=created_at, updated_at=updated_at, **settings
        )
        return AsyncSession(self._bridge, found)

    async def get(self, id: str) -> AsyncSession:
        found = await self.find(id)
        if found is None:
            raise SessionNotFoundError(id)
        return found

    async def find(self, id: str) -> AsyncSession | None:
        found = await self._call(self._store.find, id)
        return None if found is None else AsyncSession(self._bridge, found)

    async def list(
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
        return await self._call(
            self._store.list,
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

    async def facets(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        limit: int = 50,
    ) -> Facets:
        return await self._call(self._store.facets, workspace=workspace, tag=tag, limit=limit)

    async def compare(
        self, a: str, b: str, *, a_at: Point | None = None, b_at: Point | None = None
    ) -> Comparison:
        return await self._call(self._store.compare, a, b, a_at=a_at, b_at=b_at)

    async def latest(self, *, workspace: str | os.PathLike[str] | None = None) -> AsyncSession | None:
        found = await self._call(self._store.latest, workspace=workspace)
        return None if found is None else AsyncSession(self._bridge, found)

    async def interrupted(self) -> builtins.list[AsyncSession]:
        found = await self._call(self._store.interrupted)
        return [AsyncSession(self._bridge, session) for session in found]

    async def delete(
        self, id: str, *, purge: bool = False, force: bool = False, deleted: bool = False
    ) -> bool:
        return await self._call(self._store.delete, id, purge=purge, force=force, deleted=deleted)

    async def restore_deleted(self, id: str) -> AsyncSession:
        return AsyncSession(self._bridge, await self._call(self._store.restore_deleted, id))

    async def clear(self, *, confirm: bool = False, purge: bool = False, force: bool = False) -> int:
        return await self._call(self._store.clear, confirm=confirm, purge=purge, force=force)

    # -- reading

    async def search(
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
        return await self._call(
            self._store.search,
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

    async def stats(self) -> Stats:
        return await self._call(self._store.stats)

    @overload
    async def usage(
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
    async def usage(
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
    async def usage(
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
        return await self._call(
            lambda: self._store.usage(
                by=by,
                since=since,
                until=until,
                tz=tz,
                model=model,
                agent=agent,
                project=project,
                workspace=workspace,
                tag=tag,
                subagents=subagents,
            )
        )

    async def read(self, work: Callable[[Store], T]) -> T:
        return await self._call(self._store.read, work)

    async def watch(
        self, after: str | None = None, *, wait: bool = True, every: float = 10.0
    ) -> AsyncIterator[Change]:
        from clew.core.streams.watch import Watcher

        watcher = await self._call(Watcher, self._store._engine, after, every)
        while True:
            try:
                changes = await self._call(watcher.look)
            except StoreClosedError:
                return
            for change in changes:
                yield change
            if not wait:
                return
            while not await asyncio.to_thread(watcher.pause, LONGEST_WAIT):
                pass

    # -- writing

    async def transact(self, work: Callable[[Store], T], *, run: AsyncRun | None = None) -> T:
        operation = transaction(self._store._engine, work, None if run is None else run._run)
        while True:
            try:
                return await self._bridge.commit(operation)
            except NeedsPreparation as needs:
                await self._call(needs.prepare)

    async def flush(self) -> None:
        await self._call(self._store.flush)

    # -- files

    async def snapshot(
        self,
        root: str | os.PathLike[str],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_file_bytes: int | None = None,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Snapshot:
        return await self._call(
            self._store.snapshot,
            root,
            include=include,
            exclude=exclude,
            max_file_bytes=max_file_bytes,
            force=force,
            on_progress=on_progress,
        )

    def watch_files(self, root: str | os.PathLike[str], *, force: bool = False) -> Watch:
        return self._store.watch_files(root, force=force)

    async def snapshots(
        self, *, root: str | os.PathLike[str] | None = None, limit: int = 100, before: str | None = None
    ) -> builtins.list[Snapshot]:
        return await self._call(self._store.snapshots, root=root, limit=limit, before=before)

    async def get_snapshot(self, id: str) -> Snapshot:
        return await self._call(self._store.get_snapshot, id)

    async def sessions_with_snapshot(self, id: str) -> builtins.list[AsyncSession]:
        found = await self._call(self._store.sessions_with_snapshot, id)
        return [AsyncSession(self._bridge, session) for session in found]

    async def list_files(
        self,
        snap: Snapshot | str,
        path: str = "",
        *,
        after: str | None = None,
        limit: int = 1000,
        deep: bool = True,
    ) -> builtins.list[SnapshotFile]:
        return await self._call(self._store.list_files, snap, path, after=after, limit=limit, deep=deep)

    async def read_file(
        self,
        snap: Snapshot | str,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        max_bytes: int = MOST_READ,
    ) -> bytes:
        return await self._call(
            self._store.read_file, snap, path, start=start, length=length, max_bytes=max_bytes
        )

    async def delete_snapshot(self, id: str) -> bool:
        return await self._call(self._store.delete_snapshot, id)

    async def restore(
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
        return await self._call(
            self._store.restore,
            snap,
            root,
            paths=paths,
            dry_run=dry_run,
            on_conflict=on_conflict,
            force=force,
            on_progress=on_progress,
        )

    async def undo_restore(
        self,
        restore: RestoreReport | str,
        root: str | os.PathLike[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> RestoreReport:
        return await self._call(self._store.undo_restore, restore, root, dry_run=dry_run)

    async def pending_restores(self) -> builtins.list[PendingRestore]:
        return await self._call(self._store.pending_restores)

    async def finish_restore(
        self, id: str, root: str | os.PathLike[str] | None = None, *, dry_run: bool = False
    ) -> RestoreReport:
        return await self._call(self._store.finish_restore, id, root, dry_run=dry_run)

    async def diff(
        self,
        a: Snapshot | str,
        b: Snapshot | str | os.PathLike[str] | None = None,
        *,
        text: bool = False,
        renames: bool = True,
        after: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[FileDiff]:
        return await self._call(self._store.diff, a, b, text=text, renames=renames, after=after, limit=limit)

    async def gc(
        self,
        *,
        dry_run: bool = False,
        thorough: bool = False,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> GcReport:
        return await self._call(
            self._store.gc, dry_run=dry_run, thorough=thorough, merge=merge, on_progress=on_progress
        )

    # -- transfer

    async def export(
        self, id: str, format: ExportFormat, *, path: str | os.PathLike[str] | None = None, **options: Any
    ) -> str:
        return await self._call(self._store.export, id, format, path=path, **options)

    async def export_pieces(self, id: str, format: ExportFormat, **options: Any) -> AsyncIterator[bytes]:
        pieces = await self._call(self._store.export_pieces, id, format, **options)
        while (piece := await self._call(next, pieces, None)) is not None:
            yield piece

    async def import_path(
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
        return await self._call(
            self._store.import_path,
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

    async def sync(
        self,
        sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        *,
        dry_run: bool = False,
        on_progress: OnImportProgress | None = None,
    ) -> ImportReport:
        return await self._call(self._store.sync, sources, dry_run=dry_run, on_progress=on_progress)

    async def load(
        self,
        source: SourceSession,
        *,
        dry_run: bool = False,
        rename: bool = False,
        on_refused: Callable[[str, InvalidError], None] | None = None,
    ) -> Loaded:
        return await self._call(
            self._store.load, source, dry_run=dry_run, rename=rename, on_refused=on_refused
        )

    async def backup(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        on_progress: OnCopyProgress | None = None,
    ) -> BackupReport:
        return await self._call(self._store.backup, path, overwrite=overwrite, on_progress=on_progress)

    async def repair(
        self, *, to: str | os.PathLike[str], on_progress: OnCopyProgress | None = None
    ) -> RepairReport:
        return await self._call(self._store.repair, to=to, on_progress=on_progress)

    # -- upkeep

    @property
    def retention(self) -> Awaitable[Retention]:
        return self._call(lambda: self._store.retention)

    async def set_retention(self, rules: Retention) -> None:
        await self._call(self._store.set_retention, rules)

    @property
    def redaction(self) -> Awaitable[RedactionPolicy]:
        return self._call(lambda: self._store.redaction)

    async def set_redaction(self, policy: RedactionPolicy) -> None:
        await self._call(self._store.set_redaction, policy)

    async def sweep(
        self, *, rules: Retention | None = None, dry_run: bool = False, scrub: bool = False
    ) -> SweepReport:
        return await self._call(self._store.sweep, rules=rules, dry_run=dry_run, scrub=scrub)

    def maintain(self, *, every: float = 300.0) -> Maintenance:
        return self._store.maintain(every=every)

    async def removals(self, *, limit: int = 100) -> builtins.list[Removal]:
        return await self._call(self._store.removals, limit=limit)

    async def verify(
        self, *, full: bool = True, time_limit: float | None = None, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        return await self._call(self._store.verify, full=full, time_limit=time_limit, on_progress=on_progress)

    async def vacuum(self) -> int:
        return await self._call(self._store.vacuum)
