"""Reading a store from end to end, tree by tree, while others write to it.

Each tree is read as it was at some moment. In memory there are the image of one tree, and a page of its
entries, events or calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from clew.backends.contract import Reader
from clew.core.check.scan import GoneError, Read
from clew.core.log.rows import REMOVED, EntryRow, EventRow, SessionQuery, SessionRow, Tip, UsageRow
from clew.core.transfer.image import BranchImage, SessionImage, TreeImage, read_image
from clew.errors import CorruptError, ReadOnlyError, StoreBusyError

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike

SESSIONS: Final = 200
PAGE: Final = 256
"""Entries, events or calls in memory at once,"""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""and how large they may be together, unless a single one is larger."""
TRIES: Final = 50

Where: TypeAlias = tuple[str | int, ...]
"""Which thing: its kind, and what it is known by among those of its kind."""


class UnsoundError(CorruptError):
    """What was read cannot have been written by a store."""

    def __init__(self, where: Where, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.where = where
        self.what = what
        self.reason = reason


class Page(msgspec.Struct, frozen=True):
    """Some of what belongs to a branch, or to a session (by its sid in the source)."""

    branch: BranchImage | None = None
    session: int = 0
    entries: tuple[EntryRow, ...] = ()
    base: Tip | None = None
    """The place before the first of the entries, if they were checked: a target that holds it compares."""
    events: tuple[EventRow, ...] = ()
    calls: tuple[UsageRow, ...] = ()

    @property
    def size(self) -> int:
        return sum(len(row.body) for row in self.entries) + sum(len(row.data) for row in self.events)

    @property
    def count(self) -> int:
        return len(self.entries) + len(self.events) + len(self.calls)


class Source:
    """The trees of a store. What is damaged raises CorruptError."""

    def __init__(self, read: Read, engine: EngineLike | None = None) -> None:
        """`engine` of the store, if there is one: it keeps writers out, for a tree that never rests."""
        self._read = read
        self._engine = engine

    def rows(self) -> Iterator[SessionRow]:
        """Those in the trash, then the others: what was deleted makes room for what has its id now. One
        that is used meanwhile may come twice, but is not missed."""
        after: tuple[int, str] | None = None
        while True:
            with self._read() as reader:
                trash = reader.list_sessions(SessionQuery(limit=SESSIONS, after=after, deleted=True))
            yield from (one.row for one in trash)
            if len(trash) < SESSIONS:
                break
            after = trash[-1].row.deleted or 0, trash[-1].row.id
        after = None
        while True:
            with self._read() as reader:
                found = reader.list_sessions(SessionQuery(limit=SESSIONS, after=after, oldest=True))
            yield from (one.row for one in found)
            if len(found) < SESSIONS:
                return
            after = found[-1].row.updated, found[-1].row.id

    def trees(self) -> Iterator[int]:
        """Each once: what is appended to meanwhile must not keep this going for ever."""
        seen: set[int] = set()
        for row in self.rows():
            if row.tree not in seen:
                seen.add(row.tree)
                yield row.tree

    def image(self, tree: int) -> TreeImage:
        """A tree as it was at a moment: no row changed while the rest was read."""
        for _ in range(TRIES):
            with self._read() as reader:
                before = reader.tree_sessions(tree)
                image = read_image(reader, tree)
                if before == reader.tree_sessions(tree):
                    return image
        try:
            if self._engine is not None:
                return self._engine.run(lambda tx: read_image(tx, tree))
        except ReadOnlyError:
            pass
        raise StoreBusyError(f"session {before[0].id!r} never rests: it was written to all the time")

    def entries(self, branch: BranchImage, first: int) -> Iterator[Page]:
        while first <= branch.last:
            try:
                with self._read() as reader:
                    end = self._page_end(reader, branch.number, first, min(first + PAGE - 1, branch.last))
                    rows = reader.read_entries(branch.number, first, end, room=PAGE_BYTES)
            except KeyError as error:
                raise GoneError(f"branch {branch.uid} was purged while it was read") from error
            page = Page(branch=branch, entries=tuple(rows))
            if len(rows) <= end - first and page.size < PAGE_BYTES:
                raise GoneError(f"entries of branch {branch.uid} were purged while they were read")
            first = rows[-1].position + 1
            yield page

    @staticmethod
    def _page_end(reader: Reader, branch: int, first: int, last: int) -> int:
        """The last position of a page that is not too large, by the counters of the entries."""
        base = reader.get_tip(branch, first)
        while base is not None and last > first:
            tip = reader.get_tip(branch, last)
            if tip is not None and tip.size - base.size <= PAGE_BYTES:
                break
            last = (first + last) // 2
        return last

    def events(self, session: SessionImage, after: int) -> Iterator[Page]:
        sid, last = session.row.sid, session.events[1]
        while after < last:
            with self._read() as reader:
                found = reader.read_events(sid, after, min(PAGE, last - after))
            rows = tuple(row for row in found if row.number <= last)
            if not rows:
                raise GoneError(f"events of session {session.row.id!r} were removed while they were read")
            yield Page(session=sid, events=rows)
            after = rows[-1].number

    def calls(self, session: SessionImage, after: int) -> Iterator[Page]:
        sid = session.row.sid
        while after < session.calls:
            with self._read() as reader:
                rows = tuple(reader.read_usage(sid, after, min(PAGE, session.calls - after)))
            if not rows:
                raise GoneError(f"calls of session {session.row.id!r} were removed while they were read")
            yield Page(session=sid, calls=rows)
            after = rows[-1].number

    def removed(self, branch: BranchImage, last: int) -> list[int]:
        """Positions up to `last` whose entries lost their content."""
        found: list[int] = []
        for page in self.entries(msgspec.structs.replace(branch, last=last), branch.fork + 1):
            found += [row.position for row in page.entries if row.kind == REMOVED]
        return found
