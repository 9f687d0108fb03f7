"""A store in memory: the reference for every other backend, and what tests and tutorials use."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

import msgspec

from clew.backends.contract import Capabilities, RecordKind
from clew.backends.memory.objects import ObjectTransaction
from clew.backends.memory.reader import MemoryReader
from clew.backends.memory.streams import StreamTransaction
from clew.backends.memory.tables import Journal, Tables
from clew.core.log.rows import ERASED, REMOVED, BranchRow, Details, EntryRow, SessionRow, Tip
from clew.errors import StoreClosedError


class MemoryBackend(Tables):
    """Keeps everything until it is closed. Any number of threads; one process."""

    capabilities = Capabilities(durability="memory", shared=False)
    location = "memory:"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._closed = False

    def write(self, certain: bool = True) -> _Write:
        return _Write(self)

    def read(self) -> _Read:
        return _Read(self)

    def read_still(self) -> _Read:
        """All of it as it is at one moment: nobody writes while somebody reads."""
        return _Read(self)

    def clock(self) -> None:
        """One process: its own clock will do."""

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def scrub(self) -> None:
        """What is dropped from a dict is gone."""

    def bytes_on_disk(self) -> int:
        return 0

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        self._lock.release()

    def close(self) -> None:
        self._closed = True

    def _enter(self) -> None:
        if self._closed:
            raise StoreClosedError(self.location)
        self._lock.acquire()


class MemoryTransaction(MemoryReader, StreamTransaction, ObjectTransaction):
    """Reads its own writes; what it wrote can be taken back."""

    _of: MemoryBackend

    def __init__(self, backend: MemoryBackend) -> None:
        Journal.__init__(self, backend)

    def add_session(self, row: SessionRow, details: Details) -> int:
        sid = next(self._of.numbers)
        self.set_session(msgspec.structs.replace(row, sid=sid, tree=row.tree or sid))
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self._set(self._of.sessions, row.sid, row)
        if row.deleted is None:
            self._set(self._of.ids, row.id, row.sid)
        elif self._of.ids.get(row.id) == row.sid:
            self._drop(self._of.ids, row.id)

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
        row = msgspec.structs.replace(
            self._of.sessions[sid], head=head, grows=True, updated=updated, title=title, preview=preview
        )
        self._set(self._of.sessions, sid, row)

    def set_details(self, sid: int, details: Details) -> None:
        self._set(self._of.details, sid, details)

    def set_due(self, sid: int, due: int) -> None:
        self._set(self._of.sessions, sid, msgspec.structs.replace(self._of.sessions[sid], due=due))

    def reexamine(self) -> None:
        for sid in self._of.sessions:
            self.set_due(sid, 0)

    def drop_session(self, sid: int) -> None:
        row = self._of.sessions.get(sid)
        if row is not None and self._of.ids.get(row.id) == sid:
            self._drop(self._of.ids, row.id)
        self._drop(self._of.sessions, sid)
        self._drop(self._of.details, sid)
        for key in [key for key in self._of.records if key[0] == sid]:
            self._drop(self._of.records, key)
        self._drop_streams(sid)

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        branch = next(self._of.numbers)
        self._set(self._of.branches, branch, BranchRow(branch, uid, tree, owner, parent, fork))
        self._set(self._of.uids, uid, branch)
        self._set(self._of.entries, branch, [])
        return branch

    def disown_branch(self, branch: int) -> None:
        row = msgspec.structs.replace(self._of.branches[branch], owner=0)
        self._set(self._of.branches, branch, row)

    def drop_branch(self, branch: int) -> None:
        if branch in self._of.branches:
            self._drop(self._of.uids, self._of.branches[branch].uid)
        self._drop(self._of.branches, branch)
        self._drop(self._of.entries, branch)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self._extend(self._of.entries[branch], list(rows))

    def drop_entries(self, branch: int, after: int) -> None:
        rows = self._of.entries[branch]
        self._set(self._of.entries, branch, [row for row in rows if row.position <= after])

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        wanted = set(positions)
        rows = self._of.entries.get(branch, [])
        if wanted.isdisjoint(row.position for row in rows):
            return
        erased = [
            msgspec.structs.replace(row, kind=REMOVED, body=ERASED) if row.position in wanted else row
            for row in rows
        ]
        self._set(self._of.entries, branch, erased)

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self._set(self._of.records, (sid, kind, name), value)

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        return self._drop(self._of.records, (sid, kind, name))


class _Write:
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    _transaction: MemoryTransaction | None = None

    def __enter__(self) -> MemoryTransaction:
        self._backend._enter()
        self._transaction = MemoryTransaction(self._backend)
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._backend._lock._is_owned():  # type: ignore[attr-defined]
            if exc is not None and self._transaction is not None:
                self._transaction.rollback()
            self._backend._lock.release()


class _Read:
    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def __enter__(self) -> MemoryReader:
        self._backend._enter()
        return MemoryReader(self._backend)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend._lock.release()
