"""What a backend must do: keep values, in transactions. READ THIS FIRST when you write one.

A backend stores sessions, a log of branches and entries, small named records, and beside them events, usage,
the objects of snapshots and an index of texts. It decides nothing. All decisions (where an append goes, what
undo means, which entries a purge may remove) are made once, above this contract, by functions that run inside
a transaction: so every backend behaves alike, and writing one is writing these primitives.

Subclass `Reader`, `Transaction` and `Backend`. What is marked abstract you have to write. The rest has a
default that is right for every storage, written with the abstract methods; override it where your storage can
do better. Readers and transactions have the same six sections everywhere: sessions, log, records, streams,
objects, texts.

The rules:

- `Backend.write()` opens a transaction that sees everything committed before it, in this and in
  other processes. Until it ends it excludes other writers from the sessions that it reads or writes,
  and from the store-wide records if it reads or writes one; or from all, if that is simpler.
  Leaving the block normally makes all of it durable at the level of `capabilities.durability` before
  control returns; an exception undoes all of it. It raises StoreBusyError when other writers held
  what it needs for the whole time-out.
  Its `__exit__` may be called once more, or without `__enter__`: a signal handler may raise just before
  or after either, and nothing must stay locked.
- `Backend.read()` gives a reader that sees everything committed before each call.
- Entries never change. What a path reaches stays as it is until it is purged; readers therefore need no
  snapshot.
- Rows come back equal to what was put, bodies byte for byte.
- Nothing that is read back is believed: every row passes the check of its kind in clew.core.log.checks.
  A row that fails its check raises CorruptError, and hides no other row.
- Errors are those of clew.errors; a driver's own error is their `__cause__`.

`clew.testing.BackendConformance` is this text as tests.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from clew.backends.rows import PAGE, count_sessions_by, messages_of, numbered, scan_names, subagents_named
from clew.core.log.rows import (
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    EventRow,
    HeadRow,
    Listed,
    ObjectPlace,
    PackInfo,
    SessionColumn,
    SessionName,
    SessionQuery,
    SessionRow,
    Totals,
    UsageColumn,
    UsageRow,
    UsageSum,
)
from clew.core.messages.search_text import PageQuery, TextPlace, TextQuery, TextRow
from clew.errors import CorruptEntryError, DiskFullError
from clew.model import Json

if TYPE_CHECKING:
    from clew.model.search import SearchPage

RecordKind: TypeAlias = Literal[
    "alias", "annotation", "checkpoint", "copy", "document", "key", "label", "lease", "line", "move", "note",
    "notice", "redaction", "removal", "retention", "restore", "run", "share", "snapshot", "source", "status",
    "token", "unscrubbed", "var",
]  # fmt: skip
STORE_WIDE = 0
"""The `sid` of records that belong to no session."""
BLIND = 0.5
"""Seconds between two looks at a storage that does not tell of what is written."""

OnDamage: TypeAlias = Callable[[CorruptEntryError], None]


class Stale(Exception):
    """The rows that a transaction relied upon have changed since, or it got in the way of another one.
    Nothing was written. Run its operations again, each in a `write(certain=True)` of its own."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend promises beyond the contract."""

    durability: Literal["full", "process", "memory"]
    """An acknowledged write survives power loss, the end of the process, or neither."""
    shared: bool
    """Other processes may use the same store at the same time."""


# -- reading


