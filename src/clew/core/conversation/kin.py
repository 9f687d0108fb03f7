"""Forks and copies of a session, which lists fold below it.

A fork shares entries with its base, and its row names the base. A copy is a session that another program
began with the texts of a session: its metadata name that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from clew.backends.contract import Reader
from clew.backends.rows import wanted
from clew.core.log import checks
from clew.core.log.records import COPIED_FROM, parent_of
from clew.core.log.rows import Details, SessionQuery, SessionRow
from clew.errors import CorruptError
from clew.model import Json, SessionInfo


def base_of(info: SessionInfo) -> str | None:
    """The id of the session that this one is a fork or a copy of; None: of none."""
    return info.forked_from.session if info.forked_from is not None else _copied_from(info.metadata)


def kind_of(info: SessionInfo) -> Literal["fork", "copy"] | None:
    """What a list calls it; None: it began by itself."""
    if info.forked_from is not None:
        return "fork"
    return "copy" if base_of(info) is not None else None


def may_be_base(base: SessionInfo, info: SessionInfo) -> bool:
    """Whether a session of the right id can be the base: one that is younger got the id of a base that was
    deleted."""
    return base.created_at <= info.created_at


def _copied_from(metadata: dict[str, Json]) -> str | None:
    base = metadata.get(COPIED_FROM)
    return base if isinstance(base, str) and base else None


class Kin:
    """The forks and copies of sessions, by questions for each session; or by one look at all, which is
    faster for many."""

    def __init__(self, reader: Reader, *, all_at_once: bool = False) -> None:
        self._reader = reader
        self._trees: dict[int, dict[int, list[SessionRow]]] = {}
        """For each tree that was read: forks by the `sid` of their base."""
        self._copies: dict[str, list[SessionRow]] | None = None
        """All of them by the id of their base."""
        if all_at_once:
            self._read_all()

    def below(self, row: SessionRow) -> list[SessionRow]:
        """The forks and copies of a session that are not in the trash, and theirs, without subagents."""
        found: dict[int, SessionRow] = {row.sid: row}
        waiting = [row]
        while waiting:
            at = waiting.pop()
            copies = [one for one in self._copies_of(at) if one.created >= at.created]  # see may_be_base
            new = [one for one in (*self._forks(at), *copies) if one.sid not in found]
            found |= {one.sid: one for one in new}
            waiting += new
        return list(found.values())[1:]

    def _forks(self, row: SessionRow) -> Iterable[SessionRow]:
        if row.tree not in self._trees:
            self._trees[row.tree] = self._read_tree(row.tree)
        return self._trees[row.tree].get(row.sid, ())

    def _read_tree(self, tree: int) -> dict[int, list[SessionRow]]:
        found: defaultdict[int, list[SessionRow]] = defaultdict(list)
        try:
            rows = self._reader.tree_sessions(tree)
            for row in rows if len(rows) > 1 else ():
                self._take(found, row, self._reader.get_details(row.sid))
        except (CorruptError, KeyError):  # of a damaged session nothing is known
            pass
        return found

    def _copies_of(self, row: SessionRow) -> Iterable[SessionRow]:
        if self._copies is not None:
            return self._copies.get(row.id, ())
        query = SessionQuery(limit=2**31, where=wanted({COPIED_FROM: row.id}))
        return [
            one.row
            for one in self._reader.list_sessions(query)
            if _base_in_metadata(one.row, one.details) == row.id
        ]

    def _read_all(self) -> None:
        trees: defaultdict[int, defaultdict[int, list[SessionRow]]] = defaultdict(lambda: defaultdict(list))
        copies: defaultdict[str, list[SessionRow]] = defaultdict(list)
        for one in self._reader.list_sessions(SessionQuery(limit=2**31)):
            self._take(trees[one.row.tree], one.row, one.details)
            base = _base_in_metadata(one.row, one.details)
            if base is not None:
                copies[base].append(one.row)
        self._trees, self._copies = dict(trees), copies

    @staticmethod
    def _take(found: defaultdict[int, list[SessionRow]], row: SessionRow, details: Details) -> None:
        if details.origin is not None and row.deleted is None and not _is_subagent(row, details):
            found[details.origin.sid].append(row)


def _base_in_metadata(row: SessionRow, details: Details) -> str | None:
    """What a copy names; None: it is none, or shares entries with its base."""
    if details.origin is not None or COPIED_FROM.encode() not in bytes(details.metadata):
        return None
    try:
        metadata = checks.metadata(row.id, details)
    except CorruptError:
        return None
    return None if parent_of(metadata) is not None else _copied_from(metadata)


def _is_subagent(row: SessionRow, details: Details) -> bool:
    try:
        return parent_of(checks.metadata(row.id, details)) is not None
    except CorruptError:
        return False
