"""`Store` for tasks. What each method promises is written there."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from clew.aio.bridge import Bridge
from clew.aio.care import AsyncCare
from clew.aio.porting import AsyncPorting
from clew.aio.searching import AsyncSearching
from clew.aio.session import AsyncSession
from clew.aio.store_files import AsyncStoreFiles
from clew.aio.upkeep import AsyncUpkeep
from clew.backends.contract import Backend, Capabilities
from clew.core.engine.host import Clock, wall_clock
from clew.core.engine.transaction import NeedsPreparation
from clew.errors import SessionNotFoundError, StoreClosedError
from clew.model import Json, Page, Stats, Status, UsageGroup, UsageKey, UsageTotals
from clew.store import DEFAULT_SESSION, Store
from clew.store import open as open_sync

if TYPE_CHECKING:
    from clew.aio.run import AsyncRun
    from clew.model.session import Change

T = TypeVar("T")


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
        opening = asyncio.get_running_loop().run_in_executor(
            None, partial(open_sync, self._url, **self._options)
        )
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


def _close_unwanted(opening: asyncio.Future[Store]) -> None:
    """The task that wanted the store was cancelled while it was opened."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class AsyncStore(AsyncUpkeep, AsyncCare, AsyncStoreFiles, AsyncPorting, AsyncSearching):
    """The sessions of one store. As `Store`, with `await`; usable from any number of event loops."""

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
    def sync(self) -> Store:
        """The same store for code that may block."""
        return self._store

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    async def transact(self, work: Callable[[Store], T], *, run: AsyncRun | None = None) -> T:
        engine = self._store._engine
        operation = self._store._transaction(engine, work, None if run is None else run._run)
        while True:
            try:
                return await self._bridge.commit(operation)
            except NeedsPreparation as needs:
                await self._call(needs.prepare)

    async def read(self, work: Callable[[Store], T]) -> T:
        return await self._call(self._store.read, work)

    async def session(
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
    ) -> AsyncSession:
        found = await self._call(
            self._store.session,
            id,
            title=title,
            workspace=workspace,
            tags=tags,
            vendor=vendor,
            endpoint=endpoint,
            model=model,
            metadata=metadata,
            expires_at=expires_at,
            idle_timeout=idle_timeout,
            created_at=created_at,
        )
        return AsyncSession(self._bridge, found)

    async def create(
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
    ) -> AsyncSession:
        made = await self._call(
            self._store.create,
            id,
            title=title,
            workspace=workspace,
            tags=tags,
            vendor=vendor,
            endpoint=endpoint,
            model=model,
            metadata=metadata,
            expires_at=expires_at,
            idle_timeout=idle_timeout,
            created_at=created_at,
        )
        return AsyncSession(self._bridge, made)

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
        tag: str | Sequence[str] | None = None,
        where: Mapping[str, Json] | None = None,
        limit: int = 50,
        cursor: str | None = None,
        deleted: bool = False,
    ) -> Page:
        return await self._call(
            self._store.list,
            status=status,
            workspace=workspace,
            tag=tag,
            where=where,
            limit=limit,
            cursor=cursor,
            deleted=deleted,
        )

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

    async def stats(self) -> Stats:
        return await self._call(self._store.stats)

    @overload
    async def usage(
        self, *, by: None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals: ...
    @overload
    async def usage(
        self, *, by: UsageKey, since: datetime | None = None, until: datetime | None = None
    ) -> dict[UsageGroup, UsageTotals]: ...
    async def usage(
        self, *, by: UsageKey | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> UsageTotals | dict[UsageGroup, UsageTotals]:
        return await self._call(lambda: self._store.usage(by=by, since=since, until=until))

    async def watch(
        self, after: str | None = None, *, wait: bool = True, every: float = 0.5
    ) -> AsyncIterator[Change]:
        from clew.core.watch.watch import Watcher

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
            await asyncio.to_thread(watcher.pause)

    async def flush(self) -> None:
        await self._call(self._store.flush)

    async def close(self) -> None:
        """Flush and close. Idempotent; raises what `flush` would raise."""
        if self._bridge.closed:
            return
        try:
            await self._call(self._store.close)
        finally:
            self._bridge.stop()