class SessionRows(Protocol):
    """Sessions: a row that every append changes, and details that seldom change."""

    @abstractmethod
    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        """The session of this id that is not in the trash; `deleted`: the one of this id that was put in
        the trash last."""

    @abstractmethod
    def get_session(self, sid: int) -> SessionRow | None:
        """The session, in the trash or not."""

    @abstractmethod
    def get_details(self, sid: int) -> Details: ...

    @abstractmethod
    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        """Newest activity first, ties by id; of the trash: last deleted first. `query.oldest`: the same order
        from its end. Damaged ones are left out, or marked if the query asks for them; a page is full
        unless it is the last."""

    def scan_ids(self, first: str, limit: int, *, own: bool = False) -> list[SessionName]:
        """The ids of sessions, in the trash or not, from `first` on in the order of their UTF-8 bytes, ties
        by sid. `own`: the same by what follows the first colon of an id, without ids that have none.
        Default: a look at every session. A storage with an index does better."""
        return scan_names(self, first, limit, own=own)

    @abstractmethod
    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        """Sessions whose `due` is at or before a time, in the trash or not, in the order of
        (due, sid), only those behind `after`. Must not touch those that are not due. Without the damaged."""

    @abstractmethod
    def tree_sessions(self, tree: int) -> list[SessionRow]:
        """Every session of a tree, those in the trash too, oldest first. CorruptSessionError: one of them is
        damaged, so it is not known what of the tree it needs."""

    def damaged_sessions(self) -> list[Damaged]:
        """The sessions whose row, or settings, fail their check, in the trash or not: a look at every
        session. Default: none, right for a storage that cannot be damaged."""
        return []

    def count_sessions(self, *, subagents: bool = True) -> int | None:
        """How many sessions are not in the trash; `subagents=False`: without those whose metadata names a
        parent that is not in the trash. None: that takes a look at the settings of every session. Default:
        None, or one look at each session."""
        return self.totals(0, log=False).sessions if subagents else None

    def count_by(self, column: SessionColumn, *, deleted: bool = False) -> dict[str, int]:
        """How many sessions have each value of a column, a status as its number in digits; without those
        that have none. `deleted`: of those in the trash. Default: a look at every session."""
        return count_sessions_by(self, column, deleted=deleted)

    def workspaces(self, *, deleted: bool = False) -> list[str]:
        """Every workspace that a session has, each once. Default: by counting them."""
        return list(self.count_by("workspace", deleted=deleted))

    def find_subagents(self, parents: Sequence[str]) -> list[tuple[str, SessionName]]:
        """Sessions, in the trash or not, whose metadata names one of these as their parent, each with that
        parent. Default: a list for each of them."""
        return subagents_named(self, parents)

    @abstractmethod
    def totals(self, since: int, *, log: bool = True) -> Totals:
        """Counts over the whole store. `log=False`: one look at each session and at no branch; `messages`,
        `entries` and `size` are then 0."""


