"""Where an item stands in its session. An id is looked for from the newest item backwards, and the ids that
were shown last are remembered, so that the next page of a long list begins without a search."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from clew.core.log.ids import parse_entry_id
from clew.errors import CheckpointNotFoundError, EntryNotFoundError
from clew.model import Entry, Head
from clew.server.conversations.items import BY_PLACE
from clew.session import Session
from clew.store import Store

MOST_REMEMBERED: Final = 10_000


class Places:
    """The places of items that were shown lately. Each is checked before it is believed."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Head] = OrderedDict()
        self._lock = Lock()

    def remember(self, session: Session, id: str, entry: Entry) -> None:
        place = parse_entry_id(entry.id)
        if place is None:
            return
        with self._lock:
            self._known[session.id, id] = place
            self._known.move_to_end((session.id, id))
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)

    def find(self, session: Session, id: str) -> Entry | None:
        """The item of this id on the path of a session; None: there is none."""
        by_place = BY_PLACE.fullmatch(id)
        if by_place is not None:
            place = parse_entry_id(by_place[1])
            return None if place is None else _entry_at(session, place)
        known = self._known.get((session.id, id))
        if known is not None:
            entry = _entry_at(session, known)
            if entry is not None and entry.message.get("id") == id:
                return entry
        return find_id(session, id)


def find_id(session: Session, id: str, *, before: Entry | None = None) -> Entry | None:
    """The newest item with this id, on the path before an entry."""
    text = msgspec.json.encode(id)
    for entry in session.entries(newest_first=True, before=before):
        if entry.kind == "message" and text in entry.raw and entry.message.get("id") == id:
            return entry
    return None


def _entry_at(session: Session, place: Head) -> Entry | None:
    """The message at a place, if it is on the path."""
    try:
        before = session.entries(after=place.position - 1) if place.position else session.entries()
        entry = next(before, None)
    except (EntryNotFoundError, CheckpointNotFoundError):
        return None
    wanted = f"{place.branch}.{place.position}"
    return entry if entry is not None and entry.id == wanted and entry.kind == "message" else None


_OF_STORES: Final[WeakKeyDictionary[Store, Places]] = WeakKeyDictionary()


def places_of(store: Store) -> Places:
    return _OF_STORES.setdefault(store, Places())
