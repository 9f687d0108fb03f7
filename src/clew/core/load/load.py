"""Loading a session of another program: once, and the next time only what is new.

Read it from top to bottom. A source gives entries; each is checked, and put into a batch; a full batch is one
transaction, in which its entries go to their places; when the source has come to its end, what stands beside
the conversation follows: events, head, settings, checkpoints, model calls.

A batch is kept together with the names that the source gives its entries. So a load that was killed goes on
where it was, and one that is repeated adds nothing. In memory there are one batch, the place of each entry,
and the sum of each call: nothing that grows with the size of the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.append import TITLE_LENGTH
from clew.core.conversation.moves import settle
from clew.core.conversation.points import head_of, tip_at
from clew.core.conversation.sessions import Changes, create
from clew.core.engine.notices import notice
from clew.core.load import settings as beside
from clew.core.load.entries import (
    Item,
    Memory,
    Placing,
    State,
    batch_name,
    find_target,
    item_of,
    keep_runs,
    keep_state,
    settled,
    signed,
    time_of,
)
from clew.core.load.status import settle_status
from clew.core.load.streams import CallWriter, EventWriter, drafts_of, larger
from clew.core.log.ids import check_id
from clew.core.log.records import AGENT
from clew.core.log.rows import EMPTY, NOWHERE, EventRow, SessionRow
from clew.core.messages.text import snippet
from clew.core.runs.access import Access, require_write, require_write_beside
from clew.core.streams import prices
from clew.core.streams.usage import Estimate
from clew.errors import InvalidError, SessionExistsError, StoreBusyError
from clew.model import Head, Json
from clew.model.session import utc
from clew.model.source import (
    Loaded,
    LoadState,
    SourceCheckpoint,
    SourceEntry,
    SourceRun,
    SourceSession,
    SourceUsage,
)

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

AT_ONCE: Final = 1000
"""Entries and events in one transaction,"""
AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""and how large they may be together: others wait for it."""
CALLS_AT_ONCE: Final = 10_000
EMPTY_HEAD: Final = Head("", NOWHERE)

T = TypeVar("T")
OnRefused: TypeAlias = Callable[[str, InvalidError], None]
"""Called with the name of an entry that cannot be kept, and why. Entries that follow it go behind the entry
before it."""
Call: TypeAlias = tuple[SourceUsage, str | None]
"""A model call, and the name of the entry that tells of it."""


class LoadedMeanwhileError(StoreBusyError):
    """Another thread or process loads the same session. Read the source again: what it left is found."""


def load(
    engine: EngineLike, source: SourceSession, *, dry_run: bool, rename: bool, on_refused: OnRefused
) -> Loaded:
    """Bring one session into a store; with `dry_run` only say what would be brought."""
    loading = Loading(engine, source, dry_run=dry_run, rename=rename, on_refused=on_refused)
    if not loading.is_trashed:
        loading.bring_entries()
        loading.bring_rest(() if dry_run else source.checkpoints())
    return loading.report()


