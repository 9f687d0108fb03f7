"""What a backend must do: keep values, in transactions. READ THIS FIRST when you write one.

A backend stores a few kinds of things (sessions, branches, entries, small named records, and beside
them events and usage) and decides nothing. All decisions (where an append goes, what
undo means, which entries a purge may take) are made once, above this contract, by functions that run
inside a transaction: so every backend behaves alike, and writing one is writing these primitives.

The rules:

- `Backend.write()` opens a transaction that sees everything committed before it, in this and in
  other processes. Until it ends it excludes other writers from the sessions that it reads or writes,
  and from the store-wide records if it reads or writes one; or from all, if that is simpler.
  Leaving the block normally makes all of it durable at the level of `capabilities.durability` before
  control returns; an exception undoes all of it. It raises StoreBusyError when other writers held
  what it needs for the whole time-out.
  Its `__exit__` may be called once more, or without `__enter__`: a signal handler may raise at the
  doorstep of either, and nothing must stay locked.
- `Backend.read()` gives a reader that sees everything committed before each call.
- Entries never change. What a path reaches stays as it is until somebody purges it; readers
  therefore need no snapshot.
- Rows come back equal to what was put, bodies byte for byte.
- Nothing that is read back is believed: every row passes the check of its kind in clew.core.log.checks.
  One that can not be raises CorruptError, and costs no other.
- Errors are those of clew.errors; a driver's own error is their `__cause__`.

`clew.testing.backend` is this text as tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias

import msgspec

from clew.core.log.rows import (
    BranchRow,
    Damaged,
    Details,
    EntryRow,
    EventRow,
    Listed,
    ObjectPlace,
    PackInfo,
    SessionQuery,
    SessionRow,
    Tip,
    Totals,
    UsageRow,
    UsageSum,
)
from clew.core.messages.search_text import TextPlace, TextQuery, TextRow
from clew.errors import CorruptEntryError
from clew.model import Json, UsageKey

RecordKind: TypeAlias = Literal[
    "alias", "annotation", "checkpoint", "copy", "document", "key", "label", "lease", "move", "notice",
    "removal", "retention", "restore", "run", "snapshot", "status", "unscrubbed", "var",
]  # fmt: skip
STORE_WIDE = 0
"""The `sid` of records that belong to no session."""

OnDamage: TypeAlias = Callable[[CorruptEntryError], None]


class Stale(Exception):
    """What a transaction relied upon has changed since, or it got in the way of another one: nothing of it
    was done. Run its operations again, each in a `write(certain=True)` of its own."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend promises beyond the contract."""

    durability: Literal["full", "process", "memory"]
    """An acknowledged write survives power loss, the end of the process, or neither."""
    shared: bool
    """Other processes may use the same store at the same time."""


