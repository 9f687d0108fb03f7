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
from clew.core.conversation.append import TITLE_LENGTH
from clew.core.conversation.moves import settle
from clew.core.conversation.points import head_of, tip_at
from clew.core.conversation.sessions import create
from clew.core.engine.host import Here
from clew.core.load import settings as beside
from clew.core.load.entries import Item, Placing, item_of, time_of
from clew.core.load.memory import Memory, State, batch_name, find_target, keep_runs, keep_state, settled, sign
from clew.core.load.streams import CallWriter, EventDraft, EventWriter, Price, drafts_of, larger
from clew.core.log.ids import check_id
from clew.core.log.rows import EMPTY, NOWHERE, SessionRow
from clew.core.messages.text import snippet
from clew.core.runs.access import Access, admit, admit_beside
from clew.core.streams.usage import Estimate
from clew.core.transfer.write import Target
from clew.core.watch.notices import notice
from clew.errors import InvalidError, SessionExistsError, StoreBusyError
from clew.model import Head, Json
from clew.model.source import Loaded, LoadState, SourceCheckpoint, SourceEntry, SourceSession, SourceUsage

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
        price: Price | None = None,
    ) -> None:
        self._target = target
        self._price = price
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
        self._events = EventWriter()
        self._calls_written = CallWriter(source.parent if source.shares_calls else None, on_refused)
        self._calls: dict[str, SourceUsage] = {}
        self._said_in: dict[str, str] = {}
        """The first entry of each call. Two maps, as no tuple of theirs is the collector's work."""
        self._last: str | None = None
        self._time = time_of(source.created_at, -1)
        self.entries = 0
        self.messages = 0

    def run(self) -> Loaded:
        if self._row is not None and self._row.deleted is not None:
            return self._loaded("trashed")
        with closing(self._batches()) as batches:
            for batch in batches:
                self._commit(batch)
        changed = self._finish()
        return self._loaded("new" if self._is_new else "grown" if changed or self.entries else "unchanged")

    def rehearse(self) -> Loaded:
        """Read the source to its end, and write nothing."""
        if self._row is not None and self._row.deleted is not None:
            return self._loaded("trashed")
        with closing(self._batches()) as batches:
            for batch in batches:
                self._memory.places.update(dict.fromkeys((item.name for item in batch.items), 0))
                self.entries += len(batch.items)
        self._source.updates()
        state: LoadState = "new" if self._is_new else "grown" if self.entries else "unchanged"
        return Loaded(id=self._id, state=state, entries=self.entries, messages=self.messages)

    def _loaded(self, state: LoadState) -> Loaded:
        with self._target.read() as reader:
            row = None if self._row is None else reader.get_session(self._row.sid)
        messages = 0 if row is None else row.head.messages
        return Loaded(id=self._id, state=state, entries=self.entries, messages=messages)

    # -- reading the source

    def _batches(self) -> Generator[Batch, None, None]:
        """What is new, as one transaction takes it."""
        batch = Batch(self._last)
        places, names = self._memory.places, set[str]()
        for entry in _closed_after(self._source.entries):
            name = entry.uid
            if entry.kind == "message":
                self.messages += 1
            if entry.usage is not None:
                self._note_call(entry.usage, name)
            if name in places or name in names:
                self._last = name
                self._time = time_of(entry.at, self._time)
                if not batch.items:
                    batch.before = name
                continue
            item = self._checked(entry)
            if item is None:
                continue
            batch.add(item)
            names.add(name)
            if entry.events:
                batch.add_events(drafts_of(entry.events, decoded=entry.decoded))
            self._last = name
            if len(batch.items) + len(batch.events) >= AT_ONCE or batch.size >= AT_ONCE_BYTES:
                yield batch
                batch = Batch(name)
                names.clear()
        if batch.items:
            yield batch

    def _checked(self, entry: SourceEntry) -> Item | None:
        self._time = time = time_of(entry.at, self._time if self._time >= 0 else self._now)
        try:
            item = item_of(entry, time)
        except InvalidError as error:
            self._instead[entry.uid] = self._standing(entry.parent)
            self._on_refused(entry.uid, error)
            return None
        if item.parent in self._instead:
            item = msgspec.structs.replace(item, parent=self._standing(item.parent))
        return item

    def _standing(self, name: str | None) -> str | None:
        """An entry, or what stands before it if it was refused. Of entries that name each other as what is
        before them: the last one that was taken."""
        seen: set[str] = set()
        while name in self._instead:
            if name in seen:
                return self._last
            seen.add(name)
            name = self._instead[name]
        return name

    def _note_call(self, call: SourceUsage, uid: str) -> None:
        known = self._calls.get(call.id)
        if known is None:
            self._calls[call.id] = call
            self._said_in[call.id] = uid
        elif known is not call:
            self._calls[call.id] = larger(known, call)

    # -- writing

    def _commit(self, batch: Batch) -> None:
        placing, self._row, self._memory.state = self._target.run(partial(self._put, batch=batch))
        self._memory.batches += 1
        self._memory.places.update(placing.fresh)
        self._events.commit()
        self.entries += len(batch.items)

    def _put(self, tx: Transaction, *, batch: Batch) -> tuple[Placing, SessionRow, State]:
        """May run again after a rollback: it keeps nothing of the time before."""
        items = batch.items
        row, state = self._open(tx, items[0].time)
        number = self._memory.batches + 1
        if tx.get_record(row.sid, "key", batch_name(number)) is not None:
            raise LoadedMeanwhileError(f"session {row.id!r} is being loaded by somebody else; try again")
        placing = Placing(tx, row, self._memory)
        placing.put(items, batch.before)
        keep_runs(tx, row.sid, number, placing.runs())
        newest = max(item.time for item in items)
        if batch.events:
            self._events.add(tx, row.sid, batch.events, newest)
        assert placing.last is not None
        if head_of(tx, row.head) == state.head:
            row = msgspec.structs.replace(row, head=placing.last)
            state = msgspec.structs.replace(state, head=head_of(tx, placing.last))
        if row.title is None:
            said = next((item.said for item in items if item.said.strip()), "")
            row = msgspec.structs.replace(row, title=snippet(said, TITLE_LENGTH) or None)
        row = msgspec.structs.replace(row, updated=max(row.updated, newest), due=0)
        settle(tx, row)
        notice(tx, row.sid, self._here.now())
        keep_state(tx, row.sid, state)
        return placing, row, state

    def _open(self, tx: Transaction, time: int) -> tuple[SessionRow, State]:
        """The session, made with the first batch."""
        if self._row is not None:
            return admit(tx, self._access(self._row.sid)), self._memory.state
        try:
            row = create(tx, self._id, self._make(), time_of(self._source.created_at, time))
        except SessionExistsError as exc:
            raise LoadedMeanwhileError(f"session {self._id!r} was made by somebody else; try again") from exc
        notice(tx, row.sid, self._here.now())
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
        for events in _parts(self._source.events(), AT_ONCE):
            changed |= self._target.run(partial(self._add_events, events=drafts_of(events))) > 0
            self._events.commit()
        changed |= self._target.run(partial(self._settle, ending=ending))
        for calls in _parts(self._all_calls(), CALLS_AT_ONCE):
            changed |= self._target.run(partial(self._add_calls, calls=calls, prices=self._prices(calls)))
            self._calls_written.commit()
        return changed

    def _add_events(self, tx: Transaction, *, events: Sequence[EventDraft]) -> int:
        assert self._row is not None
        row = admit(tx, self._access(self._row.sid))
        return self._events.add(tx, row.sid, events, row.updated)

    def _all_calls(self) -> Iterator[tuple[SourceUsage, str | None]]:
        for id, call in self._calls.items():
            yield call, self._said_in[id]
        for call in self._source.usage():
            yield call, None

    def _prices(self, calls: Sequence[tuple[SourceUsage, str | None]]) -> Mapping[str, Estimate]:
        """Looked up before the calls are written, and while nothing is read: it takes long."""
        if self._price is None:
            return {}
        assert self._row is not None
        with self._target.read() as reader:
            row = reader.get_session(self._row.sid) or self._row
            asked = self._calls_written.unpriced(reader, row, [call for call, _ in calls])
        found = {id: self._price(*call) for id, call in asked.items()}
        return {id: cost for id, cost in found.items() if cost is not None}

    def _add_calls(
        self,
        tx: Transaction,
        *,
        calls: Sequence[tuple[SourceUsage, str | None]],
        prices: Mapping[str, Estimate],
    ) -> bool:
        assert self._row is not None
        row = admit_beside(tx, self._access(self._row.sid))
        placed = [(call, None if uid is None else self._memory.place(uid)) for call, uid in calls]
        return self._calls_written.add(tx, row, placed, prices)

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
            notice(tx, row.sid, self._here.now())
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
        signs = {name: sign(value) for name, value in given.items()}
        # One that led here before, and does not any more, was removed here.
        aliases = [*self._source.aliases, *ending.updates.get("aliases", ())]
        new = [alias for alias in aliases if f"alias.{alias}" not in state.settings]
        signs |= {f"alias.{alias}": "" for alias in beside.add_aliases(tx, access, new)}
        return msgspec.structs.replace(state, settings={**state.settings, **signs})

    def _place(self, reader: Reader, name: str | None) -> Head | None:
        name = self._standing(name)
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


# -- a batch


class Batch:
    """Entries one after the other in the order of the source, and the events between them."""

    __slots__ = ("before", "events", "items", "size")

    def __init__(self, before: str | None) -> None:
        self.before = before
        """The entry before them in the source."""
        self.items: list[Item] = []
        self.events: list[EventDraft] = []
        self.size = 0
        """In bytes."""

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.size += len(item.body) if item.note is None else len(item.body) + len(item.note)

    def add_events(self, events: list[EventDraft]) -> None:
        self.events += events
        self.size += sum(len(event.data) for event in events)
