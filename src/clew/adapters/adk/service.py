"""`ClewSessionService`: the protocol of ADK's session services."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session

import clew
from clew.adapters.adk import state as states
from clew.adapters.adk.state import (
    ADK,
    APP,
    STATE_TAG,
    USER,
    At,
    Key,
    ParsedEvents,
    Scopes,
    Standing,
    Values,
    key_of,
    raw_of,
    sessions_of,
    state_of_app,
    state_of_user,
    text_of,
    usage_of,
    wanted,
)
from clew.adapters.common import faces, find_own, listed, mended, open_own

_STALE: Final = (
    "session {id!r} was modified in storage since this object was loaded: call get_session() and append again"
)


class Shared(NamedTuple):
    """State that a session shares with other sessions."""

    app: Values
    user: Values


class ClewSessionService(BaseSessionService):
    """ADK's sessions in a store of any kind; any number of services, threads and processes on one store.

    Two writers never mix: `append_event` raises `StaleSessionError` if another writer changed the session
    since it was loaded. Deleted sessions are in the trash of the store.
    """

    def __init__(self, store: clew.Store | clew.AsyncStore) -> None:
        """The service does not close the store: close it when no service needs it any more."""
        self._store, self._tasks = faces(store)
        self._parsed = ParsedEvents()
        # Tasks that append with one session object wait for each other, so that none finds it stale.
        self._appending: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock] = (
            WeakValueDictionary()
        )

    def session(self, *, app_name: str, user_id: str, session_id: str) -> clew.Session:
        """The Clew session: to rewind, fork, or set checkpoints with files. SessionNotFoundError if
        unknown."""
        return self._store.get(Key(app_name, user_id, session_id.strip()).id)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        key = Key(app_name, user_id, (session_id or "").strip() or platform_uuid.new_uuid())
        # JSON as the framework itself makes it, also for values that are not JSON.
        actions = text_of(EventActions(state_delta=state or {}), include={"state_delta"})
        scopes = states.scopes_of(states.delta_of(mended(actions)))
        try:
            return await self._tasks.transact(partial(_create, key, scopes, platform_time.get_time()))
        except clew.SessionExistsError as exc:
            raise AlreadyExistsError(f"Session with id {key.session} already exists.") from exc

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        key = Key(app_name, user_id, session_id.strip())
        return await self._tasks.read(partial(_get, key, config or GetSessionConfig(), self._parsed))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        sessions = await self._tasks.read(partial(_list, app_name, user_id))
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await self._tasks.transact(partial(_delete, Key(app_name, user_id, session_id.strip())))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return states.plain(await self._tasks.read(partial(_user_values, app=app_name, user=user_id)))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        raw = raw_of(event)
        key = Key(session.app_name, session.user_id, session.id)
        async with self._turn_of(key):
            known = At(
                session._storage_update_marker or "",
                session.last_update_time,
                session.events[-1].id if session.events else None,
            )
            revision, was_there = await self._tasks.transact(
                partial(_append, key, known, raw, usage_of(event))
            )
            session._storage_update_marker = revision
            session.last_update_time = event.timestamp
            if was_there and known.event == event.id:
                return event
            return self._commit_event_to_session(session, event)

    def _turn_of(self, key: Key) -> asyncio.Lock:
        # The lock lives as long as a task holds it or waits for it.
        return self._appending.setdefault((asyncio.get_running_loop(), key.id), asyncio.Lock())

    async def close(self) -> None:
        """Nothing to do: every write is durable when it returns, and the service does not own the store."""

    async def __aenter__(self) -> ClewSessionService:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


# -- the work of one transaction, or of one read


def _create(key: Key, scopes: Scopes, now: float, store: clew.Store) -> Session:
    if find_own(store, key.id, ADK) is not None:
        raise clew.SessionExistsError(key.id)
    kept = open_own(store, key.id, key.metadata)
    if scopes.session:
        states.keep_initial(kept, scopes.session)
    at = At(states.revision_of(kept.head), now)
    states.keep_values(kept, scopes.session)
    states.keep_at(kept, at)
    _share(store, key, scopes)
    return _as_adk(store, key, Standing(at, scopes.session))


def _get(key: Key, config: GetSessionConfig, parsed: ParsedEvents, store: clew.Store) -> Session | None:
    kept = find_own(store, key.id, ADK)
    if kept is None:
        return None
    found = _as_adk(store, key, states.standing(kept, kept.head))
    found.events = [parsed.of(entry) for entry in wanted(kept, config)]
    return found


def _delete(key: Key, store: clew.Store) -> None:
    if find_own(store, key.id, ADK) is not None:
        store.delete(key.id)


def _list(app: str, user: str | None, store: clew.Store) -> list[Session]:
    app_values = states.kept_values(find_own(store, state_of_app(app)[0], ADK))
    shared: dict[str, Shared] = {}
    found = []
    for info in listed(store, sessions_of(app, user)):
        if (key := key_of(info)) is not None:
            if key.user not in shared:
                shared[key.user] = Shared(app_values, _user_values(store, app, key.user))
            standing = states.standing(store.get(info.id), info.head)
            found.append(_as_adk(store, key, standing, shared[key.user]))
    return found


def _append(
    key: Key, known: At, raw: bytes, usage: dict[str, Any] | None, store: clew.Store
) -> tuple[str, bool]:
    """Append an event. The revision afterwards, and whether the event was the last one already."""
    kept = find_own(store, key.id, ADK)
    if kept is None:
        raise SessionNotFoundError(f"Session {key.session} not found.")
    written = mended(raw)
    event = states.logged(written)
    if event is None:
        raise clew.InvalidError(
            f"an event needs a text as its id and a number as its timestamp: {raw!r:.200}"
        )
    before = states.revision_of(kept.head)
    folded = None
    if (at := states.kept_at(kept, before)) is None:
        folded = states.fold(kept, before)
        at = folded.at
    if at.event == event.id and next(kept.entries(last=1)).raw == written:
        # The event was stored before, and is sent again because the answer was lost.
        return before, True
    if _is_stale(known, at):
        raise StaleSessionError(_STALE.format(id=key.session))
    (entry,) = kept.append(raw)
    if usage is not None:
        # Numbers that make no sense must not stop the event from being stored.
        with suppress(clew.InvalidError):
            kept.add_usage(entry=entry, **usage)
    if folded is not None:
        states.keep_anew(kept, folded.state)
    scopes = states.scopes_of(event.delta)
    after = states.revision_of(kept.head)
    states.keep_values(kept, scopes.session)
    states.keep_at(kept, At(after, event.timestamp, event.id))
    _share(store, key, scopes)
    return after, False


def _is_stale(known: At, now: At) -> bool:
    """Whether a session object is older than the stored session."""
    if known.revision:
        return known.revision != now.revision
    # The object was made by hand or by another service: only its last event can be compared.
    return now.time > known.time and now.event != known.event


def _share(store: clew.Store, key: Key, scopes: Scopes) -> None:
    """Write the parts of a change of state that other sessions share."""
    for values, (id, metadata) in (
        (scopes.app, state_of_app(key.app)),
        (scopes.user, state_of_user(key.app, key.user)),
    ):
        if values:
            states.keep_values(open_own(store, id, metadata, tags=[STATE_TAG]), values)


def _shared(store: clew.Store, key: Key) -> Shared:
    app, _ = state_of_app(key.app)
    return Shared(states.kept_values(find_own(store, app, ADK)), _user_values(store, key.app, key.user))


def _user_values(store: clew.Store, app: str, user: str) -> Values:
    id, _ = state_of_user(app, user)
    return states.kept_values(find_own(store, id, ADK))


def _as_adk(store: clew.Store, key: Key, standing: Standing, shared: Shared | None = None) -> Session:
    """The session as an object of the framework, without its events."""
    app, user = shared or _shared(store, key)
    state = states.plain(standing.state) | states.plain(app, APP) | states.plain(user, USER)
    made = Session(
        app_name=key.app, user_id=key.user, id=key.session, state=state, last_update_time=standing.at.time
    )
    made._storage_update_marker = standing.at.revision
    return made
