"""Events of another program's session: each once, with its own time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from clew.backends.contract import Transaction
from clew.core.load.entries import sealed
from clew.core.load.times import is_plain_name, time_of
from clew.core.log.ids import is_id
from clew.core.log.rows import EventRow
from clew.core.messages.codec import encode_json
from clew.errors import ClewError
from clew.model.source import SourceEvent

_NO_TIME: Final = -1


class EventDraft(msgspec.Struct, frozen=True, gc=False):
    """An event that can be kept, and has no number yet."""

    id: str
    type: str
    stream: str
    time: int
    data: bytes


def drafts_of(events: Iterable[SourceEvent], *, decoded: bool = False) -> list[EventDraft]:
    """Those that can be kept: a name that is too long must not cost a whole batch. `decoded`: their data
    came out of a decoder of JSON."""
    found = []
    for event in events:
        if _is_name(event.id) and _is_name(event.type) and (not event.stream or _is_name(event.stream)):
            try:
                data = sealed(event.data, decoded) or encode_json(event.data, what="data", strict=False)
            except ClewError:
                continue
            found.append(EventDraft(event.id, event.type, event.stream, time_of(event.at, _NO_TIME), data))
    return found


def _is_name(text: str) -> bool:
    return is_plain_name(text) or is_id(text)


class EventWriter:
    """Writes the events of one load. As long as nobody else adds some, it knows all that are there."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._last = 0
        self._knows_all = True
        self._written: tuple[list[str], int] | None = None

    def add(self, tx: Transaction, sid: int, drafts: Sequence[EventDraft], now: int) -> int:
        """Add those that are not there; how many. What it learned counts when `commit` is called."""
        last = tx.event_bounds(sid)[1]
        self._knows_all = self._knows_all and last == self._last
        fresh: dict[str, EventRow] = {}
        for draft in drafts:
            id = draft.id
            if id in fresh or id in self._ids:
                continue
            if not self._knows_all and tx.find_event(sid, id) is not None:
                continue
            time = now if draft.time == _NO_TIME else draft.time
            fresh[id] = EventRow(last + len(fresh) + 1, time, draft.stream, draft.type, id, draft.data)
        if fresh:
            tx.add_events(sid, list(fresh.values()))
        self._written = list(fresh), last + len(fresh)
        return len(fresh)

    def commit(self) -> None:
        """The transaction came to its end."""
        if self._written is not None:
            ids, self._last = self._written
            self._ids.update(ids)
            self._written = None
