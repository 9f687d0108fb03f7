"""A store: everything under one address."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import msgspec
from uuid_utils import uuid7

from clew.backends.contract import Backend, Capabilities
from clew.backends.registry import connect
from clew.core.ids import check_id
from clew.core.listing import make_cursor, read_cursor, wanted
from clew.core.rows import SessionQuery, SessionRow
from clew.engine import Clock, Engine, wall_clock
from clew.errors import InvalidError, InvalidQueryError, SessionNotFoundError
from clew.model import Json, Page, Stats
from clew.session import Session, settings
from clew.work import places, sessions
from clew.work import purge as removal
from clew.workspace import normalised

DEFAULT_SESSION: Final = "default"
MOST_LISTED: Final = 2**31


def open(url: str | os.PathLike[str] | None = None, **options: Any) -> Store:
    """Open a store, creating it if need be.

    Args:
        url: A path or `sqlite:///path` (one SQLite file) or `memory:`. None: what $CLEW_STORE
            names, else the user's own store.
        options: `durability="process"` (survives the end of the process, not power loss; default
            "full"), `timeout` in seconds to wait for other writers, `read_only=True`.
    """
    return Store(connect(url, **options))


class Store:
    """The sessions of one store. Safe to use from any thread; close it, or use it as a context manager."""

    def __init__(self, backend: Backend, *, clock: Clock = wall_clock) -> None:
        self._engine = Engine(backend, clock)

    def __repr__(self) -> str:
        return f"<Store {self._engine.backend.location}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _handle(self, row: SessionRow) -> Session:
        return Session(self._engine, row.sid, row.id)

    @property
    def location(self) -> str:
        """Where the store is, fit to be shown."""
        return self._engine.backend.location

    @property
    def capabilities(self) -> Capabilities:
        """What the store promises."""
        return self._engine.backend.capabilities

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
    ) -> Session:
        """The session of this id or alias; created if there is none, and only then with these settings."""
        changes = _initial(title, workspace, tags, vendor, endpoint, model, metadata)
        check_id(id)
        with self._engine.read() as reader:
            row = places.find(reader, id)
        if row is None:
            now = self._engine.now()
            row = self._engine.run(lambda tx: sessions.open_or_create(tx, id, changes, now))
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
    ) -> Session:
        """A new session; without an id it gets one that sorts by time. SessionExistsError if it is taken."""
        changes = _initial(title, workspace, tags, vendor, endpoint, model, metadata)
        new_id = str(uuid7()) if id is None else check_id(id)
        now = self._engine.now()
        return self._handle(self._engine.run(lambda tx: sessions.create(tx, new_id, changes, now)))

    def get(self, id: str) -> Session:
        """The session of this id or alias; SessionNotFoundError if there is none."""
        found = self.find(id)
        if found is None:
            raise SessionNotFoundError(id)
        return found

    def find(self, id: str) -> Session | None:
        """The session of this id or alias, or None."""
        with self._engine.read() as reader:
            row = places.find(reader, check_id(id))
        return None if row is None else self._handle(row)

    def list(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        where: Mapping[str, Json] | None = None,
        limit: int = 50,
        cursor: str | None = None,
        deleted: bool = False,
    ) -> Page:
        """Sessions, newest activity first; ties by id.

        Args:
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
        )
        with self._engine.read() as reader:
            found = reader.list_sessions(query)
            infos = tuple(sessions.info_of(reader, row, details) for row, details in found[:limit])
        if len(found) <= limit:
            return Page(infos, None)
        row = found[limit - 1][0]
        return Page(infos, make_cursor(row.updated if row.deleted is None else row.deleted, row.id))

    def latest(self, *, workspace: str | os.PathLike[str] | None = None) -> Session | None:
        """The session with the newest activity that has messages, or None."""
        place = None if workspace is None else normalised(workspace)
        query = SessionQuery(limit=1, workspace=place, nonempty=True)
        with self._engine.read() as reader:
            found = reader.list_sessions(query)
        return self._handle(found[0][0]) if found else None

    # -- deleting

    def delete(self, id: str, *, purge: bool = False) -> bool:
        """Put a session in the trash; False if there was none.

        With `purge` it is removed for good, from the trash too: when this returns, no byte of what
        only this session reached is left in the store. Forks keep all that they share with it.
        A purge rewrites the store's file: it takes as long as copying it.
        """
        check_id(id)
        if purge:
            was_there = self._engine.run(lambda tx: removal.purge_id(tx, id))
            self._scrub()
            return was_there
        now = self._engine.now()
        return self._engine.run(lambda tx: sessions.delete(tx, id, now))

    def _scrub(self) -> None:
        with self._engine.read() as reader:
            purge = removal.unscrubbed(reader)
        if purge is not None:
            self._engine.backend.scrub()
            self._engine.run(lambda tx: removal.scrubbed(tx, purge))

    def restore_deleted(self, id: str) -> Session:
        """Bring a session back from the trash, the one deleted last if there are several."""
        check_id(id)
        return self._handle(self._engine.run(lambda tx: sessions.restore(tx, id)))

    def clear(self, *, confirm: bool = False, purge: bool = False) -> int:
        """Delete every session, into the trash or (with `purge`) for good; how many there were."""
        if confirm is not True:
            raise InvalidError("clear deletes every session of the store: pass confirm=True if you mean it")
        now = self._engine.now()
        count = self._engine.run(lambda tx: sessions.delete_all(tx, now))
        if purge:
            count = self._engine.run(removal.purge_everything)
            self._scrub()
        return count

    def stats(self) -> Stats:
        """Totals of the store."""
        with self._engine.read() as reader:
            totals = reader.totals()
        return Stats(
            sessions=totals.sessions,
            deleted=totals.deleted,
            messages=totals.messages,
            entries=totals.entries,
            bytes=totals.size,
            bytes_on_disk=self._engine.backend.bytes_on_disk(),
        )

    # -- the store itself

    def flush(self) -> None:
        """Wait until all that `append_nowait` took is durable; raise the first thing that went wrong."""
        self._engine.flush()

    def close(self) -> None:
        """Flush and close. Idempotent; raises what `flush` would raise."""
        self._engine.close()


def _several(tag: str | Sequence[str] | None) -> Sequence[str]:
    return () if tag is None else (tag,) if isinstance(tag, str) else tag


def _initial(
    title: str | None,
    workspace: str | os.PathLike[str] | None,
    tags: Sequence[str],
    vendor: str | None,
    endpoint: str | None,
    model: str | None,
    metadata: Mapping[str, Json] | None,
) -> sessions.Changes:
    """The settings of a new session: what is None is not set."""
    given = {
        "title": title,
        "workspace": workspace,
        "tags": tags or None,
        "vendor": vendor,
        "endpoint": endpoint,
        "model": model,
        "metadata": metadata,
    }
    return settings(**{name: msgspec.UNSET if value is None else value for name, value in given.items()})