class Loading:
    """One session on its way into a store: `bring_entries`, then `bring_rest`, then `report`.

    Args:
        origin: Where the session comes from, for its metadata: the source cannot say otherwise.
        counted: Calls that were counted so far, and the source in which they were: another source that
            repeats one does not count it again. None: ids of calls mean something in their own source only.
    """

    def __init__(
        self,
        engine: EngineLike,
        source: SourceSession,
        *,
        dry_run: bool,
        rename: bool,
        on_refused: OnRefused,
        origin: Json = None,
        counted: dict[str, str] | None = None,
    ) -> None:
        self._engine = engine
        self._source = source
        self._dry_run = dry_run
        self._on_refused = on_refused
        self._origin = origin
        self._counted = counted
        self._by = str(source.metadata.get(AGENT) or source.id.partition(":")[0])
        """Who did what the source tells of."""
        self._now = engine.now()
        with engine.read() as reader:
            self.id, self._row, known = find_target(reader, check_id(source.id), rename=rename)
            """The id that the session has, or gets, in the store."""
        self._memory = known or Memory()
        self._is_new = self._row is None
        self.is_trashed = self._row is not None and self._row.deleted is not None
        """The session was deleted here: nothing is brought."""
        self._instead: dict[str, str | None] = {}
        """Refused entries, and the entry before each."""
        self._events = EventWriter()
        others = [source.parent, *source.copies] if source.shares_calls else []
        self._calls_written = CallWriter([id for id in others if id is not None], on_refused)
        self._calls: dict[str, SourceUsage] = {}
        self._said_in: dict[str, str] = {}
        """The first entry of each call. Two maps, because the garbage collector would visit tuples."""
        self._last: str | None = None
        self._time = self._first = time_of(source.created_at, -1)
        self._entries = 0
        self._messages = 0
        self._changed = False

    # -- the conversation

    def bring_entries(self) -> None:
        """Read all entries of the source, and commit those that are new, a batch at a time."""
        places = self._memory.places
        batch = Batch(None)
        entries = iter(self._source.entries)
        try:
            for entry in entries:
                name = entry.uid
                if entry.kind == "message":
                    self._messages += 1
                if entry.usage is not None:
                    self._note_call(entry.usage, name)
                if name in places or name in batch.names:
                    self._last = name
                    self._time = time_of(entry.at, self._time)
                    if not batch.items:
                        batch.before = name
                    continue
                item = self._checked(entry)
                if item is None:
                    continue
                batch.add(item)
                if entry.events:
                    batch.add_events(drafts_of(entry.events, decoded=entry.decoded))
                self._last = name
                if len(batch.items) + len(batch.events) >= AT_ONCE or batch.size >= AT_ONCE_BYTES:
                    self._commit(batch)
                    batch = Batch(name)
        finally:
            if isinstance(entries, Generator):
                entries.close()  # a source that is not read to its end lets go of its file
        if batch.items:
            self._commit(batch)

    def _checked(self, entry: SourceEntry) -> Item | None:
        """The entry, ready to be put in its place; None: it cannot be kept."""
        self._time = time = time_of(entry.at, self._time if self._time >= 0 else self._now)
        if self._first < 0:
            self._first = time
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
        """An entry, or the one before it if it was refused. Of refused entries that name each other as the
        one before: the last entry that was taken."""
        seen: set[str] = set()
        while name in self._instead:
            if name in seen:
                return self._last
            seen.add(name)
            name = self._instead[name]
        return name

    def _note_call(self, call: SourceUsage, uid: str) -> None:
        if not self._is_own(call):
            return
        known = self._calls.get(call.id)
        if known is None:
            self._calls[call.id] = call
            self._said_in[call.id] = uid
        elif known is not call:
            self._calls[call.id] = larger(known, call)

    def _is_own(self, call: SourceUsage) -> bool:
        """Whether no other source of this import has counted it."""
        source = self._source.id
        return self._counted is None or self._counted.setdefault(call.id, source) == source

    def _commit(self, batch: Batch) -> None:
        memory = self._memory
        if self._dry_run:
            memory.places.update(dict.fromkeys(batch.names, 0))
        else:
            placing, self._row, memory.state = self._engine.run(lambda tx: self._write(tx, batch))
            memory.batches += 1
            memory.places.update(placing.fresh)
            self._events.commit()
        self._entries += len(batch.items)

    def _write(self, tx: Transaction, batch: Batch) -> tuple[Placing, SessionRow, State]:
        """May run again after a rollback: it changes nothing in memory."""
        items = batch.items
        row, state = self._open(tx, items[0].time)
        number = self._memory.batches + 1
        if tx.get_record(row.sid, "key", batch_name(number)) is not None:
            raise LoadedMeanwhileError(f"another process is loading session {row.id!r}; try again")
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
        notice(tx, row.sid, self._engine.now())
        keep_state(tx, row.sid, state)
        return placing, row, state

    def _open(self, tx: Transaction, time: int) -> tuple[SessionRow, State]:
        """The session, made with the first batch."""
        if self._row is not None:
            return require_write(tx, self._access(self._row)), self._memory.state
        try:
            row = create(tx, self.id, Changes(), time_of(self._source.created_at, time))
        except SessionExistsError as exc:
            raise LoadedMeanwhileError(f"another process made session {self.id!r}; try again") from exc
        notice(tx, row.sid, self._engine.now())
        keep_state(tx, row.sid, State())
        return row, State()

    def _access(self, row: SessionRow) -> Access:
        return Access(row.sid, self.id, self._engine.host)

    # -- what stands beside the conversation

    def bring_rest(self, checkpoints: Iterable[SourceCheckpoint]) -> None:
        """All that a source tells when its entries were read."""
        source = self._source
        ending = _Ending(source.head(), source.updates(), tuple(checkpoints), source.vars(), source.run())
        if self._dry_run:
            return
        run = self._engine.run
        if self._row is None:  # it has no entries
            self._row, self._memory.state = run(lambda tx: self._open(tx, self._now))
        row = self._row
        for events in _parts(source.events(), AT_ONCE):
            self._changed |= run(partial(self._add_events, row=row, events=drafts_of(events)))
            self._events.commit()
        self._changed |= run(lambda tx: self._settle(tx, row, ending))
        told = ((call, self._said_in[id]) for id, call in self._calls.items())
        apart = ((call, None) for call in source.usage() if self._is_own(call))
        for calls in _parts(chain(told, apart), CALLS_AT_ONCE):
            costs = self._prices(row, calls)
            self._changed |= run(partial(self._add_calls, row=row, calls=calls, costs=costs))
            self._calls_written.commit()

    def _add_events(self, tx: Transaction, row: SessionRow, events: Sequence[EventRow]) -> bool:
        row = require_write(tx, self._access(row))
        return self._events.add(tx, row.sid, events, row.updated) > 0

    def _settle(self, tx: Transaction, row: SessionRow, ending: _Ending) -> bool:
        """Head, settings, checkpoints; whether that changed anything."""
        row = require_write(tx, self._access(row))
        writes = tx.writes
        state = self._memory.state
        place = EMPTY_HEAD if ending.head == "" else self._place(tx, ending.head or self._last)
        if place is not None and state.head == head_of(tx, row.head) != place:
            found = tx.find_branch(place.branch)
            tip = EMPTY if found is None else tip_at(tx, found.branch, place.position)
            settle(tx, msgspec.structs.replace(row, head=tip))
            notice(tx, row.sid, self._engine.now())
            state = msgspec.structs.replace(state, head=place)
        state = self._set(tx, row, state, ending)
        for checkpoint in ending.checkpoints:
            at = EMPTY_HEAD if checkpoint.entry is None else self._place(tx, checkpoint.entry)
            if at is not None:
                beside.put_checkpoint(tx, row, checkpoint, at, row.updated)
        if self._source.parent is not None:
            beside.link_to_parent(tx, row, self._source.parent, row.created)
        row = tx.get_session(row.sid) or row
        row, state = settle_status(tx, row, ending.run, state, self._by, has_grown=self._entries > 0)
        state = msgspec.structs.replace(state, ended=True)
        if state != self._memory.state:
            keep_state(tx, row.sid, state)
        return tx.writes > writes

    def _set(self, tx: Transaction, row: SessionRow, state: State, ending: _Ending) -> State:
        """Set what is new in the source, and was not changed here since."""
        access = self._access(row)
        wanted = beside.wanted_settings(self._source, ending.updates, ending.vars, self._origin)
        present = beside.present_settings(tx, row)
        given = settled(state, wanted, present)
        beside.apply_settings(tx, access, given, present)
        signs = signed(given)
        # An alias that led here after an earlier load, and does not any more, was removed here.
        aliases = [*self._source.aliases, *ending.updates.get("aliases", ())]
        new = [alias for alias in aliases if f"alias.{alias}" not in state.settings]
        signs |= {f"alias.{alias}": "" for alias in beside.add_aliases(tx, access, new)}
        return msgspec.structs.replace(state, settings={**state.settings, **signs})

    def _place(self, reader: Reader, name: str | None) -> Head | None:
        name = self._standing(name)
        place = None if name is None else self._memory.place(name)
        return None if place is None else Head(reader.get_branch(place[0]).uid, place[1])

    def _prices(self, row: SessionRow, calls: Sequence[Call]) -> Mapping[str, Estimate]:
        """Looked up before the calls are written, and while nothing is read: loading the list may be slow."""
        with self._engine.read() as reader:
            row = reader.get_session(row.sid) or row
            asked = self._calls_written.unpriced(reader, row, [call for call, _ in calls])
        found = {id: prices.price_of(self._engine, *call) for id, call in asked.items()}
        return {id: cost for id, cost in found.items() if cost is not None}

    def _add_calls(
        self, tx: Transaction, row: SessionRow, calls: Sequence[Call], costs: Mapping[str, Estimate]
    ) -> bool:
        row = require_write_beside(tx, self._access(row))
        placed = [(call, None if uid is None else self._memory.place(uid)) for call, uid in calls]
        return self._calls_written.add(tx, row, placed, costs)

    # -- what became of it

    def report(self) -> Loaded:
        state: LoadState = "unchanged"
        if self.is_trashed:
            state = "trashed"
        elif self._is_new:
            state = "new"
        elif self._changed or self._entries:
            state = "grown"
        messages = self._messages
        if self.is_trashed or not self._dry_run:
            with self._engine.read() as reader:
                row = None if self._row is None else reader.get_session(self._row.sid)
            messages = 0 if row is None else row.head.messages
        created, updated = self._times()
        return Loaded(
            id=self.id,
            state=state,
            entries=self._entries,
            messages=messages,
            created_at=None if created is None else utc(created),
            updated_at=None if updated is None else utc(updated),
        )

    @property
    def sid(self) -> int | None:
        """The number of the session in the store; None: it is not there."""
        return None if self._row is None else self._row.sid

    @property
    def batches(self) -> int:
        """In how many transactions its entries came, those of earlier loads included."""
        return self._memory.batches

    def _times(self) -> tuple[int | None, int | None]:
        """When it began, and when it was active last."""
        if self._row is not None and not self._dry_run:
            return self._row.created, self._row.updated
        last = max(self._time, self._row.updated if self._row else -1)
        first = self._row.created if self._row else time_of(self._source.created_at, self._first)
        return (None if first < 0 else first), (None if last < 0 else last)


class Batch:
    """What goes into one transaction: entries in the order of the source, and the events between them."""

    __slots__ = ("before", "events", "items", "names", "size")

    def __init__(self, before: str | None) -> None:
        self.before = before
        """The entry before them in the source."""
        self.items: list[Item] = []
        self.names: set[str] = set()
        self.events: list[EventRow] = []
        self.size = 0
        """In bytes."""

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.names.add(item.name)
        self.size += len(item.body) if item.note is None else len(item.body) + len(item.note)

    def add_events(self, events: list[EventRow]) -> None:
        self.events += events
        self.size += sum(len(event.data) for event in events)


class _Ending(msgspec.Struct, frozen=True):
    """What a source says at its end. It is asked once, because a transaction may run twice."""

    head: str | None
    updates: Mapping[str, Json]
    checkpoints: tuple[SourceCheckpoint, ...]
    vars: Mapping[str, Json]
    run: SourceRun | None


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """As many at a time as one transaction takes."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
