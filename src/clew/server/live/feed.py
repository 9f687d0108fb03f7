"""What one session has for one stream: pages of frames, each read from the log in one look.

A feed knows the path that its client has. A page leads from there towards the path to the head as it is
now, and the next page looks again: so whatever happens meanwhile, the client ends up with the path to the
head, and no page is larger than a few entries. Nothing is kept between two pages but the path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from clew.backends.contract import Reader
from clew.core.conversation.history import read_path, unless_purged
from clew.core.conversation.points import head_of, path_of, path_to, tip_at
from clew.core.conversation.sessions import info_of
from clew.core.engine.engine import Engine
from clew.core.log.ids import entry_id, parse_entry_id
from clew.core.log.rows import EMPTY, HeadRow, SessionRow
from clew.core.log.tree import Segment, clip, locate
from clew.core.runs.access import live
from clew.errors import CorruptEntryError, CorruptError, SessionDeletedError
from clew.model import STATUSES, Entry, Head, Status
from clew.server.access.principal import Principal
from clew.server.call import START
from clew.server.live.event_ids import NOWHERE
from clew.server.live.session import Step, cut, step
from clew.server.wire.entries import EntryView

PAGE: Final = 64
"""Entries of a page at most,"""
PAGE_BYTES: Final = 256 * 1024
"""and how large they may be together, unless a single one is larger."""


class Frame(msgspec.Struct, frozen=True):
    """One thing that a stream tells of a session."""

    event: str
    data: EntryFrame | dict[str, object]
    place: Head | None = None
    """Up to where the client has all, once it has this; None: it changes nothing of that."""


class EntryFrame(EntryView, frozen=True, kw_only=True, omit_defaults=True):
    """An entry, as entries are given, and of which session it is."""

    session: str


class Page(msgspec.Struct, frozen=True):
    frames: list[Frame]
    has_more: bool = False
    """There is more to tell already."""
    is_over: bool = False
    """There will never be more."""


class Feed:
    """One session for one client. `read` is for one thread at a time; it reads the store, so it blocks."""

    def __init__(
        self,
        engine: Engine,
        sid: int,
        id: str,
        principal: Principal,
        after: Head | None,
        show: Callable[[Entry], EntryView],
    ) -> None:
        """`after`: the place up to which the client has all; None: it wants what happens from now on.
        `show`: an entry as this client wants to see it."""
        self._engine = engine
        self.sid = sid
        self.id = id
        self._principal = principal
        self._after = after
        self._show = show
        self._has: list[Segment] | None = None
        """The path that the client has, once that was found out."""
        self._place = NOWHERE
        self._status: Status | None = None
        self._told_damage: str | None = None

    @property
    def first_place(self) -> Head | None:
        """Up to where the client said that it has all."""
        return self._after

    def read(self) -> Page:
        """The next page; one without frames: the client has all."""
        try:
            with self._engine.read() as reader:
                row = live(reader, self.sid, self.id)
                with unless_purged(reader, self.sid, self.id):
                    if not self._may_see(reader, row):
                        raise SessionDeletedError(self.id)
                    return self._page(reader, row)
        except SessionDeletedError:
            return Page([Frame("gone", {"session": self.id})], is_over=True)
        except (CorruptError, KeyError) as exc:
            return Page(self._damage(str(exc)))

    def _may_see(self, reader: Reader, row: SessionRow) -> bool:
        """It may have left the reach of the caller since the stream began."""
        if not self._principal.is_bound:
            return True
        return self._principal.sees(info_of(reader, row, reader.get_details(row.sid), None))

    def _page(self, reader: Reader, row: SessionRow) -> Page:
        tip = self._tip(reader, row)
        now = path_of(reader, tip)
        frames: list[Frame] = []
        if self._has is None:
            frames += self._begin(reader, row, tip, now)
        assert self._has is not None
        todo = step(self._has, now)
        if todo.is_move:
            frames.append(self._moved(reader, tip, now, todo.common))
        has_more = False
        if todo.common < todo.last:
            entries, has_more = self._entries(reader, now, todo)
            frames += entries
        if not has_more:
            frames += self._news_of_status(row)
        return Page(frames, has_more)

    def _news_of_status(self, row: SessionRow) -> list[Frame]:
        status = STATUSES[row.status]
        if status == self._status or self._principal.head is not None:
            return []
        self._status = status
        return [Frame("status", {"session": self.id, "status": status})]

    def _tip(self, reader: Reader, row: SessionRow) -> HeadRow:
        """Where the path ends: at the head, or at the entry up to which it is shared."""
        if self._principal.head is None:
            return row.head
        if self._principal.head == START:
            return EMPTY
        place = parse_entry_id(self._principal.head)
        branch = reader.find_branch(place.branch) if place is not None else None
        if place is None or branch is None or branch.tree != row.tree:
            raise SessionDeletedError(self.id)
        return tip_at(reader, branch.branch, place.position)

    # -- where the client begins

    def _begin(self, reader: Reader, row: SessionRow, tip: HeadRow, now: Sequence[Segment]) -> list[Frame]:
        if self._after is None:
            self._has = list(now)
            self._place, self._status = head_of(reader, tip), STATUSES[row.status]
            data: dict[str, object] = {
                "session": self.id,
                "head": self._place,
                "messages": tip.messages,
                "status": self._status,
            }
            return [Frame("head", data, self._place)]
        found = self._path_to(reader, row, self._after, now)
        self._place = self._after if found is not None else NOWHERE
        self._has = found or []
        if found is None:
            return [self._move_from(None, head_of(reader, tip), -1)]
        return []

    def _path_to(
        self, reader: Reader, row: SessionRow, place: Head, now: Sequence[Segment]
    ) -> list[Segment] | None:
        """The path to a place where this session may have stood; None: it means nothing here. An entry of
        another session is no such place, even if both are of one tree: the answer would tell of it."""
        if place.position < 0:
            return []
        branch = reader.find_branch(place.branch)
        if branch is None or branch.tree != row.tree:
            return None
        if reader.get_tip(branch.branch, place.position) is None:
            return None
        if (
            branch.owner == row.sid
            or locate(now, place.position) == branch.branch
            or not self._principal.is_bound
            or self._is_inherited(reader, row, branch.branch, place.position)
        ):
            return path_to(reader, branch.branch, place.position)
        return None

    @staticmethod
    def _is_inherited(reader: Reader, row: SessionRow, branch: int, position: int) -> bool:
        """Whether a branch of this session's own continues the entry."""
        own = (each for each in reader.tree_branches(row.tree) if each.owner == row.sid and each.parent)
        return any(locate(path_to(reader, each.parent, each.fork), position) == branch for each in own)

    # -- what the client is told

    def _moved(self, reader: Reader, tip: HeadRow, now: Sequence[Segment], common: int) -> Frame:
        before, self._place = self._place, self._at(reader, now, common)
        self._has = cut(now, common)
        return self._move_from(before, head_of(reader, tip), common)

    def _move_from(self, before: Head | None, to: Head, common: int) -> Frame:
        data: dict[str, object] = {"session": self.id, "from": before, "to": to, "common": common}
        return Frame("moved", data, self._place)

    @staticmethod
    def _at(reader: Reader, path: Sequence[Segment], position: int) -> Head:
        if position < 0:
            return NOWHERE
        return Head(reader.get_branch(locate(path, position)).uid, position)

    def _entries(self, reader: Reader, now: Sequence[Segment], todo: Step) -> tuple[list[Frame], bool]:
        """The entries behind the common ones, in their order, and whether there are more."""
        first = todo.common + 1
        part = clip(now, first, todo.last)[0]  # of one branch: their order is that of their positions
        held = min(part.last, reader.last_position(part.branch))
        top = min(held, todo.common + PAGE)
        damage: list[CorruptEntryError] = []
        found: list[Entry] = []
        if first <= top:
            found = read_path(reader, self.sid, [part], first, top, room=PAGE_BYTES, on_damage=damage.append)
        is_full = sum(len(entry.raw) for entry in found) >= PAGE_BYTES
        last = found[-1].position if is_full else max(top, todo.common)
        told = [(entry.position, self._entry(entry)) for entry in found]
        told += [(each.position, self._lost(reader, part, each)) for each in damage if each.position <= last]
        frames = [frame for _, frame in sorted(told, key=lambda one: one[0])]
        if last >= held and held < part.last:  # a damaged head may lie far behind the last entry
            frames.append(self._missing(reader, part, last + 1))
            last = part.last
        self._has = cut(now, last)
        self._place = self._at(reader, now, last)
        return frames, last < todo.last

    def _entry(self, entry: Entry) -> Frame:
        try:
            shown = self._show(entry)
        except CorruptEntryError as exc:
            return Frame("damaged", self._damaged(entry.id, entry.position, exc.reason))
        data = EntryFrame(session=self.id, **msgspec.structs.asdict(shown))
        return Frame("entry", data, parse_entry_id(entry.id))

    def _lost(self, reader: Reader, part: Segment, damage: CorruptEntryError) -> Frame:
        id = entry_id(reader.get_branch(part.branch).uid, damage.position)
        return Frame("damaged", self._damaged(id, damage.position, damage.reason))

    def _damaged(self, id: str, position: int, reason: str) -> dict[str, object]:
        return {"session": self.id, "id": id, "position": position, "reason": reason}

    def _missing(self, reader: Reader, part: Segment, first: int) -> Frame:
        id = entry_id(reader.get_branch(part.branch).uid, first)
        return Frame("damaged", self._damaged(id, first, f"the entries up to {part.last} are missing"))

    def _damage(self, reason: str) -> list[Frame]:
        """Of the session as a whole; told once."""
        if self._told_damage == reason:
            return []
        self._told_damage = reason
        return [Frame("damaged", {"session": self.id, "position": None, "reason": reason})]
