"""Rows that this process has read or written: a transaction may begin with them, and has them compared."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeVar

from clew.core.log.rows import BranchRow, SessionRow

KEPT: Final = 10_000
K = TypeVar("K")
V = TypeVar("V")

LEASE: Final = "lease"
"""The kind of records that is remembered: a lease is renewed again and again by the one who wrote it."""


class RowCache:
    """Any row may be out of date. Branches do not change, except their owner."""

    def __init__(self) -> None:
        self.renew()
        self._sessions: OrderedDict[int, SessionRow] = OrderedDict()
        self._leases: OrderedDict[tuple[int, str], bytes] = OrderedDict()
        self._branches: OrderedDict[int, BranchRow] = OrderedDict()

    def renew(self) -> None:
        """In a forked child: another thread of the parent may have had the lock."""
        self._lock = threading.Lock()

    def session(self, sid: int) -> SessionRow | None:
        with self._lock:
            return _get(self._sessions, sid)

    def note(self, sid: int, row: SessionRow | None) -> None:
        """As a transaction left it; None: it is dropped."""
        with self._lock:
            _put(self._sessions, sid, row)

    def note_read(self, row: SessionRow) -> None:
        """As it was read, perhaps before a transaction of another thread."""
        with self._lock:
            known = self._sessions.get(row.sid)
            if known is None or known.updated <= row.updated:
                _put(self._sessions, row.sid, row)

    def forget(self, sids: Iterable[int]) -> None:
        with self._lock:
            for sid in sids:
                self._sessions.pop(sid, None)
            for key in [key for key in self._leases if key[0] in set(sids)]:
                del self._leases[key]

    def record(self, sid: int, kind: str, name: str) -> bytes | None:
        with self._lock:
            return _get(self._leases, (sid, name)) if kind == LEASE else None

    def note_record(self, sid: int, kind: str, name: str, value: bytes | None) -> None:
        if kind == LEASE:
            with self._lock:
                _put(self._leases, (sid, name), value)

    def branch(self, branch: int) -> BranchRow | None:
        with self._lock:
            return _get(self._branches, branch)

    def note_branch(self, row: BranchRow) -> None:
        with self._lock:
            _put(self._branches, row.branch, row)

    def forget_branch(self, branch: int) -> None:
        with self._lock:
            self._branches.pop(branch, None)

    def clear(self) -> None:
        with self._lock:
            self._sessions.clear()
            self._leases.clear()
            self._branches.clear()


def _get(kept: OrderedDict[K, V], key: K) -> V | None:
    found = kept.get(key)
    if found is not None:
        kept.move_to_end(key)
    return found


def _put(kept: OrderedDict[K, V], key: K, value: V | None) -> None:
    if value is None:
        kept.pop(key, None)
        return
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT:
        kept.popitem(last=False)