class Reader(Protocol):
    """Reads of what is committed (and, inside a transaction, of its own writes)."""

    def find_session(self, id: str) -> SessionRow | None:
        """The session of this id that is not in the trash."""

    def get_session(self, sid: int) -> SessionRow | None:
        """The session, in the trash or not."""

    def find_deleted(self, id: str) -> SessionRow | None:
        """The session of this id that was put in the trash last."""

    def get_details(self, sid: int) -> Details: ...

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        """Newest activity first, ties by id; of the trash: last deleted first. Those that are damaged
        are left out, or marked if the query asks for them; a page is full unless it is the last."""

    def damaged_sessions(self) -> list[Damaged]:
        """The sessions whose row, or settings, can not be, in the trash or not: a look at every session."""

    def due_sessions(self, before: int, limit: int, *, after: tuple[int, int] = (-1, 0)) -> list[SessionRow]:
        """Sessions whose `due` is at or before a time, in the trash or not, in the order of
        (due, sid), only those behind `after`. Must not touch those that are not due. Without the damaged."""

    def idle_sessions(self, limit: int, *, after: tuple[int, str] | None = None) -> list[SessionRow]:
        """Sessions that are not in the trash, longest without activity first (ties by id, descending):
        the order of `list_sessions` from its end. Only those behind (updated, id) `after`. Without the
        damaged."""

    def tree_sessions(self, tree: int) -> list[SessionRow]:
        """Every session of a tree, those in the trash too, oldest first. CorruptSessionError: one of them is
        damaged; what it needs of the tree nobody can tell."""

    def get_branch(self, branch: int) -> BranchRow:
        """BranchMissingError, which is a KeyError, when there is none."""

    def find_branch(self, uid: str) -> BranchRow | None: ...

    def tree_branches(self, tree: int) -> list[BranchRow]:
        """Every branch of a tree, oldest first."""

    def branch_numbers(self, sid: int, tree: int) -> Sequence[int]:
        """The numbers of the branches that a session owns, or that are of a tree, whatever they hold."""

    def last_position(self, branch: int) -> int:
        """The position of the newest entry of a branch; -1 when it has none."""

    def get_tip(self, branch: int, position: int) -> Tip | None:
        """The place of an entry with its counters, however large its body is; None: no such entry."""

    def get_entry(self, branch: int, position: int) -> EntryRow | None: ...

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
        is told to `on_damage` and left out: one damaged entry costs one entry. `room`: the last is the one
        with which their bodies come to so many bytes, whatever their counters say."""

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
        history. Each body is decoded as it is read, while it is in the processor's cache. Damage is
        treated as by `read_entries`, but an entry that is missing is not missed."""

    def count_entries(self, branch: int, first: int, last: int, kind: int) -> int:
        """How many entries of a kind there are at positions first..last, without reading their bodies."""

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None: ...

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

    def event_bounds(self, sid: int) -> tuple[int, int]:
        """The numbers of the oldest and the newest event; (1, 0) when there is none."""

    def find_event(self, sid: int, id: str) -> EventRow | None: ...

    def read_events(self, sid: int, after: int, limit: int, stream: str | None = None) -> list[EventRow]:
        """Events with numbers above `after`, in order, of one stream or of all."""

    def last_usage(self, sid: int) -> UsageRow | None: ...

    def find_usage(self, sid: int, id: str) -> UsageRow | None: ...

    def read_usage(self, sid: int, after: int, limit: int) -> list[UsageRow]:
        """Calls with numbers above `after`, in order."""

    def sum_usage(
        self, sid: int | None, by: UsageKey | None, since: int | None = None, until: int | None = None
    ) -> list[UsageSum]:
        """Sums over the calls of one session or of all (those in the trash too) with since <= time
        < until, grouped. The group of a day is `YYYY-MM-DD` in UTC; of a workspace and of a session
        (its id) that of the session; of a branch its uid; without `by` all is one group, None.
        In the order of the groups' UTF-8 bytes, None first; no group without calls."""

    def find_objects(self, names: Sequence[bytes]) -> dict[bytes, ObjectPlace]:
        """Those of these objects that are there."""

    def scan_objects(self, after: bytes, limit: int) -> list[tuple[bytes, ObjectPlace]]:
        """Objects with names above `after`, in the order of their names."""

    def get_pack(self, pack: int) -> bytes:
        """The raw content of a pack. Raises KeyError when there is none, CorruptError when it is
        damaged."""

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        """Packs with numbers above `after`, in order."""

    def unsearched_trees(self) -> list[int]:
        """Trees with a session that was written to since `set_searched` was told of it; none, if this
        backend finds texts without having been given them."""

    def searched_upto(self, branch: int) -> int:
        """The position up to which `add_texts` was given the texts of a branch; -1: none of them."""

    def find_texts(self, query: TextQuery) -> list[TextPlace]:
        """The places of entries whose text matches, newest first, each once: of those that `add_texts`
        was given, or of all that are there. Whether a session can show them is not asked here."""

    def problems(self, *, full: bool, go_on: Callable[[], None]) -> Iterable[str]:
        """What is wrong with the storage itself, one sentence each; nothing, if it can not tell. `full`: look
        at every part of it, indices too. `go_on` is called often, and raises when time is over."""

    def totals(self, since: int) -> Totals: ...

    def volume(self) -> tuple[int, int]:
        """How many sessions are not in the trash, and the size of the messages on their paths, those
        that several share counted for each: one look at each session, at no entry."""


