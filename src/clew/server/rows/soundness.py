"""Whether what a client wants to write can be what Clew writes. Nothing of it is believed.

The types of the calls have seen to it that each row can be one. Here it is asked whether it fits what is
there: entries continue what is before them, with the right hash and counters; a head leads to an entry of the
session's own tree; numbers of events follow each other; objects are what their names say. This is no question
of permission: whoever opens the rows may do everything. It keeps a client that is broken, or of another
version, from breaking the store.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.backends.http.calls.base import Call
from clew.backends.http.calls.beside import AddEvents, AddUsage, DropRecord, PutRecord
from clew.backends.http.calls.log import AddBranch, AddEntries, DropEntries
from clew.backends.http.calls.objects import AddPack
from clew.backends.http.calls.sessions import AddSession, SetDetails, SetDue, SetHead, SetSession
from clew.backends.http.wire import entry_in, unblob
from clew.core.check.branches import draft_of
from clew.core.check.records import after as sums_after
from clew.core.log import checks, digest
from clew.core.log.ids import is_id
from clew.core.log.rows import EMPTY, ERASED, NOWHERE, REMOVED, BranchRow, EntryRow, HeadRow, SessionRow
from clew.core.log.tree import chain, misplaced
from clew.core.messages.validate import MAX_MESSAGE_BYTES
from clew.errors import BranchMissingError, CorruptError, InvalidError
from clew.files.objects.format import object_name

LARGEST_RECORD = 64 * 1024 * 1024
_encode = msgspec.json.Encoder().encode


class Soundness:
    """Looks at the writes of one transaction, each before it is done."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._tips: dict[int, HeadRow] = {}
        """Of branches that this transaction has written to."""

    def check(self, call: Call[Any]) -> None:
        """InvalidError: Clew would not write this."""
        look = _LOOKS.get(type(call))
        if look is not None:
            try:
                look(self, call)
            except CorruptError as error:
                raise InvalidError(f"this cannot be written: {error}") from error

    # -- sessions

    def _session(self, sid: int) -> SessionRow:
        row = self._tx.get_session(sid)
        if row is None:
            raise InvalidError(f"there is no session number {sid}")
        return row

    def _head(self, row: SessionRow) -> None:
        """The head is a place in the session's own tree."""
        head = row.head
        if not head.branch:
            if head != EMPTY:
                raise InvalidError("a head on no branch has no counters")
            return
        tip = self._tips.get(head.branch)
        if tip != head and self._tx.get_tip(head.branch, head.position) != head:
            raise InvalidError(
                "the head does not lead to an entry, or its counters are not those of the entry"
            )
        branch = self._tx.get_branch(head.branch)
        if branch.tree != row.tree:
            raise InvalidError("the head leads to an entry of another tree")
        if row.grows:
            if branch.owner != row.sid:
                raise InvalidError("the session cannot grow on a branch that is not its own")
            last = tip.position if tip is not None else self._tx.last_position(head.branch)
            if head.position != last:
                raise InvalidError("the session cannot grow in the middle of a branch")

    def _name_is_free(self, row: SessionRow) -> None:
        if row.deleted is None:
            other = self._tx.find_session(row.id)
            if other is not None and other.sid != row.sid:
                raise InvalidError("another session has this id")

    def _add_session(self, call: AddSession) -> None:
        row = checks.session(call.row)
        self._details(row.id, call.details)
        self._name_is_free(msgspec.structs.replace(row, sid=-1))
        if row.tree and not self._tx.tree_sessions(row.tree) and not self._tx.tree_branches(row.tree):
            raise InvalidError(f"there is no tree number {row.tree}")
        if row.grows:
            raise InvalidError("a new session has no branch of its own to grow on")
        self._head(row)

    def _set_session(self, call: SetSession) -> None:
        new, old = checks.session(call.row), self._session(call.row.sid)
        if new.tree != old.tree:
            raise InvalidError("a session stays in its tree")
        if new.epoch < old.epoch:
            raise InvalidError("the epoch of a session only grows")
        if (new.id, new.deleted is None) != (old.id, old.deleted is None):
            self._name_is_free(new)
        if new.head != old.head or new.grows > old.grows:
            self._head(new)

    def _set_head(self, call: SetHead) -> None:
        old = self._session(call.sid)
        new = msgspec.structs.replace(
            old, head=call.head, grows=True, updated=call.updated, title=call.title, preview=call.preview
        )
        self._head(checks.session(new))

    def _set_details(self, call: SetDetails) -> None:
        self._details(self._session(call.sid).id, call.details)

    def _details(self, id: str, details: Any) -> None:
        found = checks.details(id, _encode(details))
        checks.metadata(id, found)

    def _set_due(self, call: SetDue) -> None:
        if call.sid is not None:
            self._session(call.sid)

    # -- log

    def _branch(self, branch: int) -> BranchRow:
        try:
            return self._tx.get_branch(branch)
        except BranchMissingError as error:
            raise InvalidError(f"there is no branch number {branch}") from error

    def _add_branch(self, call: AddBranch) -> None:
        if not is_id(call.uid) or self._tx.find_branch(call.uid) is not None:
            raise InvalidError("the name of a new branch is not valid, or taken")
        if call.owner and self._session(call.owner).tree != call.tree:
            raise InvalidError("a branch is of the tree of its owner")
        if not call.parent:
            if call.fork != NOWHERE:
                raise InvalidError("a branch that continues nothing begins at the root")
            return
        parent = self._branch(call.parent)
        wrong = misplaced(BranchRow(0, call.uid, call.tree, call.owner, call.parent, call.fork), parent)
        if wrong:
            raise InvalidError(f"the new branch is misplaced: {wrong}")

    def _before(self, branch: BranchRow) -> HeadRow:
        """The place behind which the next entry of a branch comes."""
        tip: HeadRow | None = self._tips.get(branch.branch)
        if tip is not None:
            return tip
        owner = self._tx.get_session(branch.owner) if branch.owner else None
        if owner is not None and owner.grows and owner.head.branch == branch.branch:
            return owner.head  # the tip, without another look at the log
        last = self._tx.last_position(branch.branch)
        if last > branch.fork:
            tip = self._tx.get_tip(branch.branch, last)
        else:
            tip = self._tx.get_tip(branch.parent, branch.fork) if branch.parent else EMPTY
        if tip is None:
            raise InvalidError("the branch continues an entry that is not there")
        return tip

    def _add_entries(self, call: AddEntries) -> None:
        branch = self._branch(call.branch)
        tip = self._before(branch)
        for wire in call.rows:
            tip = self._next(branch, tip, entry_in(wire))
        self._tips[call.branch] = tip

    def _next(self, branch: BranchRow, before: HeadRow, row: EntryRow) -> HeadRow:
        flaw = checks.entry_flaw(row)
        if flaw or len(row.body) > MAX_MESSAGE_BYTES:
            raise InvalidError(f"entry {row.position}: {flaw or 'its body is too large'}")
        if row.position != before.position + 1:
            raise InvalidError(f"entry {row.position} does not follow entry {before.position}")
        actual = row.tip(branch.branch)
        try:
            expected = chain(before, branch.branch, [draft_of(row)], row.time)[1]
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidError(f"entry {row.position}: its body cannot be understood: {error}") from error
        if row.kind == REMOVED:
            if row.body != ERASED:
                raise InvalidError(f"entry {row.position} was removed, and something stands in its place")
            # The hash, the size and the turn are those of the body that was there.
            same: tuple[str, ...] = ("position", "branch", "messages", "view_start", "summary")
        else:
            same = HeadRow.__struct_fields__
        wrong = [name for name in same if getattr(actual, name) != getattr(expected, name)]
        if before.digest == digest.LOST and "digest" in wrong:
            wrong.remove("digest")
        if wrong:
            raise InvalidError(
                f"entry {row.position} does not continue what is before it: {', '.join(wrong)}"
            )
        return actual

    def _drop_entries(self, call: DropEntries) -> None:
        self._tips.pop(call.branch, None)

    # -- beside

    def _put_record(self, call: PutRecord) -> None:
        if call.sid != STORE_WIDE:
            self._session(call.sid)
        if len(unblob(call.value)) > LARGEST_RECORD:
            raise InvalidError(f"a record has at most {LARGEST_RECORD} bytes")

    def _drop_record(self, call: DropRecord) -> None:
        if call.sid != STORE_WIDE:
            self._session(call.sid)

    def _add_events(self, call: AddEvents) -> None:
        self._session(call.sid)
        oldest, newest = self._tx.event_bounds(call.sid)
        follows = newest + 1 if oldest <= newest else None
        seen: set[str] = set()
        for event in call.rows:
            if follows is not None and event.number != follows:
                raise InvalidError(f"event {event.number} does not follow event {follows - 1}")
            follows = event.number + 1
            if not is_id(event.type) or (event.stream and not is_id(event.stream)):
                raise InvalidError(f"event {event.number} has a type or stream that is not valid")
            if event.id is not None:
                taken = event.id in seen or self._tx.find_event(call.sid, event.id) is not None
                if taken or not is_id(event.id):
                    raise InvalidError(f"event {event.number} has an id that is taken, or not valid")
                seen.add(event.id)
            _json(unblob(event.data), f"event {event.number}")

    def _add_usage(self, call: AddUsage) -> None:
        self._session(call.sid)
        row = checks.call(call.usage)
        last = self._tx.last_usage(call.sid)
        if row.number != (last.number + 1 if last else 1):
            raise InvalidError(f"model call {row.number} does not follow the last one")
        if row.id is not None and (not is_id(row.id) or self._tx.find_usage(call.sid, row.id) is not None):
            raise InvalidError(f"model call {row.number} has an id that is taken, or not valid")
        names = [name.removeprefix("all_") for name in row.__struct_fields__ if name.startswith("all_")]
        base = {name: getattr(last, f"all_{name}") for name in names} if last else {}
        expected = sums_after(base, row)
        if any(getattr(row, f"all_{name}") != expected[name] for name in names):
            raise InvalidError(f"the sums of model call {row.number} are wrong")

    # -- objects

    def _add_pack(self, call: AddPack) -> None:
        try:
            content = digest.unpack(call.codec, call.blob)
        except ValueError as error:
            raise InvalidError(f"the pack is damaged: {error}") from error
        if len(content) != call.size:
            raise InvalidError(f"the pack has {len(content)} bytes, not {call.size}")
        for name, offset, size in call.members:
            if object_name(content[offset : offset + size]) != name:
                raise InvalidError(f"object {name.hex()} of the pack is not what its name says")


def _json(body: bytes, what: str) -> None:
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"{what} is not JSON: {error}") from error


_LOOKS: dict[type, Any] = {
    AddSession: Soundness._add_session,
    SetSession: Soundness._set_session,
    SetHead: Soundness._set_head,
    SetDetails: Soundness._set_details,
    SetDue: Soundness._set_due,
    AddBranch: Soundness._add_branch,
    AddEntries: Soundness._add_entries,
    DropEntries: Soundness._drop_entries,
    PutRecord: Soundness._put_record,
    DropRecord: Soundness._drop_record,
    AddEvents: Soundness._add_events,
    AddUsage: Soundness._add_usage,
    AddPack: Soundness._add_pack,
}
