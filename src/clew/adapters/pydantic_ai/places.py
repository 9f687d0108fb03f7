"""Where an entry is, if only its id is known.

A session keeps the places of its entries in documents, so they are copied with the session, and no two
conversations wait for each other. An entry that an adapter has not seen yet is searched in all conversations,
the latest active ones first.

The framework's ids grow with time. So entries that were written together need only one document, whose name
is the greatest of their ids: an id is found under the next name that is not below it. Other ids have a
document each.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import clew
from clew.adapters.common.sessions import listed, session_id
from clew.adapters.pydantic_ai.records import FRAMEWORK, id_of, newest_first, place_named, place_of, places_of

_REMEMBERED: Final = 4096
_SOME: Final = 4
"""How many batches are searched: if the clocks of two machines differ, their ids may be mixed."""
_IN_TIME: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


class Found(NamedTuple):
    session: clew.Session
    place: clew.Head


def keep_places(session: clew.Session, ids: Sequence[str], last: clew.Entry) -> None:
    """Keep the places of entries that were written one behind the other, up to `last`."""
    if all(map(_IN_TIME.match, ids)):
        session.set_document(_document(max(ids)), f"{last.id} {len(ids)} {min(ids)}".encode())
        return
    branch, _, position = last.id.rpartition(".")
    for back, id in enumerate(reversed(ids)):
        session.set_document(_document(id), f"{branch}.{int(position) - back} 1".encode())


def _in_batches(session: clew.Session, entry: str) -> clew.Head | None:
    content = session.get_document(_document(entry))
    if content is not None:
        return _in_batch(session, content, entry)
    if not _IN_TIME.match(entry):
        return None
    following = session.documents("entry/", after=_document(entry), limit=_SOME)
    found = (_in_batch(session, content, entry) for _, content in following)
    return next((place for place in found if place is not None), None)


def _in_batch(session: clew.Session, content: bytes, entry: str) -> clew.Head | None:
    last, count, *least = content.decode().split(" ")
    if least and entry < least[0]:
        return None
    batch = session.entries(at=place_named(last), last=int(count))
    return next((place_of(each) for each in batch if id_of(each) == entry), None)


def _document(entry: str) -> str:
    return session_id("entry", entry)


class Whereabouts:
    """In which sessions entries were seen: a hint that saves a search, and may be wrong."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, str] = OrderedDict()

    def note(self, session: str, entries: Iterable[str | None]) -> None:
        for entry in entries:
            if entry is not None:
                self._seen[entry] = session
        while len(self._seen) > _REMEMBERED:
            try:
                self._seen.popitem(last=False)
            except KeyError:  # another thread was faster
                return

    def near(self, entry: str, *others: str | None) -> list[str]:
        """The sessions to search first."""
        candidates = (self._seen.get(entry), *others)
        return list(dict.fromkeys(id for id in candidates if id is not None))


def find_near(store: clew.Store, entry: str, near: Iterable[str]) -> Found | None:
    """The place of an entry, if one of these sessions has it."""
    for id in near:
        session = store.find(id)
        place = None if session is None else place_in(session, entry)
        if session is not None and place is not None:
            return Found(session, place)
    return None


def find_anywhere(store: clew.Store, entry: str) -> Found | None:
    """The place of an entry in any conversation; the cost grows with their number."""
    forks: list[str] = []
    for info in listed(store, {"framework": FRAMEWORK}):
        session = store.get(info.id)
        place = place_in(session, entry)
        if place is not None:
            return Found(session, place)
        if info.forked_from is not None:
            forks.append(info.id)
    # A fork has no documents for messages that it shares with a deleted conversation: read its messages.
    for id in forks:
        session = store.get(id)
        place = next((place_of(each) for each in newest_first(session) if id_of(each) == entry), None)
        if place is not None:
            return Found(session, place)
    return None


def place_in(session: clew.Session, entry: str) -> clew.Head | None:
    """The place of an entry in a session; None: the session did not write it, and does not stand at it."""
    return places_of(session).get(entry) or _in_batches(session, entry)


def conversations(store: clew.Store, scope: str | None) -> Iterator[clew.Session]:
    """All of the framework, or those of one scope."""
    where = {"framework": FRAMEWORK} if scope is None else {"framework": FRAMEWORK, "scope": scope}
    for info in listed(store, where):
        yield store.get(info.id)
