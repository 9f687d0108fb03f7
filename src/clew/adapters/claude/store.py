"""The Claude Agent SDK's session store over a Clew store."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import sniffio
from anyio import to_thread
from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

import clew
from clew.adapters.claude.files import FileCheckpoints
from clew.adapters.claude.transcript import (
    Place,
    deleted_subpaths_of,
    entry_of,
    find_session,
    lines_of,
    sessions_in,
    subpaths_of,
    summary_of,
    write_lines,
)
from clew.adapters.common import faces

# ── Which session holds which transcript: the keys of the Claude Agent SDK as ids and metadata ────

T = TypeVar("T")


class ClewSessionStore(SessionStore):
    """All six methods of the protocol, on any store of Clew.

    Each append is one transaction: the new lines, in their order, and the summary that covers them.
    A line whose uuid is stored already is skipped, so a batch may be sent again, whole or in part.
    Deleted sessions go to the trash of the store. Works under asyncio and trio.
    """

    def __init__(self, store: clew.Store | clew.AsyncStore, *, run: clew.AsyncRun | None = None) -> None:
        """`run`: write to the session of this run under its lease."""
        self._store, self._tasks = faces(store)
        self._run = run
        # A store in memory is faster than a change of threads.
        self._waits = run is not None or self._store.capabilities.durability != "memory"

    def __repr__(self) -> str:
        return f"<ClewSessionStore {self._store.location}>"

    # -- the protocol

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if entries:
            await self._write(partial(write_lines, place=Place.of(key), lines=_own(entries)))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        lines = await self._read(partial(lines_of, place=Place.of(key)))
        return cast("list[SessionStoreEntry] | None", lines)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        found = await self._read(partial(sessions_in, project=project_key))
        return [{"session_id": one.name, "mtime": one.mtime} for one in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        def read(store: clew.Store) -> list[SessionSummaryEntry]:
            return [
                {"session_id": one.name, "mtime": one.mtime, "data": summary_of(store.get(one.id), one.name)}
                for one in sessions_in(store, project_key)
            ]

        return await self._read(read)

    async def delete(self, key: SessionKey) -> None:
        place = Place.of(key)

        def remove(store: clew.Store) -> None:
            for subpath in () if place.subpath is not None else subpaths_of(store, place):
                store.delete(place._replace(subpath=subpath).id)
            if find_session(store, place) is not None:
                store.delete(place.id)

        await self._write(remove)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        place = Place(key["project_key"], key["session_id"])
        return await self._read(partial(subpaths_of, main=place))

    # -- beyond it

    def session(self, key: SessionKey) -> clew.Session:
        """The Clew session that holds a transcript: to checkpoint, rewind, fork or search it.
        SessionNotFoundError if there is none."""
        return self._store.get(Place.of(key).id)

    def restore_deleted(self, key: SessionKey) -> clew.Session:
        """Bring a deleted session back from the trash, and its subagents with it. SessionNotFoundError if it
        is not there."""
        place = Place.of(key)

        def bring_back(store: clew.Store) -> None:
            store.restore_deleted(place.id)
            for subpath in () if place.subpath is not None else deleted_subpaths_of(store, place):
                store.restore_deleted(place._replace(subpath=subpath).id)

        self._store.transact(bring_back)
        return self.session(key)

    def entry(self, key: SessionKey, uuid: str) -> str | None:
        """The id of the entry with the line of this uuid, on any branch; None: there is none.

        After `store.session(key).rewind(store.entry(key, uuid))` the agent resumes behind that line."""
        return self._store.read(partial(entry_of, place=Place.of(key), uuid=uuid))

    def file_checkpoints(
        self, root: str | os.PathLike[str], *, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> FileCheckpoints:
        """Keep the files of a directory before each prompt: give its `hooks` to `ClaudeAgentOptions`."""
        return FileCheckpoints(self._store, root, include=include, exclude=exclude)

    # -- from any event loop

    async def _write(self, work: Callable[[clew.Store], T]) -> T:
        if not self._waits:
            return self._store.transact(work)
        if _is_asyncio():
            return await self._tasks.transact(work, run=self._run)
        return await to_thread.run_sync(self._store.transact, work)

    async def _read(self, work: Callable[[clew.Store], T]) -> T:
        if not self._waits:
            return self._store.read(work)
        if _is_asyncio():
            return await self._tasks.read(work)
        return await to_thread.run_sync(self._store.read, work)


def _is_asyncio() -> bool:
    return sniffio.current_async_library() == "asyncio"


def _own(entries: list[SessionStoreEntry]) -> list[dict[str, Any]]:
    """A copy of the lines: the SDK may change its own while the commit runs."""
    try:
        lines: list[dict[str, Any]] = json.loads(json.dumps(entries))
    except (TypeError, ValueError):
        lines = copy.deepcopy(cast("list[dict[str, Any]]", entries))  # the store will say what is wrong
    return lines
