"""Which session can show an entry that was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from clew.backends.contract import Reader
from clew.core.conversation.points import path_of
from clew.core.log.rows import SessionRow
from clew.core.log.tree import Segment
from clew.core.messages.search_text import TextPlace
from clew.errors import CorruptError
from clew.model import Head


class Sight(NamedTuple):
    session: SessionRow
    on_path: bool


class Sightings:
    """Answers for one search: it remembers the sessions and paths that it has looked at."""

    def __init__(self, reader: Reader, may_show: Callable[[SessionRow], bool]) -> None:
        self._reader = reader
        self._may_show = may_show
        self._sessions: dict[int, SessionRow | None] = {}
        self._paths: dict[int, list[Segment]] = {}
        self._trees: dict[int, list[SessionRow]] = {}

    def sight(self, place: TextPlace) -> Sight | None:
        """A session on whose path it is: its own first, then the oldest; else the one that was rewound past
        it. None: only those in the trash can show it, or such as are not asked for."""
        try:
            branch = self._reader.get_branch(place.branch)
        except (KeyError, CorruptError):
            return None  # purged meanwhile, or damaged
        owner = self._session(branch.owner)
        if owner is not None and self._is_on_path(owner, place):
            return Sight(owner, True)
        for other in self._relatives(branch.tree):
            if other.sid != branch.owner and self._is_on_path(other, place):
                return Sight(other, True)
        return None if owner is None else Sight(owner, False)

    def head_of(self, place: TextPlace) -> Head:
        return Head(self._reader.get_branch(place.branch).uid, place.position)

    def _session(self, sid: int) -> SessionRow | None:
        if sid not in self._sessions:
            try:
                row = self._reader.get_session(sid) if sid else None
            except CorruptError:
                row = None
            self._sessions[sid] = row if row is not None and self._is_shown(row) else None
        return self._sessions[sid]

    def _is_shown(self, row: SessionRow) -> bool:
        return row.deleted is None and self._may_show(row)

    def _relatives(self, tree: int) -> list[SessionRow]:
        if tree not in self._trees:
            try:
                relatives = self._reader.tree_sessions(tree)
            except CorruptError:
                relatives = []
            self._trees[tree] = [row for row in relatives if self._is_shown(row)]
        return self._trees[tree]

    def _is_on_path(self, row: SessionRow, place: TextPlace) -> bool:
        if row.sid not in self._paths:
            try:
                self._paths[row.sid] = path_of(self._reader, row.head)
            except CorruptError:  # a damaged session shows nothing; the others are found
                self._paths[row.sid] = []
        return any(
            part.branch == place.branch and part.first <= place.position <= part.last
            for part in self._paths[row.sid]
        )
