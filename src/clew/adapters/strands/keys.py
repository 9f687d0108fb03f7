"""Where in a store the keys of a `ClewStorage` are: those of an agent's snapshots in a session of their own.

All others are in the session of the storage, which knows of those of the agents by its documents `p/<place>`.
In either, `k/<name>` says that there is a key, and `d/<name>` holds its bytes, or what is left of them when
the messages are in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import clew
from clew.adapters.common.sessions import open_own, session_id
from clew.adapters.strands.places import FRAMEWORK, STATE, found
from clew.model import Json

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
        """The session for a key; if it is new, the storage knows of it from now on."""
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
        """Forget a key. An agent without any goes to the trash of the store, and its messages with it."""
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
