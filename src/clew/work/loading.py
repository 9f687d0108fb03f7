"""Loading a session of another program: once, and the next time only what is new.

Entries come in a stream and are committed in batches, each with the names that the source gives them. So
whoever is killed half-way goes on where he was, and in memory there are one batch, the place of each entry,
and the sum of each call: nothing that grows with the size of the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Final, TypeAlias, TypeVar

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.dialects import snippet
from clew.core.ids import check_id
from clew.core.rows import EMPTY, NOWHERE, SessionRow
from clew.errors import InvalidError, SessionExistsError, StoreBusyError
from clew.here import Here
from clew.model import Head, Json
from clew.model.loading import (
    Loaded,
    LoadState,
    SourceCheckpoint,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.work import loading_beside as beside
from clew.work.access import Access, admit, admit_beside
from clew.work.append import TITLE_LENGTH
from clew.work.loading_entries import Item, Placing, item_of
from clew.work.loading_memory import (
    Memory,
    State,
    batch_name,
    find_target,
    keep_runs,
    keep_state,
    settled,
    sign,
)
from clew.work.moves import settle
from clew.work.places import head_of, tip_at
from clew.work.sessions import create
from clew.work.transfer import Target

AT_ONCE: Final = 1000
"""Entries and events in one transaction,"""
AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""and how large they may be together: others wait for it."""
CALLS_AT_ONCE: Final = 10_000
EMPTY_HEAD: Final = Head("", NOWHERE)

T = TypeVar("T")
OnRefused: TypeAlias = Callable[[str, InvalidError], None]
"""Told of an entry that can not be kept, and why; those behind it go behind the one before it."""


class _Ending(msgspec.Struct, frozen=True):
    """What a source says when it was read to its end. Asked once: a transaction may run twice."""

    head: str | None
    updates: Mapping[str, Json]
    checkpoints: tuple[SourceCheckpoint, ...]
    vars: Mapping[str, Json]


class LoadedMeanwhileError(StoreBusyError):
    """Somebody else loads the same session. Reading the source anew finds what he left."""


