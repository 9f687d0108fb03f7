"""Which sessions of a store belong to a Strands session and its agents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import clew
from clew.adapters.common.sessions import find_own, missing, open_own, session_id
from clew.model import Json

try:
    from strands.types.exceptions import SessionException
except ImportError as exc:
    raise missing("strands", exc) from exc

FRAMEWORK: Final = "strands"
SESSION: Final = "session"
AGENT: Final = "agent"
MULTI_AGENT: Final = "multi_agent/"
"""Documents: what Strands knows of a session, of an agent, of a multi-agent."""
STATE: Final = "strands-state"
"""The tag of sessions in which nobody ever speaks, and which are needed all the same."""
_PAGE: Final = 500


def checked(id: str, what: str) -> str:
    """An id that Strands' own stores take too. Raises ValueError."""
    if os.path.basename(id) != id:
        raise ValueError(f"{what}_id={id} | id cannot contain path separators")
    return id


def place_of_session(session: str) -> str:
    return session_id(checked(session, "session"))


def place_of_agent(session: str, agent: str) -> str:
    return session_id(checked(session, "session"), checked(agent, "agent"))


def keys_of_session(session: str) -> dict[str, Json]:
    return {"framework": FRAMEWORK, "session_id": session}


def keys_of_agent(session: str, agent: str) -> dict[str, Json]:
    return {**keys_of_session(session), "agent_id": agent}


def made_session(store: clew.Store, session: str) -> clew.Session:
    return open_own(store, place_of_session(session), keys_of_session(session), tags=[STATE])


def found(store: clew.Store, id: str) -> clew.Session | None:
    return find_own(store, id, FRAMEWORK)


def known_session(store: clew.Store, session: str) -> clew.Session:
    known = found(store, place_of_session(session))
    if known is None or known.get_document(SESSION) is None:
        raise SessionException(f"Session {session} does not exist")
    return known


def known_agent(store: clew.Store, session: str, agent: str) -> clew.Session:
    known = found(store, place_of_agent(session, agent))
    if known is None:
        raise SessionException(f"Agent {agent} in session {session} does not exist")
    return known


def agents_of(store: clew.Store, session: str) -> Iterator[tuple[str, clew.Session]]:
    """The agents of a session by their ids; not what else was forked from them."""
    for agent, id in _listed(store, session, deleted=False):
        yield agent, store.get(id)


def deleted_agents_of(store: clew.Store, session: str) -> list[str]:
    """The sessions of agents that are in the trash, and not there anew."""
    gone = dict.fromkeys(id for _, id in _listed(store, session, deleted=True))
    return [id for id in gone if store.find(id) is None]


def _listed(store: clew.Store, session: str, *, deleted: bool) -> Iterator[tuple[str, str]]:
    cursor: str | None = None
    while True:
        page = store.list(where=keys_of_session(session), limit=_PAGE, cursor=cursor, deleted=deleted)
        for info in page:
            agent = info.metadata.get("agent_id")
            if isinstance(agent, str) and info.id == place_of_agent(session, agent):
                yield agent, info.id
        cursor = page.cursor
        if cursor is None:
            return


def fork_session(store: clew.Store, session: str, new: str, content: bytes) -> None:
    """Fork all agents of a session; `content` is what Strands knows of the new one."""
    base = known_session(store, session)
    if found(store, place_of_session(new)) is not None:
        raise SessionException(f"Session {new} already exists")
    made = made_session(store, new)
    made.set_document(SESSION, content)
    for name, known in base.documents(MULTI_AGENT):
        made.set_document(name, known)
    for agent, kept in list(agents_of(store, session)):
        fork = kept.fork(place_of_agent(new, agent))
        fork.update(metadata=keys_of_agent(new, agent))
        for name, known in kept.documents(AGENT):
            fork.set_document(name, known)
