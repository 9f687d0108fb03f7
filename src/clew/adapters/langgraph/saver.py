"""`ClewSaver`: the protocol of LangGraph's checkpoint savers, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from typing import Any, TypeVar

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

import clew
from clew.adapters.common import faces
from clew.adapters.langgraph.documents import Codec, Place, checkpoints_of, default_serializer
from clew.adapters.langgraph.log import Memory
from clew.adapters.langgraph.put import (
    FRAMEWORK,
    Put,
    Stale,
    Thread,
    Unsettled,
    is_waiting,
    place_of,
    thread_named,
    thread_of,
    with_id,
    writing,
)
from clew.adapters.langgraph.read import PAGE, Active, Found, Listing, Reader, newest_of_all
from clew.adapters.langgraph.threads import Moving, Upkeep
from clew.model.session import microseconds

T = TypeVar("T")

_MOST_TRIES = 50


class ClewSaver(BaseCheckpointSaver[Any]):
    """A checkpoint saver for `compile(checkpointer=…)`, for sync and async graphs.

    Args:
        store: An open store, from `clew.open()` or `clew.open_async()`. The saver does not close it.
        serde: The serializer that writes and reads values; by default LangGraph's own. It makes objects of
            the types that LangGraph knows to be safe, and, with a warning for each class, of classes of data
            (dataclasses, pydantic models, enums, named tuples) that the program has imported, unless
            LANGGRAPH_STRICT_MSGPACK is set. Any other value comes back as its data. Another serializer may
            encrypt, so with one no message goes to the log, where it could be read.
        allow: Be strict: make objects only of types that are known to be safe, and of these classes. A value
            of another class comes back as its data, with a warning. Not together with `serde`.
        purge: `delete_thread` removes threads for good, instead of putting them in the trash.
        run: Write under the lease of this run. The saver can then write to no thread but that of the run.
    """

    def __init__(
        self,
        store: clew.Store | clew.AsyncStore,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type] | None = None,
        purge: bool = False,
        run: clew.Run | None = None,
    ) -> None:
        if serde is not None and allow is not None:
            raise clew.InvalidError(
                "give serde= or allow=, not both: a serializer of your own decides which classes it makes"
            )
        super().__init__(serde=serde or default_serializer(allow))
        self._store, self._async = faces(store)
        self._memory = Memory()
        self._purge = purge
        self._run = run

    # -- beyond LangGraph

    def session(self, thread_id: str) -> clew.Session:
        """The session of a thread: to checkpoint it with files, to export it, to look at its tree."""
        thread = thread_named(thread_id)
        return thread.find(self._store) or self._store.get(thread.session)

    def threads(self, *, limit: int = 50, cursor: str | None = None) -> clew.Page:
        """One page of the threads of this store, newest activity first."""
        page = self._store.list(where={"framework": FRAMEWORK}, limit=limit, cursor=cursor)
        named = [{**info.metadata, "thread_id": Thread.kept_as(info).id} for info in page]
        infos = (
            msgspec.structs.replace(info, metadata=known) for info, known in zip(page, named, strict=True)
        )
        return clew.Page(tuple(infos), page.cursor)

    # -- the protocol

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, place = thread_of(config), place_of(config)
        get = partial(self._reader.get, thread=thread, place=place, config=config)
        try:
            return self._store.read(get)
        except Unsettled:
            self._settle(thread)
            return self._store.read(partial(get, is_settled=True))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, place = thread_of(config), place_of(config)
        get = partial(self._reader.get, thread=thread, place=place, config=config)
        try:
            return await self._async.read(get)
        except Unsettled:
            await asyncio.to_thread(self._settle, thread)
            return await self._async.read(partial(get, is_settled=True))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = self._put(config, checkpoint, metadata, new_versions)
        is_ready = put.is_ready()
        for _ in range(_MOST_TRIES):
            if not is_ready:
                self._store.read(put.look)
            try:
                put.remember(self._transact(put.commit, thread_of(config)))
            except Stale:
                is_ready = False
            else:
                if self._memory.claim_sweep(thread_of(config).session):
                    self._drop_removed(thread_of(config))
                return with_id(config, checkpoint["id"])
        raise _never_still(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = self._put(config, checkpoint, metadata, new_versions)
        is_ready = put.is_ready()
        for _ in range(_MOST_TRIES):
            if not is_ready:
                await self._async.read(put.look)
            try:
                put.remember(await self._atransact(put.commit, thread_of(config)))
            except Stale:
                is_ready = False
            else:
                if self._memory.claim_sweep(thread_of(config).session):
                    await asyncio.to_thread(self._drop_removed, thread_of(config))
                return with_id(config, checkpoint["id"])
        raise _never_still(config)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._transact(self._writing(config, writes, task_id, task_path), thread_of(config))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._atransact(self._writing(config, writes, task_id, task_path), thread_of(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        listing = Listing(config, before, limit)
        candidates = partial(self._candidates, listing=listing)
        if config is None:
            of_threads = newest_of_all(self._all_threads(), candidates)
        else:
            of_threads = ((thread, found) for thread in [thread_of(config)] for found in candidates(thread))
        for thread, found in of_threads:
            if listing.is_full:
                return
            if not listing.has(found) or not self._reader.matches(found.head, filter):
                continue
            loaded = self._loaded(thread, found)
            if loaded is not None:
                listing.count += 1
                yield loaded

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        listing = self.list(config, filter=filter, before=before, limit=limit)
        while (found := await asyncio.to_thread(next, listing, None)) is not None:
            yield found

    def delete_thread(self, thread_id: str) -> None:
        thread = thread_named(thread_id)
        self._before_deletion(thread)
        self._store.delete(thread.session, purge=self._purge)
        self._memory.paths.forget(thread.session)

    async def adelete_thread(self, thread_id: str) -> None:
        thread = thread_named(thread_id)
        await asyncio.to_thread(self._before_deletion, thread)
        await self._async.delete(thread.session, purge=self._purge)
        self._memory.paths.forget(thread.session)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(run_ids)
        for active in list(self._all_threads()) if runs else ():
            self._delete_runs(active.thread, runs)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = thread_named(source_thread_id), thread_named(target_thread_id)
        self._transact(lambda store: self._upkeep.copy(store, source, target), target)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = thread_named(source_thread_id), thread_named(target_thread_id)
        await self._atransact(lambda store: self._upkeep.copy(store, source, target), target)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        _check_strategy(strategy)
        for id in thread_ids:
            if strategy == "delete":
                self.delete_thread(id)
            else:
                self._keep_latest(thread_named(id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        if not channels:
            return {}
        thread, place = thread_of(config), place_of(config)
        return self._look(lambda store: self._reader.delta_history(store, thread, place, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        if not channels:
            return {}
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The next version of a channel: versions are counted. A thread that another saver began keeps its
        form.

        Other savers put a random part into a version, because two branches with the same count would share a
        value. Here a checkpoint says where its values are, so branches share nothing by accident.
        """
        if current is None:
            return 1
        if isinstance(current, str):
            number, _, random = current.partition(".")
            following = str(int(number) + 1).zfill(len(number))
            return f"{following}.{random}" if random else following
        return current + 1

    # -- inside

    @property
    def _codec(self) -> Codec:
        # Not kept: `with_allowlist` gives a copy of the saver another serializer.
        return Codec(self.serde)

    @property
    def _reader(self) -> Reader:
        return Reader(self._codec, self._memory)

    @property
    def _upkeep(self) -> Upkeep:
        return Upkeep(self._codec, self._reader)

    @property
    def _moving(self) -> Moving:
        return Moving(self._codec, self._reader)

    def _look(self, work: Callable[[clew.Store], T]) -> T:
        """Read a thread, also if Clew has moved it."""
        try:
            return self._store.read(work)
        except Unsettled as unsettled:
            self._settle(unsettled.thread)
            return self._store.read(work)

    def _settle(self, thread: Thread) -> None:
        """Write what a thread that Clew has moved needs before it can go on."""
        run = self._run if self._run is not None and self._is_of_run(thread) else None
        try:
            self._store.transact(lambda store: self._moving.settle(store, thread), run=run)
        except (clew.LeaseHeldError, clew.errors.ReadOnlyError):
            # A rewound thread can be read without writing to it; a fork has nothing to read yet.
            if self._store.read(lambda store: is_waiting(store.get(thread.session))):
                raise

    def _transact(self, work: Callable[[clew.Store], T], thread: Thread) -> T:
        """Change a thread, also if Clew has moved it."""
        self._check_run(thread)
        try:
            return self._store.transact(work, run=self._run)
        except Unsettled as unsettled:
            self._settle(unsettled.thread)
            return self._store.transact(work, run=self._run)

    async def _atransact(self, work: Callable[[clew.Store], T], thread: Thread) -> T:
        if self._run is not None:
            return await asyncio.to_thread(self._transact, work, thread)
        try:
            return await self._async.transact(work)
        except Unsettled as unsettled:
            await asyncio.to_thread(self._settle, unsettled.thread)
            return await self._async.transact(work)

    def _check_run(self, thread: Thread) -> None:
        """Refuse any thread but that of the run: a run holds the lease of no other."""
        if self._run is not None and not self._is_of_run(thread):
            raise clew.InvalidError(
                f"this saver writes under the lease of a run of thread {self._run.id!r}, so it cannot write "
                f"to thread {thread.id!r}: use another ClewSaver for that thread"
            )

    def _is_of_run(self, thread: Thread) -> bool:
        assert self._run is not None
        if self._run.id == thread.session:
            return True
        found = self._store.find(thread.session)
        return found is not None and found.id == self._run.id

    def _before_deletion(self, thread: Thread) -> None:
        """Refuse a session of another framework, and give forks of the thread their own checkpoints."""
        self._transact(lambda store: self._moving.settle_forks(store, thread), thread)

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Put:
        return Put(
            self._codec,
            self._memory,
            thread_of(config),
            Place(place_of(config).ns, checkpoint["id"]),
            get_checkpoint_id(config) or None,
            dict(checkpoint),
            dict(get_checkpoint_metadata(config, metadata)),
            dict(new_versions),
        )

    def _drop_removed(self, thread: Thread) -> None:
        self._transact(lambda store: self._upkeep.drop_removed(store, thread), thread)

    def _writing(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> Callable[[clew.Store], None]:
        return writing(self._codec, thread_of(config), place_of(config), writes, task, path)

    def _all_threads(self) -> Iterator[Active]:
        """All threads, newest activity first, in pages that grow: most callers need only the first few."""
        cursor: str | None = None
        count = 8
        while True:
            page = self._store.list(where={"framework": FRAMEWORK}, limit=count, cursor=cursor)
            for info in page:
                yield Active(Thread.kept_as(info), microseconds(info.updated_at))
            cursor, count = page.cursor, min(2 * count, 512)
            if cursor is None:
                return

    def _candidates(self, thread: Thread, listing: Listing) -> Iterator[Found]:
        """The checkpoints of a thread, newest first, from where the listing begins."""
        prefixes: Sequence[str] | None
        if listing.ns is not None:
            prefixes = [checkpoints_of(listing.ns)]
        else:
            prefixes = self._look(lambda store: self._reader.prefixes(store, thread))
        if prefixes is None:
            return iter(self._look(lambda store: self._reader.everything(store, thread)))
        pages = (self._pages(thread, prefix, listing) for prefix in prefixes)
        return merge(*pages, key=lambda found: found.id, reverse=True)

    def _pages(self, thread: Thread, prefix: str, listing: Listing) -> Iterator[Found]:
        after, count = listing.begin(prefix), listing.page
        while True:
            page, after = self._page(thread, prefix, after, count)
            count = min(2 * count, PAGE)
            yield from page
            if after is None:
                return

    def _page(
        self, thread: Thread, prefix: str, after: str | None, count: int
    ) -> tuple[Sequence[Found], str | None]:
        return self._look(lambda store: self._reader.page(store, thread, prefix, after, count))

    def _loaded(self, thread: Thread, found: Found) -> CheckpointTuple | None:
        return self._store.read(lambda store: self._reader.load(store, thread, found))

    def _delete_runs(self, thread: Thread, runs: set[str]) -> None:
        session = thread.session
        if self._store.read(lambda store: self._upkeep.knows_run(store, session, runs)):
            self._transact(lambda store: self._upkeep.drop_runs(store, session, runs), thread)

    def _keep_latest(self, thread: Thread) -> None:
        self._transact(lambda store: self._upkeep.keep_latest(store, thread), thread)


def _check_strategy(strategy: str) -> None:
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")


def _never_still(config: RunnableConfig) -> clew.ClewError:
    thread = config["configurable"]["thread_id"]
    return clew.ConflictError(
        f"other writers changed thread {thread!r} {_MOST_TRIES} times in a row: put the checkpoint again"
    )
