"""Transactions: local until the server must be asked, then one on the server.

A transaction of a crowd of appends is one request. Rows come from what is remembered here, or are asked for
outside of any transaction, and each answer is noted; writes wait. The commit sends both: "these answers, as I
know them; then these writes". The server compares and writes in one transaction of its own, or does nothing.

Where an answer is needed behind a write, or certainty is asked for (see `write(certain)` in the contract),
the transaction is opened on the server and stays open between requests, with all that waits sent along.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from clew.backends.contract import STORE_WIDE, RecordKind, Stale, Transaction
from clew.backends.http.cache import RowCache
from clew.backends.http.calls import Expected, Step, answer_of
from clew.backends.http.calls.base import Call, Read, Write
from clew.backends.http.calls.beside import (
    AddEvents,
    AddUsage,
    DropEvents,
    DropRecord,
    EventBounds,
    FindEvent,
    FindUsage,
    GetRecord,
    LastUsage,
    PutRecord,
    ReadEvents,
    ReadUsage,
    ScanRecords,
)
from clew.backends.http.calls.log import (
    AddBranch,
    AddEntries,
    AdoptBranch,
    CountEntries,
    DisownBranch,
    DropBranch,
    DropEntries,
    EraseEntries,
    FindBranch,
    GetBranch,
    GetEntry,
    GetTip,
    LastPosition,
    ReadEntries,
)
from clew.backends.http.calls.objects import (
    AddPack,
    AddTexts,
    DropObjects,
    DropPack,
    FindObjects,
    IndexedText,
    SetSearched,
)
from clew.backends.http.calls.sessions import (
    AddSession,
    DropSession,
    Era,
    FindSession,
    GetDetails,
    GetSession,
    SetDetails,
    SetDue,
    SetHead,
    SetSession,
)
from clew.backends.http.reader import HttpReader
from clew.backends.http.remote import Remote, RowsChanged
from clew.backends.http.wire import blob, digest_of, encode, entry_out, event_out
from clew.core.log.keys import key_name
from clew.core.log.rows import BranchRow, Details, EntryRow, EventRow, HeadRow, SessionRow, UsageRow
from clew.core.messages.search_text import TextRow
from clew.errors import ClewError

T = TypeVar("T")
RecordName = tuple[int, str, str]
Key = tuple[object, ...]

EVERYTHING: Final[Key] = ("everything",)


class TransactionIO(HttpReader):
    """What a transaction asks and sends."""

    def __init__(self, remote: Remote, cache: RowCache, *, certain: bool) -> None:
        self.writes = 0
        self.is_certain = True
        """False while an answer was not given inside of a transaction of the server, nor compared in one."""
        self._remote = remote
        self._cache = cache
        self._may_rely = not certain
        self._process = os.getpid()
        self._expected: dict[bytes, Expected] = {}
        self._answers: dict[bytes, msgspec.Raw] = {}
        """Of calls, as they are sent."""
        self._waiting: list[Write] = []
        """Writes that were not sent yet."""
        self._touched: set[Key] = set()
        """What the writes, sent or not, are about."""
        self._held: str | None = None
        """The name of this transaction, once the server holds it open."""
        self._failure: BaseException | None = None
        self.sessions: dict[int, SessionRow | None] = {}
        """Rows as this transaction has read or written them,"""
        self.details: dict[int, Details] = {}
        """settings,"""
        self.records: dict[RecordName, bytes | None] = {}
        """records,"""
        self.branches: dict[int, BranchRow] = {}
        """and branches that it has made."""

    # -- asking

    def ask(self, call: Read[T]) -> T:
        if self._failure is not None:
            raise self._failure
        if self._may_rely and self._held is None and _is_apart(call, self._touched):
            name = encode(call)
            if name not in self._answers:
                calls = [call, *_soon(call)]
                for each, answer in zip(calls, self._remote.read_all(calls), strict=False):
                    if not isinstance(answer, ClewError):
                        self._answers.setdefault(encode(each), answer)
            if name in self._answers:
                self.expect(call, self._answers[name])
                return answer_of(call, self._answers[name])
        return answer_of(call, self._step(call))

    def expect(self, call: Read[Any], answer: bytes | msgspec.Raw) -> None:
        """Rely upon an answer: the server compares it when this transaction commits, or is opened there."""
        self.is_certain = False
        self._expected.setdefault(encode(call), Expected(call, digest_of(answer)))

    def _step(self, call: Call[Any]) -> msgspec.Raw:
        """Carry out a call inside of the transaction on the server, behind all that waits."""
        step = Step(
            transaction=self._held,
            expect=list(self._expected.values()),
            calls=[*self._waiting, call],
        )
        try:
            found = self._remote.step(step)
        except RowsChanged as changed:
            self._failure = stale = Stale()
            self._held = None
            raise stale from changed
        except BaseException as error:
            # Whoever catches it may go on; but writes may be lost with it, so nothing can be committed.
            self._failure = error
            raise
        self._held = found.transaction
        self._waiting = []
        self._expected = {}
        self.is_certain = True
        if found.problem is not None:
            raise self._remote.error(found.problem)
        return found.answers[-1]

    # -- writing

    def put(self, call: Write, *keys: Key) -> None:
        """A write that can wait."""
        self.writes += 1
        self._waiting.append(call)
        self._touched.update(keys)

    def do(self, call: Write) -> int | None:
        """A write that has an answer, or may turn out to change nothing."""
        if self._failure is not None:
            raise self._failure
        result, is_changed = answer_of(call, self._step(call))
        self.writes += is_changed
        self._touched.add(EVERYTHING)
        return result  # type: ignore[no-any-return]

    # -- ending

    def commit(self) -> None:
        """Make it durable. Called once, at the end."""
        if self._failure is not None:
            raise self._failure
        if self._held is None and not self.writes:
            return
        if not self.writes:
            self.undo()
            return
        held, self._held = self._held, None
        step = Step(
            transaction=held,
            expect=list(self._expected.values()),
            calls=list(self._waiting),
            end="commit",
            commit=secrets.token_hex(16),
        )
        try:
            self._remote.commit(step)
        except RowsChanged as changed:
            raise Stale from changed
        except BaseException:
            self._held = held  # to be undone, if that was not done
            raise
        for sid, row in self.sessions.items():
            self._cache.note(sid, row)
        for (sid, kind, name), value in self.records.items():
            self._cache.note_record(sid, kind, name, value)
        for branch in self.branches.values():
            self._cache.note_branch(branch)

    def undo(self) -> None:
        """Have the server forget it. Called at any time, any number of times."""
        held, self._held = self._held, None
        if held is not None and self._process == os.getpid():
            self._remote.undo(held)

    def forget(self) -> None:
        """It failed, or its outcome is unknown: what it knows may be out of date."""
        self._cache.forget(self.sessions)


class HttpTransaction(TransactionIO, Transaction):
    """`Transaction`: reads that must see the waiting writes, and the writes."""

    # -- sessions

    @property
    def era(self) -> int:
        """A storage that can lose what it acknowledged says so when this guess is compared."""
        if self._may_rely and self._held is None:
            self.expect(Era(), b"0")
            return 0
        return self.ask(Era())

    def get_session(self, sid: int) -> SessionRow | None:
        if sid not in self.sessions:
            known = self._cache.session(sid) if self._may_rely and self._held is None else None
            if known is not None and _is_apart(GetSession(sid), self._touched):
                self.expect(GetSession(sid), encode(known))
                self.sessions[sid] = known
            else:
                self.sessions[sid] = self.ask(GetSession(sid))
        return self.sessions[sid]

    def find_session(self, id: str, *, deleted: bool = False) -> SessionRow | None:
        found = super().find_session(id, deleted=deleted)
        if found is None:
            return None
        return self.sessions.setdefault(found.sid, found)

    def get_details(self, sid: int) -> Details:
        return self.details[sid] if sid in self.details else super().get_details(sid)

    def add_session(self, row: SessionRow, details: Details) -> int:
        sid = self.do(AddSession(row, details))
        assert sid is not None
        self.sessions[sid] = msgspec.structs.replace(row, sid=sid, tree=row.tree or sid)
        return sid

    def set_session(self, row: SessionRow) -> None:
        known = self.sessions.get(row.sid)
        is_same_name = known is not None and (known.id, known.deleted) == (row.id, row.deleted)
        self.put(SetSession(row), ("session", row.sid), *([] if is_same_name else [("names",)]))
        self.sessions[row.sid] = row

    def set_head(self, sid: int, head: HeadRow, updated: int, title: str | None, preview: str) -> None:
        row = self.get_session(sid)
        if row is not None:
            self.put(SetHead(sid, head, updated, title, preview), ("session", sid))
            self.sessions[sid] = msgspec.structs.replace(
                row, head=head, grows=True, updated=updated, title=title, preview=preview
            )

    def set_details(self, sid: int, details: Details) -> None:
        self.put(SetDetails(sid, details), ("details", sid))
        self.details[sid] = details

    def set_due(self, sid: int | None, due: int) -> None:
        if sid is None:
            self.do(SetDue(None, due))
            self.sessions.clear()
            self._cache.clear()
            return
        row = self.get_session(sid)
        if row is not None:
            self.put(SetDue(sid, due), ("session", sid))
            self.sessions[sid] = msgspec.structs.replace(row, due=due)

    def drop_session(self, sid: int) -> None:
        self.do(DropSession(sid))
        self.sessions[sid] = None
        self.details.pop(sid, None)
        self.records = {name: value for name, value in self.records.items() if name[0] != sid}

    # -- log

    def get_branch(self, branch: int) -> BranchRow:
        if branch in self.branches:
            return self.branches[branch]
        known = self._cache.branch(branch) if self._may_rely and self._held is None else None
        if known is not None and _is_apart(GetBranch(branch), self._touched):
            self.expect(GetBranch(branch), encode(known))
            return known
        return super().get_branch(branch)

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        branch = self.do(AddBranch(uid, tree, owner, parent, fork))
        assert branch is not None
        self.branches[branch] = BranchRow(branch, uid, tree, owner, parent, fork)
        return branch

    def disown_branch(self, branch: int) -> None:
        self._alter(branch, DisownBranch(branch))

    def adopt_branch(self, branch: int, owner: int) -> None:
        self._alter(branch, AdoptBranch(branch, owner))

    def drop_branch(self, branch: int) -> None:
        self._alter(branch, DropBranch(branch))

    def _alter(self, branch: int, call: Write) -> None:
        self.branches.pop(branch, None)
        self._cache.forget_branch(branch)
        self.do(call)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.put(AddEntries(branch, [entry_out(row) for row in rows]), ("log", branch))

    def drop_entries(self, branch: int, after: int) -> None:
        self.do(DropEntries(branch, max(after, -1)))

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        self.do(EraseEntries(branch, list(positions)))

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        key = (sid, kind, name)
        if key not in self.records:
            call = GetRecord(sid, kind, name)
            known = self._cache.record(sid, kind, name) if self._may_rely and self._held is None else None
            if known is not None and _is_apart(call, self._touched):
                self.expect(call, encode(blob(known)))
                self.records[key] = known
            else:
                self.records[key] = self.ask(call)
        return self.records[key]

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self.put(PutRecord(sid, kind, name, blob(value)), ("record", sid, kind))
        self.records[sid, kind, name] = value

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        if self.get_record(sid, kind, name) is None:
            return False
        self.put(DropRecord(sid, kind, name), ("record", sid, kind))
        self.records[sid, kind, name] = None
        return True

    # -- streams

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        if rows:
            self.put(AddEvents(sid, [event_out(row) for row in rows]), ("events", sid))

    def drop_events(self, sid: int, upto: int) -> None:
        self.do(DropEvents(sid, upto))

    def add_usage(self, sid: int, row: UsageRow) -> None:
        self.put(AddUsage.by(sid, row), ("usage", sid))

    # -- objects

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        pack = self.do(AddPack(codec, blob, size, list(members)))
        assert pack is not None
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        self.do(DropObjects(list(names)))

    def drop_pack(self, pack: int) -> None:
        self.do(DropPack(pack))

    # -- texts

    def add_texts(self, rows: Sequence[TextRow], upto: Mapping[int, int]) -> None:
        self.put(AddTexts([IndexedText.by(row) for row in rows], list(upto.items())), EVERYTHING)

    def set_searched(self, rows: Sequence[SessionRow]) -> None:
        self.put(SetSearched(list(rows)), EVERYTHING)


# -- what is asked for next


def _soon(call: Read[Any]) -> list[Read[Any]]:
    """What is going to be asked after this, unless the answer makes it needless: so it travels along."""
    match call:
        case FindSession(deleted=False):
            return [GetRecord(STORE_WIDE, "alias", call.id)]
        case GetRecord(kind="key"):
            return [GetRecord(call.sid, "key", key_name(call.name))]
        case EventBounds():
            return [GetRecord(STORE_WIDE, "retention", "rules")]
    return []


# -- which reads do not see the writes of a transaction, whatever it has written


def _is_apart(call: Read[Any], touched: set[Key]) -> bool:
    """Whether none of these writes can change the answer."""
    if not touched:
        return True
    key = _key(call)
    return key is not None and key not in touched and EVERYTHING not in touched


def _key(call: Read[Any]) -> Key | None:
    """What a read is about; None: more than one thing."""
    match call:
        case GetSession():
            return "session", call.sid
        case FindSession():
            return ("names",)
        case GetDetails():
            return "details", call.sid
        case GetRecord() | ScanRecords():
            return "record", call.sid, call.kind
        case GetBranch() | FindBranch() | FindObjects():
            return ("branches",)  # only made or dropped by writes that are done at once
        case GetTip() | GetEntry() | ReadEntries() | LastPosition() | CountEntries():
            return "log", call.branch
        case EventBounds() | FindEvent() | ReadEvents():
            return "events", call.sid
        case LastUsage() | FindUsage() | ReadUsage():
            return "usage", call.sid
    return None
