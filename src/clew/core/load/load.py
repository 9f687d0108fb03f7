"""Loading a session of another program: once, and the next time only what is new.

Read it from top to bottom. A source gives entries; each is checked, and put into a batch; a full batch is one
transaction, in which its entries go to their places; when the source has come to its end, what stands beside
the conversation follows: events, head, settings, checkpoints, model calls. The last batch waits for them: if
that is not much, as with the line that an agent just wrote, all of it is one transaction, with the caller's
own record of what was read.

A batch is kept together with the names that the source gives its entries. So a load that was killed goes on
where it was, and one that is repeated adds nothing. In memory there are one batch, the place of each entry,
and the sum of each call: nothing that grows with the size of the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.append import TITLE_LENGTH
from clew.core.conversation.moves import settle
from clew.core.conversation.points import head_of
from clew.core.conversation.sessions import Changes, create
from clew.core.engine.notices import notice
from clew.core.load import settings as beside
from clew.core.load.cleaning import clean_checkpoints, clean_run, clean_session, clean_values
from clew.core.load.entries import (
    Item,
    KeptRuns,
    Memories,
    Memory,
    Placing,
    Run,
    State,
    find_target,
    item_of,
    keep_runs,
    keep_state,
    settled,
    signed,
    time_of,
    unpacked,
)
from clew.core.load.lines import LineWriter
from clew.core.load.renamed import Renamed
from clew.core.load.sharing import Sharing, sharing_of
from clew.core.load.status import is_with_program, settle_agent, settle_status, tip_of, touch_agent
from clew.core.load.streams import CallWriter, EventWriter, drafts_of, larger
from clew.core.load.trial import PathCounts, Trial
from clew.core.log.ids import check_id
from clew.core.log.records import AGENT
from clew.core.log.rows import NO_TIME, NOWHERE, Details, EventRow, SessionRow
from clew.core.messages.codec import encode_json
from clew.core.messages.text import snippet
from clew.core.redact.incoming import Incoming
from clew.core.redact.markers import count_markers
from clew.core.runs.access import Access, require_write
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
    SourceEvent,
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


Step: TypeAlias = Callable[[Transaction, "Pass"], None]
"""A part of a load. It may run again after a rollback: it changes nothing but what it is given."""
OnLast: TypeAlias = Callable[[Transaction, "Pass"], None]
"""What the caller writes in the last transaction of a load."""


class WholeNeededError(Exception):
    """What is new in a source goes behind something that is not known here: load all of it."""


class LoadedMeanwhileError(StoreBusyError):
    """Another thread or process loads the same session. Read the source again: what it left is found."""


def load(
    engine: EngineLike,
    source: SourceSession,
    *,
    dry_run: bool,
    rename: bool,
    on_refused: OnRefused,
    redactor: Incoming | None = None,
) -> Loaded:
    """Bring one session into a store; with `dry_run` only say what would be brought."""
    loading = Loading(
        engine, source, dry_run=dry_run, rename=rename, on_refused=on_refused, redactor=redactor
    )
    if not loading.is_trashed:
        loading.bring_entries()
        loading.bring_rest(() if dry_run else source.checkpoints())
    return loading.report()


class Pass:
    """One transaction of a load: how far it is. A new one for each try."""

    def __init__(self, row: SessionRow | None, memory: Memory) -> None:
        self.row = row
        """The session; not None when a step has opened it."""
        self.is_open = self.is_new = False
        self.memory = memory
        self.fresh: dict[str, int] = {}
        """Places of entries that this transaction adds."""
        self.runs: KeptRuns | None = None
        self.shared: list[Run] = []
        """Entries of another session that this one shares, and that are not written down yet."""
        self.state = memory.state
        self.kept_state: bytes | None = None
        self.is_noticed = False
        self.is_changed = False

    @property
    def session(self) -> SessionRow:
        assert self.row is not None
        return self.row

    @property
    def batches(self) -> int:
        """In how many parts the entries of the session came,"""
        return self.memory.batches if self.runs is None else self.runs.number

    @property
    def names(self) -> int:
        """and how many entries the last of them has."""
        return self.memory.names if self.runs is None else self.runs.names

    def place(self, name: str | None) -> tuple[int, int] | None:
        if name is None:
            return None
        found = self.fresh.get(name)
        return self.memory.place(name) if found is None else unpacked(found)


class Loading:
    """One session on its way into a store: `bring_entries`, `gather`, `finish`, then `report`.

    Args:
        origin: Where the session comes from, for its metadata: the source cannot say otherwise.
        counted: Calls that were counted so far, and the source in which they were: another source that
            repeats one does not count it again. None: ids of calls mean something in their own source only.
        goes_on: The source gives only what is new. WholeNeededError: that is not enough.
        memories: Where the memories of sessions are kept between loads.
        guard: Called at the beginning of each transaction; what it raises ends the load.
        redactor: What takes definite secrets out of all that is brought; None: nothing does.
        trial: What the sources before this one would have brought, in a dry run of several.
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
        goes_on: bool = False,
        memories: Memories | None = None,
        guard: Callable[[Transaction], None] | None = None,
        redactor: Incoming | None = None,
        trial: Trial | None = None,
    ) -> None:
        self._engine = engine
        self._redactor = redactor
        self._source = source = source if redactor is None else clean_session(redactor, source)
        self._dry_run = dry_run
        self._on_refused = on_refused
        self._origin = origin
        self._counted = counted
        self._goes_on = goes_on
        self._memories = memories
        self._guard = guard
        self._by = str(source.metadata.get(AGENT) or source.id.partition(":")[0])
        """Who did what the source tells of."""
        self._now = engine.now()
        with engine.read() as reader:
            self.id, self._row, known = find_target(
                reader,
                check_id(source.id),
                rename=rename,
                remember=None if memories is None else memories.find,
            )
            """The id that the session has, or gets, in the store."""
        self._memory = known or Memory()
        self._trial = trial or Trial()
        self._counts = PathCounts(self._trial, self.id, self._memory) if dry_run else None
        """Messages on the path to each entry, counted in a dry run only."""
        self._is_new = self._row is None and self.id not in self._trial
        self.is_trashed = self._row is not None and self._row.deleted is not None
        """The session was deleted here: nothing is brought."""
        self._renamed = None
        """Finds what is here under the names that earlier versions gave; None: nothing is."""
        if self._row is not None and not goes_on:
            self._renamed = Renamed(engine, self._row.sid, self._memory, redactor)
        self._instead: dict[str, str | None] = {}
        """Refused entries, and the entry before each."""
        self._events = EventWriter()
        self._lines = LineWriter(
            engine, None if self._row is None else self._row.sid, redactor and redactor.uncounted()
        )
        others = [source.parent, *source.copies] if source.shares_calls else []
        self._calls_written = CallWriter([id for id in others if id is not None], on_refused)
        self._calls: dict[str, SourceUsage] = {}
        self._said_in: dict[str, str] = {}
        """The first entry of each call. Two maps, because the garbage collector would visit tuples."""
        self._last: str | None = None
        self._time = self._first = time_of(source.created_at, -1)
        self._written = NO_TIME
        """When the program wrote last, as far as what was read now tells."""
        self._entries = 0
        self._messages = 0
        self._changed = False
        self._sharing = None if dry_run or self._row is not None else sharing_of(engine, source, self.id)
        self._shared_events: list[EventRow] = []
        self._steps: list[Step] = []
        """What is left to be written, in this order,"""
        self._size = 0
        """and how many entries, events and calls that are."""

    # -- the conversation

    def bring_entries(self) -> None:
        """Read all entries of the source, and commit those that are new, a batch at a time; all but the last
        batch, which `finish` commits."""
        places, counts, renamed = self._memory.places, self._counts, self._renamed
        batch = Batch(None)
        entries = iter(self._source.entries)
        try:
            for entry in entries:
                name = entry.uid
                self._note_time(entry.at)
                for event in entry.events:
                    if event.at is not entry.at:
                        self._note_time(event.at)
                if entry.kind == "message":
                    self._messages += 1
                if entry.usage is not None:
                    self._note_call(entry.usage, name)
                if renamed is not None and entry.events:
                    entry = msgspec.structs.replace(entry, events=renamed.events(entry.events))
                is_known = name in places or name in batch.names or (counts is not None and name in counts)
                if is_known or (renamed is not None and self._is_renamed(renamed, entry)):
                    self._lines.take(entry, None, ())
                    if renamed is not None and entry.events:
                        self._hold_missing(entry.events)
                    self._last = name
                    self._time = time_of(entry.at, self._time)
                    if not batch.items:
                        batch.before = name
                        if self._lines.size >= AT_ONCE_BYTES:  # an older version did not keep them
                            self._hold(batch)
                            self._flush()
                    continue
                item = self._checked(entry, batch.names)
                if item is None:
                    self._lines.take(entry, None, ())
                    continue
                if self._sharing is not None and self._share(self._sharing, item, entry):
                    batch.before = name
                    continue
                batch.add(item)
                events = self._drafts(entry.events, decoded=entry.decoded) if entry.events else []
                if events:
                    batch.add_events(events, item.time)
                self._lines.take(entry, item, events)
                self._last = name
                if len(batch.items) + len(batch.events) >= AT_ONCE or batch.size >= AT_ONCE_BYTES:
                    self._commit(batch)
                    batch = Batch(name)
        finally:
            if isinstance(entries, Generator):
                entries.close()  # a source that is not read to its end lets go of its file
        self._hold_events()
        if renamed is not None and counts is None:
            self._keep_names(renamed.runs())
        if batch.items:
            self._hold(batch)

    def _is_renamed(self, renamed: Renamed, entry: SourceEntry) -> bool:
        """Whether the entry is here under the name that an earlier version gave it."""
        if entry.formerly is None or entry.formerly not in self._memory.places:
            return False
        time = time_of(entry.at, self._time if self._time >= 0 else self._now)
        try:
            item = item_of(entry, time, self._redactor)
        except InvalidError:
            return False
        return renamed.entry(
            msgspec.structs.replace(item, parent=self._standing(item.parent)), entry.formerly
        )

    def _keep_names(self, runs: Sequence[Run]) -> None:
        """Write down the names that entries of an earlier version have now."""
        for part in _parts(runs, AT_ONCE):
            self._flush()  # a transaction of its own: each writes one record of names
            self._add_step(self._names_step(part), len(part))
            self._flush()

    def _names_step(self, runs: Sequence[Run]) -> Step:
        def step(tx: Transaction, at: Pass) -> None:
            self._open(tx, at, self._now)
            at.shared = list(runs)

        return step

    def _hold_missing(self, events: Sequence[SourceEvent]) -> None:
        """Write the events between entries that are here with the next transaction, if they are not: a log
        that lost lines may have grown by an event alone."""
        assert self._row is not None
        if self._counts is not None:
            return
        with self._engine.read() as reader:
            if reader.event_bounds(self._row.sid)[0] > 1:
                return  # the oldest were taken away: they must not come again
            missing = [one for one in events if one.type and reader.find_event(self._row.sid, one.id) is None]
        drafts = self._drafts(missing)
        if drafts:
            self._add_step(self._events_step(drafts), len(drafts))
            if self._size > 2 * AT_ONCE:
                self._flush()

    def _note_time(self, at: datetime | None) -> None:
        if at is not None:
            self._written = max(self._written, time_of(at, NO_TIME))

    def _share(self, sharing: Sharing, item: Item, entry: SourceEntry) -> bool:
        """Whether the entry is one that the base has too: then it is not stored again."""
        place = None if sharing.is_over else sharing.take(item)
        if place is None:
            self._hold_events()
            return False
        self._memory.places[item.name] = place
        self._last = item.name
        self._entries += 1
        events = drafts_of(entry.events, decoded=entry.decoded) if entry.events else []
        self._shared_events += events
        self._lines.take(entry, msgspec.structs.replace(item, note=None), events)
        if len(self._shared_events) >= AT_ONCE:
            self._hold_events()
            self._flush()
        return True

    def _hold_events(self) -> None:
        """Write the events between shared entries with the next transaction."""
        events, self._shared_events = self._shared_events, []
        if events:
            self._add_step(self._events_step(events), len(events))

    def _checked(self, entry: SourceEntry, known: Container[str]) -> Item | None:
        """The entry, ready to be put in its place; None: it cannot be kept. `known`: the names before it in
        its batch."""
        self._time = time = time_of(entry.at, self._time if self._time >= 0 else self._now)
        if self._first < 0:
            self._first = time
        try:
            item = item_of(entry, time, self._redactor)
        except InvalidError as error:
            self._instead[entry.uid] = self._standing(entry.parent)
            self._on_refused(entry.uid, error)
            return None
        if item.parent in self._instead:
            item = msgspec.structs.replace(item, parent=self._standing(item.parent))
        if self._goes_on:
            for other in (item.parent, item.start):
                if other is not None and other not in known and other not in self._memory.places:
                    raise WholeNeededError(f"entry {item.name!r} goes behind {other!r}, which is not here")
        return item

    def _drafts(self, events: Iterable[SourceEvent], *, decoded: bool = False) -> list[EventRow]:
        return drafts_of(events, decoded=decoded, redactor=self._redactor)

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
        """A full batch."""
        self._hold(batch)
        self._flush()

    def _hold(self, batch: Batch) -> None:
        """Write a batch with the next transaction."""
        self._entries += len(batch.items)
        if self._counts is not None:
            with self._engine.read() as reader:
                self._counts.add(reader, batch.items, batch.before)
            self._lines.commit()
        else:
            self._add_step(lambda tx, at: self._put(tx, at, batch), len(batch.items) + len(batch.events))

    def _add_step(self, step: Step, size: int) -> None:
        self._steps.append(step)
        self._size += size

    def _flush(self, last: OnLast | None = None) -> None:
        """Write what is left: as one transaction, if that is not too much, else step by step. `last` is part
        of the last one."""
        steps, self._steps = self._steps, []
        parts = [steps] if self._size <= 2 * AT_ONCE else [[step] for step in steps]
        self._size = 0
        if last is not None:
            parts = [*parts[:-1], [*(parts[-1] if parts else []), last]]
        for part in parts:
            self._run(part)

    def _run(self, steps: Sequence[Step]) -> None:
        """One transaction."""
        memory = self._memory

        def work(tx: Transaction) -> Pass:
            at = Pass(self._row, memory)
            self._events.begin()
            if self._guard is not None:
                self._guard(tx)
            for step in steps:
                step(tx, at)
            if at.row is not None:
                self._lines.write(tx, at.row.sid)
            if at.shared:
                self._keep_runs(tx, at, at.shared)
            if at.is_new or at.state != memory.state:
                at.kept_state = keep_state(tx, at.session.sid, at.state)
            return at

        self._lines.take_secrets_out()
        at = self._engine.run(work)
        self._row = at.row
        memory.state = at.state
        memory.places.update(at.fresh)
        if at.kept_state is not None:
            memory.kept_state = at.kept_state
        if at.runs is not None:
            memory.batches, memory.names, memory.last = at.runs
        self._changed |= at.is_changed
        self._events.commit()
        self._lines.commit()
        self._calls_written.commit()

    def _put(self, tx: Transaction, at: Pass, batch: Batch) -> None:
        """Entries in their places, and the events between them."""
        items = batch.items
        row = self._open(tx, at, items[0].time if items else self._now)
        if not items:
            return
        placing = Placing(tx, row, self._memory)
        placing.put(items, batch.before)
        self._keep_runs(tx, at, [*at.shared, *placing.runs()])
        at.fresh = placing.fresh
        newest = max(item.time for item in items)
        if batch.events:
            self._events.add(tx, row.sid, batch.events, newest)
        assert placing.last is not None
        if is_with_program(tx, row, at.state):
            row = msgspec.structs.replace(row, head=placing.last)
            at.state = msgspec.structs.replace(at.state, head=head_of(tx, placing.last))
        if row.title is None:
            said = next((item.said for item in items if item.said.strip()), "")
            row = msgspec.structs.replace(row, title=snippet(said, TITLE_LENGTH) or None)
        at.row = msgspec.structs.replace(row, updated=max(row.updated, newest), due=0)
        settle(tx, at.row)
        self._notice(tx, at)

    def _keep_runs(self, tx: Transaction, at: Pass, runs: Sequence[Run]) -> None:
        at.runs = keep_runs(tx, at.session.sid, self._memory, runs)
        if at.runs is None:
            raise LoadedMeanwhileError(f"another process is loading session {self.id!r}; try again")
        at.shared = []

    def _open(self, tx: Transaction, at: Pass, time: int) -> SessionRow:
        """The session, made with the first batch."""
        if at.is_open:
            return at.session
        if at.row is not None:
            at.row = require_write(tx, self._access(at.row))
        else:
            try:
                at.row = self._create(tx, at, time_of(self._source.created_at, time))
            except SessionExistsError as exc:
                raise LoadedMeanwhileError(f"another process made session {self.id!r}; try again") from exc
            at.is_new = True
            self._notice(tx, at)
        at.is_open = True
        return at.row

    def _create(self, tx: Transaction, at: Pass, time: int) -> SessionRow:
        sharing = self._sharing
        if sharing is None or sharing.is_empty:
            return create(tx, self.id, Changes(), time)
        row = sharing.create(tx, self.id, time)
        if row is None:
            raise LoadedMeanwhileError(f"session {sharing.other.id!r} was purged meanwhile; try again")
        if not sharing.is_base:
            beside.link_to_parent(tx, sharing.other, self.id, time)
        at.shared = sharing.runs()
        at.state = msgspec.structs.replace(at.state, head=head_of(tx, row.head))
        return row

    def _notice(self, tx: Transaction, at: Pass) -> None:
        if not at.is_noticed:
            notice(tx, at.session.sid, self._engine.now())
            at.is_noticed = True

    def _access(self, row: SessionRow) -> Access:
        return Access(row.sid, self.id, self._engine.host)

    # -- what stands beside the conversation

    def bring_rest(self, checkpoints: Iterable[SourceCheckpoint]) -> None:
        """All that a source tells when its entries were read, and whatever was not written yet."""
        self.gather(checkpoints)
        self.finish()

    def gather(self, checkpoints: Iterable[SourceCheckpoint]) -> None:
        """Ask the source for all that it tells when its entries were read. After this it is not needed any
        more."""
        source = self._source
        ending = _Ending(
            source.head(), source.updates(), tuple(checkpoints), source.vars(), source.run(), source.turn()
        )
        if self._redactor is not None:
            ending = msgspec.structs.replace(
                ending,
                updates=clean_values(self._redactor, ending.updates),
                checkpoints=clean_checkpoints(self._redactor, ending.checkpoints),
                vars=clean_values(self._redactor, ending.vars),
                run=clean_run(self._redactor, ending.run),
            )
        if self._counts is not None:
            self._try(self._counts, ending)
            return
        for part in _parts(source.events(), AT_ONCE):
            events: Sequence[SourceEvent] = part if self._renamed is None else self._renamed.events(part)
            for event in events:
                self._note_time(event.at)
            drafts = self._drafts(events)
            self._lines.take_events(events, drafts)
            self._add_step(self._events_step(drafts), len(events))
            if self._size > 2 * AT_ONCE:
                self._flush()
        self._add_step(lambda tx, at: self._settle(tx, at, ending), len(ending.checkpoints))
        told = ((call, self._said_in[id]) for id, call in self._calls.items())
        told_apart = source.usage() if self._renamed is None else self._renamed.calls(source.usage())
        apart = ((call, None) for call in told_apart if self._is_own(call))
        for calls in _parts(chain(told, apart), CALLS_AT_ONCE):
            if self._size + len(calls) > 2 * AT_ONCE:
                self._flush()
            self._add_step(self._calls_step(calls, self._prices(calls, ending)), len(calls))

    def _try(self, counts: PathCounts, ending: _Ending) -> None:
        """Count, in a dry run, where the session would stand."""
        with self._engine.read() as reader:
            row = self._row
            if row is None or self._memory.state.head == head_of(reader, row.head):
                name = None if ending.head == "" else self._standing(ending.head or self._last)
                found = 0 if ending.head == "" else counts.at(reader, name)
                self._messages = found if found is not None else 0 if row is None else row.head.messages
            else:
                self._messages = row.head.messages  # the user moved it
            if row is not None:
                self._changed = bool(self._to_set(reader, row, self._memory.state, ending).given)
        wanted = beside.wanted_settings(self._source, ending.updates, ending.vars, self._origin)
        sets = self._trial.sets(self.id, signed(wanted))
        self._changed |= row is None and sets and not self._is_new
        counts.keep()

    def finish(self, last: OnLast | None = None) -> None:
        """Write what is left. `last` is written in the same transaction as the last of it: after that, the
        session is all here."""
        if self._dry_run:
            return
        self._flush(last)
        if self._memories is not None and self._row is not None:
            self._memories.keep(self._row.sid, self._memory)

    def _events_step(self, events: Sequence[EventRow]) -> Step:
        def step(tx: Transaction, at: Pass) -> None:
            row = self._open(tx, at, self._now)
            at.is_changed |= self._events.add(tx, row.sid, events, row.updated) > 0

        return step

    def _calls_step(self, calls: Sequence[Call], costs: Mapping[str, Estimate]) -> Step:
        def step(tx: Transaction, at: Pass) -> None:
            row = self._open(tx, at, self._now)
            placed = [(call, at.place(uid)) for call, uid in calls]
            at.is_changed |= self._calls_written.add(tx, row, placed, costs)

        return step

    def _settle(self, tx: Transaction, at: Pass, ending: _Ending) -> None:
        """Head, settings, checkpoints, status."""
        row = self._open(tx, at, self._now)
        writes = tx.writes
        place = EMPTY_HEAD if ending.head == "" else self._place(tx, at, ending.head or self._last)
        if place is not None and is_with_program(tx, row, at.state):
            if head_of(tx, row.head) != place:
                settle(tx, msgspec.structs.replace(row, head=tip_of(tx, place)))
                self._notice(tx, at)
            at.state = msgspec.structs.replace(at.state, head=place)
        self._set(tx, at, ending)
        written = self._written
        if written > self._now:  # a clock that is ahead: what it says counts as now, and once
            written = self._now if self._entries or self._changed or at.is_changed else NO_TIME
        if settle_agent(tx, row.sid, place, at.state, ending.turn, written):
            self._notice(tx, at)
        for checkpoint in ending.checkpoints:
            head = EMPTY_HEAD if checkpoint.entry is None else self._place(tx, at, checkpoint.entry)
            if head is not None:
                beside.put_checkpoint(tx, row, checkpoint, head, row.updated, self._redactor)
        if self._source.parent is not None:
            beside.link_to_parent(tx, row, self._source.parent, row.created)
            if not self._source.is_copy:
                touch_agent(tx, self._source.parent, written)
        row = tx.get_session(row.sid) or row
        has_grown = self._entries > 0 or at.state.head != self._memory.state.head
        at.row, state = settle_status(
            tx, row, ending.run, at.state, self._by, has_grown=has_grown, redactor=self._redactor
        )
        at.state = msgspec.structs.replace(state, ended=True)
        at.is_changed |= tx.writes > writes or at.state != self._memory.state

    def _set(self, tx: Transaction, at: Pass, ending: _Ending) -> None:
        """Set what is new in the source, and was not changed here since."""
        row, state = at.session, at.state
        access = self._access(row)
        wanted, present, given = self._to_set(tx, row, state, ending)
        beside.apply_settings(tx, access, given, present)
        signs = signed(given)
        # An alias that led here after an earlier load, and does not any more, was removed here.
        aliases = [*self._source.aliases, *ending.updates.get("aliases", ())]
        new = [alias for alias in aliases if f"alias.{alias}" not in state.settings]
        signs |= {f"alias.{alias}": "" for alias in beside.add_aliases(tx, access, new)}
        if signs:
            at.state = msgspec.structs.replace(state, settings={**state.settings, **signs})
        # A load by an older version kept no title; that alone does not make the session a changed one, and
        # neither does a secret in the title that was not known then.
        titles = {"title": wanted.get("title")} if wanted.get("title") != state.title else {}
        if (signs or self._entries or state.title is not None) and self._unless_cleaned(
            titles, {"title": state.title}
        ):
            at.state = msgspec.structs.replace(at.state, title=wanted.get("title"))

    def _to_set(self, reader: Reader, row: SessionRow, state: State, ending: _Ending) -> _Settings:
        wanted = beside.wanted_settings(self._source, ending.updates, ending.vars, self._origin)
        present = beside.present_settings(reader, row)
        # A title that is the source's own again was cleared by the user: later titles of the source count.
        if state.title is not None and present["title"] == state.title:
            state = msgspec.structs.replace(state, settings=state.settings | signed({"title": state.title}))
        return _Settings(wanted, present, self._unless_cleaned(settled(state, wanted, present), present))

    def _unless_cleaned(self, given: Mapping[str, object], present: Mapping[str, Json]) -> dict[str, object]:
        """Without what is here as an earlier load took it, when it knew fewer secrets: what is stored stays.
        The key of the store is known by now if one of these has a marker."""
        return {
            name: value
            for name, value in given.items()
            if self._redactor is None
            or not count_markers(encode_json(value, strict=False))
            or clean_values(self._redactor, {name: present.get(name)})[name] != value
        }

    def _place(self, reader: Reader, at: Pass, name: str | None) -> Head | None:
        place = at.place(self._standing(name))
        return None if place is None else Head(reader.get_branch(place[0]).uid, place[1])

    def _prices(self, calls: Sequence[Call], ending: _Ending) -> Mapping[str, Estimate]:
        """Looked up before the calls are written, and while nothing is read: loading the list may be slow."""
        with self._engine.read() as reader:
            row = None if self._row is None else reader.get_session(self._row.sid)
            details = self._details(reader, row, ending)
            asked = self._calls_written.unpriced(
                reader, row, details, [call for call, _ in calls], max(self._time, 0)
            )
        found = {id: prices.price_of(self._engine, *call) for id, call in asked.items()}
        return {id: cost for id, cost in found.items() if cost is not None}

    def _details(self, reader: Reader, row: SessionRow | None, ending: _Ending) -> Details:
        """What the session says of its model, once its settings are set."""
        before = Details() if row is None else reader.get_details(row.sid)
        wanted = beside.wanted_settings(self._source, ending.updates, {}, None)
        names = {name: value for name, value in wanted.items() if name in ("model", "vendor", "endpoint")}
        present = {name: getattr(before, name) for name in names}
        given: dict[str, Any] = settled(self._memory.state, names, present)
        return msgspec.structs.replace(before, **given)

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
        """In how many parts its entries came, those of earlier loads included,"""
        return self._memory.batches

    @property
    def names(self) -> int:
        """and how many entries the last of them has."""
        return self._memory.names

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

    def add_events(self, events: list[EventRow], time: int) -> None:
        """Those without a time of their own have that of the entry behind them."""
        self.events += (
            event if event.time != NO_TIME else msgspec.structs.replace(event, time=time) for event in events
        )
        self.size += sum(len(event.data) for event in events)


class _Settings(NamedTuple):
    wanted: dict[str, Json]
    """What the source says of the session."""
    present: dict[str, Json]
    given: dict[str, object]
    """What of it is to be set."""


class _Ending(msgspec.Struct, frozen=True):
    """What a source says at its end. It is asked once, because a transaction may run twice."""

    head: str | None
    updates: Mapping[str, Json]
    checkpoints: tuple[SourceCheckpoint, ...]
    vars: Mapping[str, Json]
    run: SourceRun | None
    turn: str | None


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """As many at a time as one transaction takes."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
