"""Which sessions of a store belong to Strands: to its sessions, its agents and the keys of its storages.

A `ClewStorage` keeps the keys of each agent's snapshots in a session of their own, and all other keys in one
session of the storage, whose documents `p/<place>` name the sessions of the agents. In both, `k/<name>` says
that there is a key, and `d/<name>` holds its bytes, without the messages if those are in the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from strands.types.exceptions import SessionException

import clew
from clew.adapters.common.sessions import find_own, listed, open_own, session_id
from clew.model import Json

FRAMEWORK: Final = "strands"
SESSION: Final = "session"
AGENT: Final = "agent"
MULTI_AGENT: Final = "multi_agent/"
"""Documents: the records of Strands about a session, an agent and a multi-agent."""
STATE: Final = "strands-state"
"""The tag of sessions that never have messages and are still needed."""


def checked(id: str, what: str) -> str:
    """The id, if Strands' own stores accept it too. Raises ValueError."""
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
    """The agents of a session by their ids, without other forks of them."""
    for agent, id in _listed(store, session, deleted=False):
        yield agent, store.get(id)


def deleted_agents_of(store: clew.Store, session: str) -> list[str]:
    """The sessions of agents that are in the trash and have not been created again."""
    gone = dict.fromkeys(id for _, id in _listed(store, session, deleted=True))
    return [id for id in gone if store.find(id) is None]


def _listed(store: clew.Store, session: str, *, deleted: bool) -> Iterator[tuple[str, str]]:
    for info in listed(store, keys_of_session(session), deleted=deleted):
        agent = info.metadata.get("agent_id")
        if isinstance(agent, str) and info.id == place_of_agent(session, agent):
            yield agent, info.id


def fork_session(store: clew.Store, session: str, new: str, content: bytes) -> None:
    """Fork all agents of a session; `content` is the record of Strands about the new one."""
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


# -- the keys of a storage

LATEST: Final = "snapshot_latest.json"
_SNAPSHOTS: Final = "/snapshots/"
_KEY: Final = re.compile(r"((?:.+?/)?scopes/agent/[^/]+)/snapshots/(.+)", re.DOTALL)
_PLACES: Final = re.compile(r"(?:^|/)scopes/agent/[^/]+(?=/)")


class Spot(NamedTuple):
    """Where a key is: in the session of an agent, or, without a place, in that of the storage."""

    place: str | None
    name: str

    @classmethod
    def of(cls, key: str) -> Spot:
        found = _KEY.fullmatch(key)
        return cls(None, key) if found is None else cls(found[1], found[2])

    @property
    def key(self) -> str:
        return self.name if self.place is None else f"{self.place}{_SNAPSHOTS}{self.name}"


class Layout(NamedTuple):
    """The sessions of one storage."""

    storage: str

    def session_id(self, place: str | None) -> str:
        if place is None:
            return session_id(self.storage, "storage", "keys")
        return session_id(self.storage, *place.split("/"))

    def found(self, store: clew.Store, spot: Spot) -> clew.Session | None:
        return found(store, self.session_id(spot.place))

    def made(self, store: clew.Store, spot: Spot) -> clew.Session:
        """The session for a key. A new one is also noted in the session of the storage."""
        id = self.session_id(spot.place)
        known = found(store, id)
        if known is not None:
            return known
        if spot.place is not None:
            self.made(store, Spot(None, "")).set_document(f"p/{spot.place}", b"")
        tags = [] if spot.place else [STATE]
        return open_own(store, id, self._metadata(spot.place), tags=tags)

    def _metadata(self, place: str | None) -> dict[str, Json]:
        keys: dict[str, Json] = {"framework": FRAMEWORK, "storage": self.storage}
        if place is None:
            return keys
        *before, _, _, agent = place.split("/")
        return {**keys, "session_id": before[-1] if before else "", "agent_id": agent}

    def keys(self, store: clew.Store, prefix: str) -> Iterator[str]:
        """All keys that begin with `prefix`."""
        storage = found(store, self.session_id(None))
        if storage is None:
            return
        yield from (name.removeprefix("k/") for name, _ in storage.documents(f"k/{prefix}"))
        places = [name.removeprefix("p/") for name, _ in storage.documents(f"p/{prefix}")]
        places += [prefix[: found.end()] for found in _PLACES.finditer(prefix)]
        for place in dict.fromkeys(places):
            session = found(store, self.session_id(place))
            for name, _ in [] if session is None else session.documents("k/"):
                key = Spot(place, name.removeprefix("k/")).key
                if key.startswith(prefix):
                    yield key

    def drop(self, store: clew.Store, spot: Spot) -> None:
        """Delete a key. An agent without keys goes to the trash of the store with its messages."""
        session = self.found(store, spot)
        if session is None or not session.delete_document(f"k/{spot.name}"):
            return
        session.delete_document(f"d/{spot.name}")
        if spot.place is not None and not session.documents("k/", limit=1):
            store.delete(session.id)
            storage = found(store, self.session_id(None))
            if storage is not None:
                storage.delete_document(f"p/{spot.place}")

    def fork(self, store: clew.Store, base: clew.Session, target: Spot) -> None:
        """A session for another place, with the path and the keys of this one."""
        id = self.session_id(target.place)
        if store.find(id) is not None:
            raise clew.SessionExistsError(id)
        fork = base.fork(id)
        fork.update(metadata=self._metadata(target.place))
        for name, content in base.documents():
            fork.set_document(name, content)
        self.made(store, Spot(None, "")).set_document(f"p/{target.place}", b"")