class Loading:
    """One session on its way into a store."""

    def __init__(
        self,
        target: Target,
        here: Here,
        source: SourceSession,
        *,
        make_changes: beside.MakeChanges,
        rename: bool,
        on_refused: OnRefused,
    ) -> None:
        self._target = target
        self._here = here
        self._source = source
        self._make = make_changes
        self._on_refused = on_refused
        self._now = here.now()
        with target.read() as reader:
            self._id, self._row, known = find_target(reader, check_id(source.id), rename=rename)
        self._memory = known or Memory()
        self._is_new = self._row is None
        self._instead: dict[str, str | None] = {}
        """Refused entries, and what stands before them."""
        self._calls: dict[str, tuple[SourceUsage, str]] = {}
        self._last: str | None = None
        self._time = beside.time_of(source.created_at, -1)
        self.entries = 0
        self.messages = 0

    def run(self) -> Loaded:
        if self._row is not None and self._row.deleted is not None:
            return self._loaded("trashed")
        with closing(self._batches()) as batches:
            for items, events, before in batches:
                self._commit(items, events, before)
        changed = self._finish()
        return self._loaded("new" if self._is_new else "grown" if changed or self.entries else "unchanged")

    def rehearse(self) -> Loaded:
        """Read the source to its end, and write nothing."""
        if self._row is not None and self._row.deleted is not None:
            return self._loaded("trashed")
        with closing(self._batches()) as batches:
            for items, _, _ in batches:
                for item in items:
                    self._memory.put(item.name, 0, 0)
                self.entries += len(items)
        self._source.updates()
        state: LoadState = "new" if self._is_new else "grown" if self.entries else "unchanged"
        return Loaded(id=self._id, state=state, entries=self.entries, messages=self.messages)

    def _loaded(self, state: LoadState) -> Loaded:
        with self._target.read() as reader:
            row = None if self._row is None else reader.get_session(self._row.sid)
        messages = 0 if row is None else row.head.messages
        return Loaded(id=self._id, state=state, entries=self.entries, messages=messages)

    # -- reading the source

    def _batches(self) -> Generator[tuple[list[Item], list[SourceEvent], str | None], None, None]:
        """What is new, as one transaction takes it; and the entry before it in the source."""
        items, events, size = list[Item](), list[SourceEvent](), 0
        names: set[str] = set()
        before = self._last
        for entry in _closed_after(self._source.entries):
            self.messages += entry.kind == "message"
            self._note_call(entry)
            if entry.uid in self._memory.places or entry.uid in names:
                self._last = entry.uid
                self._time = beside.time_of(entry.at, self._time)
                before = before if items else entry.uid
                continue
            item = self._checked(entry)
            if item is None:
                continue
            items.append(item)
            names.add(item.name)
            events += [event for event in entry.events if beside.is_good(event)]
            size += len(item.draft.body) + len(item.note or b"")
            self._last = item.name
            if len(items) + len(events) >= AT_ONCE or size >= AT_ONCE_BYTES:
                yield items, events, before
                items, events, size, before = [], [], 0, self._last
                names.clear()
        if items:
            yield items, events, before

    def _checked(self, entry: SourceEntry) -> Item | None:
        self._time = beside.time_of(entry.at, self._time if self._time >= 0 else self._now)
        try:
            check_id(entry.uid, "uid")
            item = item_of(entry, self._time)
        except InvalidError as error:
            self._instead[entry.uid] = entry.parent
            self._on_refused(entry.uid, error)
            return None
        while item.parent in self._instead:
            item = msgspec.structs.replace(item, parent=self._instead[item.parent])
        return item

    def _note_call(self, entry: SourceEntry) -> None:
        if entry.usage is not None:
            known, uid = self._calls.get(entry.usage.id, (None, entry.uid))
            self._calls[entry.usage.id] = beside.larger(known, entry.usage), uid

    # -- writing

    def _commit(self, items: Sequence[Item], events: Sequence[SourceEvent], before: str | None) -> None:
        work = partial(self._put, items=items, events=events, before=before)
        placing, self._row, self._memory.state = self._target.run(work)
        self._memory.batches += 1
        for name, (branch, position) in placing.fresh.items():
            self._memory.put(name, branch, position)
        self.entries += len(items)

    def _put(
        self, tx: Transaction, *, items: Sequence[Item], events: Sequence[SourceEvent], before: str | None
    ) -> tuple[Placing, SessionRow, State]:
        """May run again after a rollback: it keeps nothing of the time before."""
        row, state = self._open(tx, items[0].time)
        number = self._memory.batches + 1
        if tx.get_record(row.sid, "key", batch_name(number)) is not None:
            raise LoadedMeanwhileError(f"session {row.id!r} is being loaded by somebody else; try again")
        placing = Placing(tx, row, self._memory)
        placing.put(items, before)
        keep_runs(tx, row.sid, number, placing.runs())
        newest = max(item.time for item in items)
        beside.add_events(tx, row.sid, events, newest)
        assert placing.last is not None
        if head_of(tx, row.head) == state.head:
            row = msgspec.structs.replace(row, head=placing.last)
            state = msgspec.structs.replace(state, head=head_of(tx, placing.last))
        if row.title is None:
            said = next((item.said for item in items if item.said.strip()), "")
            row = msgspec.structs.replace(row, title=snippet(said, TITLE_LENGTH) or None)
        row = msgspec.structs.replace(row, updated=max(row.updated, newest), due=0)
        settle(tx, row)
        keep_state(tx, row.sid, state)
        return placing, row, state

    def _open(self, tx: Transaction, time: int) -> tuple[SessionRow, State]:
        """The session, made with the first batch."""
        if self._row is not None:
            return admit(tx, self._access(self._row.sid)), self._memory.state
        try:
            row = create(tx, self._id, self._make(), beside.time_of(self._source.created_at, time))
        except SessionExistsError as exc:
            raise LoadedMeanwhileError(f"session {self._id!r} was made by somebody else; try again") from exc
        keep_state(tx, row.sid, State())
        return row, State()

    def _access(self, sid: int) -> Access:
        return Access(sid, self._id, self._here)

    # -- what is known when the source was read to its end

    def _finish(self) -> bool:
        """Whether that changed anything."""
        if self._row is None:
            self._row, self._memory.state = self._target.run(lambda tx: self._open(tx, self._now))
        changed = False
        source = self._source
        ending = _Ending(source.head(), source.updates(), tuple(source.checkpoints()), source.vars())
        good = (event for event in self._source.events() if beside.is_good(event))
        for events in _parts(good, AT_ONCE):
            changed |= self._target.run(partial(self._add_events, events=events)) > 0
        changed |= self._target.run(partial(self._settle, ending=ending))
        for calls in _parts(self._all_calls(), CALLS_AT_ONCE):
            changed |= self._target.run(partial(self._add_calls, calls=calls))
        return changed

    def _add_events(self, tx: Transaction, *, events: Sequence[SourceEvent]) -> int:
        assert self._row is not None
        row = admit(tx, self._access(self._row.sid))
        return beside.add_events(tx, row.sid, events, row.updated)

    def _all_calls(self) -> Iterator[tuple[SourceUsage, str | None]]:
        yield from self._calls.values()
        for call in self._source.usage():
            yield call, None

    def _add_calls(self, tx: Transaction, *, calls: Sequence[tuple[SourceUsage, str | None]]) -> bool:
        assert self._row is not None
        row = admit_beside(tx, self._access(self._row.sid))
        placed = [(call, None if uid is None else self._memory.place(uid)) for call, uid in calls]
        return beside.add_calls(tx, row, placed, self._source.parent, self._on_refused)

    def _settle(self, tx: Transaction, *, ending: _Ending) -> bool:
        assert self._row is not None
        row = admit(tx, self._access(self._row.sid))
        writes = tx.writes
        state = self._memory.state
        place = EMPTY_HEAD if ending.head == "" else self._place(tx, ending.head or self._last)
        if place is not None and state.head == head_of(tx, row.head) != place:
            found = tx.find_branch(place.branch)
            tip = EMPTY if found is None else tip_at(tx, found.branch, place.position)
            settle(tx, msgspec.structs.replace(row, head=tip))
            state = msgspec.structs.replace(state, head=place)
        state = self._settings(tx, row, state, ending)
        for checkpoint in ending.checkpoints:
            beside.put_checkpoint(tx, row, checkpoint, partial(self._place, tx), row.updated)
        if self._source.parent is not None:
            beside.link_to_parent(tx, row, self._source.parent, row.created)
        state = msgspec.structs.replace(state, ended=True)
        if state != self._memory.state:
            keep_state(tx, row.sid, state)
        return tx.writes > writes

    def _settings(self, tx: Transaction, row: SessionRow, state: State, ending: _Ending) -> State:
        access = self._access(row.sid)
        wanted = beside.wanted_settings(self._source, ending.updates, ending.vars)
        present = beside.present_settings(tx, row)
        given = settled(state, wanted, present)
        beside.apply_settings(tx, access, given, present, self._make)
        beside.add_aliases(tx, access, [*self._source.aliases, *ending.updates.get("aliases", ())])
        signs = {name: sign(value) for name, value in given.items()}
        return msgspec.structs.replace(state, settings={**state.settings, **signs})

    def _place(self, reader: Reader, name: str | None) -> Head | None:
        while name in self._instead:
            name = self._instead[name]
        place = None if name is None else self._memory.place(name)
        return None if place is None else Head(reader.get_branch(place[0]).uid, place[1])


def _closed_after(entries: Iterable[T]) -> Iterator[T]:
    """A source that is not read to its end lets go of its file at once: `yield from` closes it."""
    yield from entries


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """As many as one transaction takes."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
