"""Whole sessions of agents: a `SessionStore`.

The framework saves a session as a whole, with the history of its in-memory provider in it. The messages go to
the log of a Clew session, each once; everything else is a document beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from agent_framework import AgentSession, SessionStore
from blake3 import blake3

import clew
from clew.adapters.agent_framework.history import FRAMEWORK
from clew.adapters.common import (
    decode,
    encode,
    entry_at,
    faces,
    find_own,
    mended,
    open_own,
    restored,
    session_id,
)

_DOCUMENT: Final = "agent-session"


class _Kept(msgspec.Struct):
    """The document."""

    session: dict[str, Any]
    """As `AgentSession.to_dict` has it, without the messages that are in the log."""
    source: str | None
    """The provider whose messages are in the log; None: no messages are."""
    head: str = ""
    """The entry at which the log ended; then the number and the digest of its messages."""
    count: int = 0
    digest: str = ""


class ClewAgentSessionStore(SessionStore):
    """Keeps `AgentSession`s in a Clew store. A deleted one is in the trash of the store."""

    def __init__(self, store: clew.Store | clew.AsyncStore, *, run: clew.AsyncRun | None = None) -> None:
        """`run`: write to the session of this run under its lease."""
        self._store, self._tasks = faces(store)
        self._run = run

    def session(self, session_id: str) -> clew.Session:
        """The Clew session that holds an agent's session. SessionNotFoundError if there is none."""
        return self._store.get(_id(session_id))

    async def get(self, session_id: str) -> AgentSession | None:
        SessionStore.validate_session_id(session_id)
        found = await self._tasks.read(partial(_read, id=_id(session_id)))
        return None if found is None else AgentSession.from_dict(found)

    async def set(self, session_id: str, session: AgentSession) -> None:
        SessionStore.validate_session_id(session_id)
        if type(session) is not AgentSession:
            raise TypeError(f"the session must be an AgentSession, not {type(session).__name__}")
        value = session.to_dict()
        source = _source_of(value["state"])
        messages = [] if source is None else value["state"][source].pop("messages")
        bodies = [encode(message) for message in messages]
        writing = partial(_write, id=_id(session_id), value=value, source=source, bodies=bodies)
        await self._tasks.transact(writing, run=self._run)

    async def delete(self, session_id: str) -> None:
        SessionStore.validate_session_id(session_id)
        await self._tasks.transact(partial(_delete, id=_id(session_id)), run=self._run)


def _id(name: str) -> str:
    return session_id(name)


def _source_of(state: dict[str, Any]) -> str | None:
    """The provider that keeps a history in the state; of several the one with the longest."""
    lengths = {name: len(value["messages"]) for name, value in state.items() if _has_history(value)}
    return max(lengths, key=lambda name: lengths[name], default=None)


def _has_history(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else None
    return isinstance(messages, list) and bool(messages) and all(map(_is_message, messages))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "message"


def _kept(session: clew.Session | None) -> _Kept | None:
    content = None if session is None else session.get_document(_DOCUMENT)
    return None if content is None else _Kept(**decode(content))


def _read(store: clew.Store, id: str) -> dict[str, Any] | None:
    session = find_own(store, id, FRAMEWORK)
    kept = _kept(session)
    if session is None or kept is None:
        return None
    if kept.source is not None:
        kept.session["state"][kept.source]["messages"] = restored(session.messages())
    return kept.session


def _write(
    store: clew.Store, id: str, value: dict[str, Any], source: str | None, bodies: Sequence[bytes]
) -> None:
    session = find_own(store, id, FRAMEWORK)
    kept = _kept(session)
    if session is None:
        session = open_own(store, id, {"framework": FRAMEWORK, "session": value["session_id"]})
    if source is not None:
        _log(session, kept, bodies)
    elif kept is not None and kept.source is not None:
        session.clear()
    document = _Kept(value, source, entry_at(session.head), len(bodies), _digest(bodies))
    session.set_document(_DOCUMENT, encode(msgspec.structs.asdict(document)))


def _log(session: clew.Session, kept: _Kept | None, bodies: Sequence[bytes]) -> None:
    """Make these messages the path. Messages that the path has already stay; if the head was not moved since
    the last write, they are not even read."""
    count = 0
    if kept is not None and kept.head == entry_at(session.head):
        count = kept.count if kept.digest == _digest(bodies[: kept.count]) else 0
    if count == 0:
        count = _shared(session, bodies)
    if count < len(bodies):
        session.append(*bodies[count:])


def _shared(session: clew.Session, bodies: Sequence[bytes]) -> int:
    """How many messages the path has in common with these; the session then stands behind them."""
    place = None
    count = 0
    for entry in session.entries():
        if entry.kind != "message":
            continue
        if count == len(bodies) or entry.raw != mended(bodies[count]):
            break
        place = entry
        count += 1
    else:
        return count
    if place is None:
        session.clear()
    else:
        session.rewind(place)
    return count


def _delete(store: clew.Store, id: str) -> None:
    session = find_own(store, id, FRAMEWORK)
    kept = _kept(session)
    if session is None or kept is None:
        return
    if kept.source is None and session.head.position >= 0:
        session.delete_document(_DOCUMENT)  # the messages belong to a history provider
    else:
        store.delete(id)


def _digest(bodies: Sequence[bytes]) -> str:
    hash = blake3()
    for body in bodies:
        hash.update(b"%d:" % len(body))
        hash.update(body)
    return hash.hexdigest()