class Transaction(Reader, Protocol):
    """A reader that can write."""

    writes: int
    """How many calls have changed something: tells whether an operation that failed left a trace."""

    @property
    def era(self) -> int:
        """Grows whenever the storage may have forgotten what it acknowledged, as when a replica took the
        place of a lost server: the epochs of leases then begin above all that were ever given. Else 0."""

    is_certain: bool
    """False: something was answered from memory. All that was is compared when the transaction commits, if
    it wrote anything; `Stale` if it is not so any more."""

    def add_session(self, row: SessionRow, details: Details) -> int:
        """Store a new session and return its `sid` (that of `row` is ignored; tree 0: a new tree).
        A sid is never used twice, not even after a purge."""

    def set_session(self, row: SessionRow) -> None:
        """Replace the row of an existing session."""

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
        """What every append does to the row of a session; `grows` becomes True."""

    def set_details(self, sid: int, details: Details) -> None: ...

    def set_due(self, sid: int, due: int) -> None: ...

    def reexamine(self) -> None:
        """Set `due` of every session to 0."""

    def drop_session(self, sid: int) -> None:
        """Remove a session with its details, records, events and usage. Branches and entries stay."""

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        """Store a new branch and return its number, which is never used twice."""

    def disown_branch(self, branch: int) -> None:
        """Set the owner to 0."""

    def drop_branch(self, branch: int) -> None: ...

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        """Store entries. There is none at these positions yet."""

    def drop_entries(self, branch: int, after: int) -> None:
        """Remove the entries of a branch behind a position."""

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        """Take the bodies of entries away: kind REMOVED, body ERASED. All else of them stays, the
        digest too. Positions that hold no entry are passed over."""

    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        """Make texts findable, and note how far each branch is searched now. What `drop_entries` and
        `erase_entries` remove is not found any more; `scrub` leaves no byte of it."""

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        """Note that all that these sessions had written when they were as these rows say is findable."""

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        """Store events. There are none with these numbers, nor with these ids, yet."""

    def drop_events(self, sid: int, upto: int) -> None:
        """Remove the events with numbers up to this one."""

    def add_usage(self, sid: int, row: UsageRow) -> None: ...

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        """Store a pack, framed by core.frame, of `size` raw bytes; its number, which is never used
        twice. Members are (name, offset, size); one that is there already keeps its place."""

    def drop_objects(self, names: Sequence[bytes]) -> None:
        """Forget where these objects are. Packs stay."""

    def drop_pack(self, pack: int) -> None:
        """Remove a pack, and whatever objects lie in it."""

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        """Store or replace a small named value."""

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        """Remove it; False if there was none."""


class Backend(Protocol):
    """A place to keep a store in. All methods may be called from any thread."""

    @property
    def location(self) -> str:
        """The address, fit to be shown: no password in it."""

    @property
    def capabilities(self) -> Capabilities: ...

    def write(self, certain: bool = True) -> AbstractContextManager[Transaction]:
        """`certain`: False allows answers from memory. A backend for which reading costs little has no
        use for that."""

    def read(self) -> AbstractContextManager[Reader]:
        """Each call of the reader sees what is there then. A backend that can also show one moment, while
        others go on writing, has a `read_still()` besides."""

    def clock(self) -> int | None:
        """The time of a clock that all users of the store share, in microseconds, if the storage
        has one of its own; None: the store is used on one machine only, whose clock will do."""

    def pause(self, seconds: float) -> None:
        """Wait for a while, or until somebody may have written: a hint, which may come early or never."""

    def scrub(self) -> None:
        """Leave no byte of dropped content behind: log, free pages, free space within pages."""

    def bytes_on_disk(self) -> int: ...

    def before_fork(self) -> None:
        """Wait until no other thread is inside, and let none in until `after_fork`."""

    def after_fork(self, *, is_child: bool) -> None:
        """Go on. In the child, before any other use: give up what belongs to the parent."""

    def close(self) -> None:
        """Idempotent."""
