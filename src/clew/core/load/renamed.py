"""What a store has of a source under the names that earlier versions of its reader gave.

They named a line by its number, and a log that lost lines and grew again has other lines under these numbers.
So a name is not enough: what is stored is the same only if it says the same, in the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import Reader
from clew.core.load.entries import Item, Memory, Run, packed, time_of
from clew.core.load.streams import drafts_of
from clew.core.log.rows import COMPACTION, NO_TIME, NOWHERE, REMOVED, BranchRow, EntryRow
from clew.core.redact.incoming import Incoming
from clew.core.redact.markers import count_markers
from clew.model.source import SourceEvent, SourceUsage

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

_PAGE: Final = 256


class Renamed:
    """Finds what is stored of one session. `entry` remembers the names that it recognises, and `runs` gives
    them once, to be written down."""

    def __init__(self, engine: EngineLike, sid: int, memory: Memory, redactor: Incoming | None) -> None:
        self._engine = engine
        self._sid = sid
        self._memory = memory
        self._redactor = redactor
        self._branches: dict[int, BranchRow] = {}
        self._page: tuple[int, list[EntryRow]] = 0, []
        self._found: list[tuple[int, int, list[str]]] = []
        """Branch, first position and names of what lies together."""

    # -- entries

    def entry(self, item: Item, formerly: str) -> bool:
        """Whether the store has this entry under its former name. Then its new name is known from now on."""
        place = self._memory.place(formerly)
        if place is None:
            return False
        branch, position = place
        with self._engine.read() as reader:
            if self._before(reader, branch, position) != self._place_of(item.parent):
                return False
            stored = self._stored(reader, branch, position)
        if stored is None or not self._is_same(stored, item):
            return False
        self._memory.places[item.name] = packed(branch, position)
        last = self._found[-1] if self._found else None
        if last is not None and last[0] == branch and last[1] + len(last[2]) == position:
            last[2].append(item.name)
        else:
            self._found.append((branch, position, [item.name]))
        return True

    def runs(self) -> list[Run]:
        found, self._found = self._found, []
        return [
            Run(self._branches[branch].uid, first, len(names), "", tuple(names))
            for branch, first, names in found
        ]

    def _place_of(self, parent: str | None) -> tuple[int, int] | None:
        return (0, NOWHERE) if parent is None else self._memory.place(parent)

    def _before(self, reader: Reader, branch: int, position: int) -> tuple[int, int]:
        """The place of the entry before."""
        row = self._branches.get(branch)
        if row is None:
            row = self._branches[branch] = reader.get_branch(branch)
        return (branch, position - 1) if position > row.fork + 1 else (row.parent, row.fork)

    def _stored(self, reader: Reader, branch: int, position: int) -> EntryRow | None:
        at, rows = self._page
        if at != branch or not rows or not rows[0].position <= position <= rows[-1].position:
            last = min(reader.last_position(branch), position + _PAGE - 1)
            rows = list(reader.read_entries(branch, position, last, on_damage=lambda _: None))
            self._page = branch, rows
        return next((row for row in rows if row.position == position), None)

    def _is_same(self, stored: EntryRow, item: Item) -> bool:
        if stored.kind == REMOVED:
            return stored.time == item.time  # its content went with its age
        body = stored.body.partition(b",")[2] if item.kind == COMPACTION else stored.body
        return stored.kind == item.kind and self._says(body, item.body, is_at_once=stored.time == item.time)

    def _says(self, stored: bytes, now: bytes, *, is_at_once: bool) -> bool:
        """Whether both texts are the same, though one was stored when more or fewer secrets were known."""
        if stored == now:
            return True
        if self._redactor is not None and count_markers(now) and self._redactor.body(stored) == now:
            return True
        return is_at_once and count_markers(stored) > 0

    # -- events and calls

    def events(self, events: Sequence[SourceEvent]) -> tuple[SourceEvent, ...]:
        """The same events, those that the store has under the names that it has for them."""
        with self._engine.read() as reader:
            return tuple(
                msgspec.structs.replace(event, id=event.formerly)
                if event.formerly is not None and self._has_event(reader, event, event.formerly)
                else event
                for event in events
            )

    def _has_event(self, reader: Reader, event: SourceEvent, formerly: str) -> bool:
        if not event.type:
            return False
        stored = reader.find_event(self._sid, formerly)
        if stored is None or stored.type != event.type or stored.stream != event.stream:
            return False
        drafts = drafts_of((event,), redactor=self._redactor)
        at = time_of(event.at, NO_TIME)
        return bool(drafts) and self._says(stored.data, drafts[0].data, is_at_once=at == stored.time)

    def calls(self, calls: Iterable[SourceUsage]) -> list[SourceUsage]:
        with self._engine.read() as reader:
            return [
                msgspec.structs.replace(call, id=call.formerly)
                if call.formerly is not None and self._has_call(reader, call, call.formerly)
                else call
                for call in calls
            ]

    def _has_call(self, reader: Reader, call: SourceUsage, formerly: str) -> bool:
        stored = reader.find_usage(self._sid, formerly)
        if stored is None or (call.at is not None and time_of(call.at, NO_TIME) != stored.time):
            return False
        counts = stored.input, stored.output, stored.cache_read, stored.cache_write, stored.reasoning
        return counts == (
            call.input_tokens,
            call.output_tokens,
            call.cache_read_tokens,
            call.cache_write_tokens,
            call.reasoning_tokens,
        )