class LogRows(Protocol):
    """Branches, and their entries in order."""

    @abstractmethod
    def get_branch(self, branch: int) -> BranchRow:
        """BranchMissingError, which is a KeyError, when there is none."""

    @abstractmethod
    def find_branch(self, uid: str) -> BranchRow | None: ...

    @abstractmethod
    def tree_branches(self, tree: int) -> list[BranchRow]:
        """Every branch of a tree, oldest first."""

    def branch_numbers(self, sid: int, tree: int) -> Sequence[int]:
        """The numbers of the branches that a session owns, or that are of a tree, whatever they hold.
        Default: those of the tree."""
        return [row.branch for row in self.tree_branches(tree)]

    @abstractmethod
    def last_position(self, branch: int) -> int:
        """The position of the newest entry of a branch; -1 when it has none."""

    @abstractmethod
    def get_tip(self, branch: int, position: int) -> HeadRow | None:
        """The place of an entry with its counters, however large its body is; None: no such entry."""

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        """None: no such entry. CorruptEntryError: it is damaged."""
        if self.get_tip(branch, position) is None:
            return None
        return self.read_entries(branch, position, position)[0]

    @abstractmethod
    def read_entries(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[EntryRow]:
        """Entries at positions first..last. A damaged or missing one raises CorruptEntryError, or
        is reported to `on_damage` and left out: one damaged entry costs one entry. `room`: stop with the
        entry with which their bodies come to so many bytes, whatever their counters say."""

    def read_messages(
        self,
        branch: int,
        first: int,
        last: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
        room: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> list[tuple[int, dict[str, Json]]]:
        """Positions and decoded bodies of the messages at positions first..last: the fast way to a
        history, which a backend may decode as it reads, while the body is in the processor's cache. Damage is
        treated as by `read_entries`, but an entry that is missing is not reported."""
        return messages_of(
            self, branch, first, last, reverse=reverse, limit=limit, room=room, on_damage=on_damage
        )

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        """How many entries of a kind there are at positions first..last. A backend that can does not read
        their bodies."""
        positions = range(max(first, 0), min(last, self.last_position(branch)) + 1)
        entries = (self.get_entry(branch, position) for position in positions)
        return sum(row is not None and row.kind == kind for row in entries)


class RecordRows(Protocol):
    """Small named values beside a session, or beside the store."""

    @abstractmethod
    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None: ...

    @abstractmethod
    def scan_records(
        self,
        sid: int,
        kind: RecordKind,
        first: str = "",
        last: str | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[tuple[str, bytes]]:
        """The records named first..last, both included, in the order of their names' UTF-8 bytes."""


class StreamRows(Protocol):
    """Events and usage, each numbered from 1 in its session."""

    @abstractmethod
    def event_bounds(self, sid: int) -> tuple[int, int]:
        """The numbers of the oldest and the newest event; (1, 0) when there is none."""

    def find_event(self, sid: int, id: str) -> EventRow | None:
        """Default: a look at every event. A storage with an index does better."""
        rows = numbered(lambda after: self.read_events(sid, after, PAGE))
        return next((row for row in rows if row.id == id), None)

    @abstractmethod
    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        """Events with numbers above `after`, in order, of one stream or of all."""

    def last_usage(self, sid: int) -> UsageRow | None:
        """Default: a look at every call of the session."""
        last = None
        for last in numbered(lambda after: self.read_usage(sid, after, PAGE)):  # noqa: B007
            pass
        return last

    def last_usages(self, sids: Sequence[int]) -> dict[int, UsageRow]:
        """`last_usage` of many sessions at once, without those that have none."""
        found = ((sid, self.last_usage(sid)) for sid in sids)
        return {sid: row for sid, row in found if row is not None}

    def find_usage(self, sid: int, id: str) -> UsageRow | None:
        """Default: a look at every call of the session."""
        rows = numbered(lambda after: self.read_usage(sid, after, PAGE))
        return next((row for row in rows if row.id == id), None)

    @abstractmethod
    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        """Calls with numbers above `after`, in order."""

    @abstractmethod
    def sum_usage(
        self,
        sid: int | None,
        by: Sequence[UsageColumn] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> list[UsageSum]:
        """Sums over the calls of one session or of all (those in the trash too) with since <= time
        < until, grouped by the columns. The group of a day is `YYYY-MM-DD` in UTC, of a quarter of an hour
        its number since 1970 in decimal digits; of a workspace and of a session (its id) that of the
        session; of a branch its uid. Without `by` all is one group, (). In the order of the groups' UTF-8
        bytes, column by column, None first; no group without calls."""


class ObjectRows(Protocol):
    """The contents of snapshots: objects by their hashes, many to a pack."""

    @abstractmethod
    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        """Those of these objects that are there."""

    @abstractmethod
    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        """Objects with names above `after`, in the order of their names."""

    @abstractmethod
    def get_pack(self, pack: int) -> bytes:
        """The raw content of a pack. Raises KeyError when there is none, CorruptError when it is
        damaged."""

    @abstractmethod
    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        """Packs with numbers above `after`, in order."""


class TextRows(Protocol):
    """An index of the words of messages. A backend without one keeps the defaults: a search reads the log."""

    def unsearched_trees(self) -> list[int]:
        """Trees with a session that was written to since `set_searched` was called for it; none, if this
        backend finds texts without an index."""
        return []

    def searched_upto(self, branch: int) -> int:
        """The position up to which `add_texts` was given the texts of a branch; -1: none of them."""
        return -1

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        """The places of entries whose text matches, newest first, each once: of those that `add_texts`
        was given, or of all that are there. Whether a session can show them is not decided here."""
        from clew.backends.text_scan import scan_texts

        return scan_texts(self, query)  # type: ignore[arg-type]

    def search_page(self, query: PageQuery) -> SearchPage | None:
        """The whole answer to a search, for a storage so far away that each question about a hit would be a
        journey. Default: None, the answer is put together here."""
        return None


class Reader(SessionRows, LogRows, RecordRows, StreamRows, ObjectRows, TextRows, Protocol):
    """Reads of what is committed (and, inside a transaction, of its own writes)."""

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        """What is wrong with the storage itself, one sentence each; nothing, if it cannot tell. `full`: look
        at every part of it, indices too. `go_on` is called often, and raises when time is over."""
        return ()


# -- writing


class Transaction(Reader, Protocol):
    """A reader that can write."""

    writes: int
    """How many calls have changed something: tells whether an operation that failed left a trace."""
    is_certain: bool = True
    """False: something was answered from memory. All such answers are compared when the transaction commits,
    if it wrote anything; `Stale` if one of them is not true any more."""

    @property
    def era(self) -> int:
        """Grows whenever the storage may have lost what it acknowledged, as when a replica took the
        place of a lost server: the epochs of leases then begin above all that were ever given. Else 0."""
        return 0

    # -- sessions

    @abstractmethod
    def add_session(self, row: SessionRow, details: Details) -> int:
        """Store a new session and return its `sid` (that of `row` is ignored; tree 0: a new tree).
        A sid is never used twice, not even after a purge."""

    @abstractmethod
    def set_session(self, row: SessionRow) -> None:
        """Replace the row of an existing session."""

    def set_head(self, sid: int, head: HeadRow, updated: int, title: str | None, preview: str) -> None:
        """What every append does to the row of a session; `grows` becomes True."""
        row = self.get_session(sid)
        assert row is not None
        self.set_session(
            msgspec.structs.replace(row, head=head, grows=True, updated=updated, title=title, preview=preview)
        )

    @abstractmethod
    def set_details(self, sid: int, details: Details) -> None: ...

    @abstractmethod
    def set_due(self, sid: int | None, due: int) -> None:
        """Of one session, or of every session."""

    @abstractmethod
    def drop_session(self, sid: int) -> None:
        """Remove a session with its details, records, events and usage. Branches and entries stay."""

    # -- log

    @abstractmethod
    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        """Store a new branch and return its number, which is never used twice."""

    @abstractmethod
    def disown_branch(self, branch: int) -> None:
        """Set the owner to 0."""

    @abstractmethod
    def adopt_branch(self, branch: int, owner: int) -> None:
        """Set the owner of a branch that has none."""

    @abstractmethod
    def drop_branch(self, branch: int) -> None: ...

    @abstractmethod
    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        """Store entries. There is none at these positions yet."""

    @abstractmethod
    def drop_entries(self, branch: int, after: int) -> None:
        """Remove the entries of a branch behind a position."""

    @abstractmethod
    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        """Remove the bodies of entries: kind REMOVED, body ERASED. All else of them stays, the
        digest too. Positions that hold no entry are passed over."""

    # -- records

    @abstractmethod
    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        """Store or replace a small named value."""

    @abstractmethod
    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        """Remove it; False if there was none."""

    # -- streams

    @abstractmethod
    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        """Store events. There are none with these numbers, nor with these ids, yet."""

    @abstractmethod
    def drop_events(self, sid: int, upto: int) -> None:
        """Remove the events with numbers up to this one."""

    @abstractmethod
    def add_usage(self, sid: int, row: UsageRow) -> None: ...

    # -- objects

    @abstractmethod
    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        """Store a pack, framed by core.log.digest, of `size` raw bytes; its number, which is never used
        twice. Members are (name, offset, size); one that is there already keeps its place."""

    @abstractmethod
    def drop_objects(self, names: Sequence[bytes]) -> None:
        """Forget where these objects are. Packs stay."""

    @abstractmethod
    def drop_pack(self, pack: int) -> None:
        """Remove a pack, and the objects that lie in it."""

    # -- texts

    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        """Make texts findable, and note how far each branch is searched now. What `drop_entries` and
        `erase_entries` remove is not found any more; `scrub` leaves no byte of it."""
        return

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        """Note that everything these sessions had written when they were as these rows say is findable."""
        return


# -- the backend


class Backend(Protocol):
    """A place to keep a store in. All methods may be called from any thread."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The address, fit to be shown: no password in it."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def write(self, certain: bool = True) -> AbstractContextManager[Transaction]:
        """`certain`: False allows answers from memory. A backend for which reading costs little has no
        use for that."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Reader]:
        """Each call of the reader sees what is there then."""

    def read_snapshot(self) -> AbstractContextManager[Reader]:
        """A reader that sees the store as it is at one moment, while others go on writing. Default: `read()`,
        right for a backend in which reading and writing exclude each other."""
        return self.read()

    def clock(self) -> int | None:
        """The time of a clock that all users of the store share, in microseconds, if the storage
        has one of its own; None: the store is used on one machine only, whose clock will do."""
        return None

    def pause(self, seconds: float) -> bool:
        """Wait until something may have been written, by whatever process, but at most so long; whether it
        may have been. What was committed since the last call ends this one at once. A hint: it may come for
        nothing, and of a writer that was killed not at all.

        One thread at a time (see core.engine.wakes). Ends when the backend is closed. Default: right for a
        storage that does not tell; it is to be looked at every BLIND seconds then."""
        time.sleep(min(seconds, BLIND))
        return True

    @abstractmethod
    def scrub(self) -> None:
        """Leave no byte of dropped content behind: log, free pages, free space within pages."""

    def own_paths(self) -> Sequence[Path]:
        """The files and directories that hold the store; a directory stands for everything in it. A snapshot
        of files leaves them out. Default: none, right for a store that is not on this machine's disks."""
        return ()

    def waits_for_room(self) -> DiskFullError | None:
        """Why nothing can be written for now: the disk is full. Reading goes on, and the next write after
        there is room succeeds. Looks at the disk again. Default: None, for a storage that does not know."""
        return None

    def hold_files(self) -> AbstractContextManager[None] | None:
        """A block in which no process rewrites or removes files of the store: for a second backend object
        that reads them. None: not needed, because readers of this backend follow such changes."""
        return None

    def bytes_on_disk(self) -> int:
        """Default: the size of `own_paths()`."""
        from clew.core.disk import size_of

        return sum(map(size_of, self.own_paths()))

    @abstractmethod
    def before_fork(self) -> None:
        """Wait until no other thread is inside, and let none in until `after_fork`."""

    @abstractmethod
    def after_fork(self, *, is_child: bool) -> None:
        """Go on. In the child, before any other use: give up what belongs to the parent."""

    @abstractmethod
    def close(self) -> None:
        """Idempotent."""
