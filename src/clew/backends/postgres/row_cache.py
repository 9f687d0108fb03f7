"""Rows that this process has read or written: sessions with their versions, and branches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from clew.core.log.rows import BranchRow, SessionRow

KEPT: Final = 10_000


class RowCache:
    """Any row may be out of date: a transaction that uses one names its version to the database when it
    writes. Branches do not change, except their owner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[int, tuple[SessionRow, int]] = OrderedDict()
        self._branches: OrderedDict[int, BranchRow] = OrderedDict()

    def session(self, sid: int) -> tuple[SessionRow, int] | None:
        with self._lock:
            known = self._sessions.get(sid)
            if known is not None:
                self._sessions.move_to_end(sid)
            return known

    def note(self, row: SessionRow, version: int) -> None:
        """Keep a row, unless a newer version of it is known."""
        with self._lock:
            known = self._sessions.get(row.sid)
            if known is None or known[1] < version:
                self._sessions[row.sid] = row, version
            if len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)

    def forget(self, sids: Iterable[int]) -> None:
        with self._lock:
            for sid in sids:
                self._sessions.pop(sid, None)

    def branch(self, branch: int) -> BranchRow | None:
        with self._lock:
            return self._branches.get(branch)

    def note_branch(self, row: BranchRow) -> None:
        with self._lock:
            self._branches[row.branch] = row
            if len(self._branches) > KEPT:
                self._branches.popitem(last=False)

    def forget_branch(self, branch: int) -> None:
        with self._lock:
            self._branches.pop(branch, None)

    def clear(self) -> None:
        with self._lock:
            self._sessions.clear()
            self._branches.clear()
