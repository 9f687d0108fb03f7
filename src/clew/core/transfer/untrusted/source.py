"""Read a store or a file that came from elsewhere: nothing passes unchecked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader
from clew.core.check.scan import ChangedError, GoneError
from clew.core.conversation.records import places_named
from clew.core.log import jsonl
from clew.core.log.ids import MAX_ID_BYTES, MAX_POSITION, check_id
from clew.core.log.rows import EMPTY, NOWHERE, BranchRow, HeadRow, SessionRow, UsageRow
from clew.core.transfer.source import (
    KINDS,
    BranchImage,
    Page,
    SessionImage,
    Source,
    TreeImage,
    UnsoundError,
    Where,
)
from clew.core.transfer.untrusted.rows import (
    LARGEST,
    check_branch,
    check_call,
    check_details,
    check_digest,
    check_entry,
    check_event,
    check_label,
    check_next,
    check_next_call,
    check_note,
    check_number,
    check_record,
    check_session,
    check_text,
    check_time,
    check_tip,
    number_of,
)
from clew.errors import ClewError, CorruptEntryError, InvalidError

# ── Whether a line of a session's file says only what we write into one: each by itself ───────────

FURTHEST: Final = 2**31 - 1
"""The highest number of a session or branch that an index can hold."""
_LONGEST_NAME: Final = 2 * MAX_ID_BYTES
"""Names of records that we make of an id and something else."""


def check_line(line: jsonl.AnyLine) -> None:
    """InvalidError: no store writes such a line into the file of a session."""
    check = _CHECKS.get(type(line))
    if check is None:
        raise InvalidError(f"a session file has no {line.__struct_config__.tag!r} line")
    check(line)


class Ids:
    """The ids of events and calls so far: none is given twice."""

    def __init__(self) -> None:
        self._events: set[tuple[int, str]] = set()
        self._calls: set[tuple[int, str]] = set()

    def check(self, line: jsonl.AnyLine) -> None:
        if isinstance(line, jsonl.EventsGoneLine):
            self._events.clear()  # the ids of these are free again
        elif isinstance(line, jsonl.EventLine):
            self._add(self._events, line.sid, line.id)
        elif isinstance(line, jsonl.UsageLine):
            self._add(self._calls, line.sid, line.row.id)

    def _add(self, seen: set[tuple[int, str]], sid: int, id: str | None) -> None:
        if id is None:
            return
        if (sid, id) in seen:
            raise InvalidError(f"the id {id!r} occurs twice")
        seen.add((sid, id))


def where_of(line: jsonl.AnyLine) -> list[Where]:
    """What a line tells of, from the single thing to its kind."""
    match line:
        case jsonl.SessionLine() | jsonl.HeadLine():
            sid = line.row.sid if isinstance(line, jsonl.SessionLine) else line.sid
            return [("session", sid), ("session",)]
        case jsonl.DetailsLine():
            return [("details", line.sid)]
        case jsonl.BranchLine():
            return [("branch", line.row.branch)]
        case jsonl.EntryLine():
            return [("entry", line.branch, line.position), ("entry", line.branch)]
        case jsonl.EventLine():
            return [("event", line.number), ("event",)]
        case jsonl.UsageLine():
            return [("usage", line.row.number), ("usage",)]
        case jsonl.RecordLine():
            return [("record", line.sid, line.type, line.name)]
    return []


def _log(line: jsonl.LogLine) -> None:
    check_number(line.format, 1, LARGEST, "format")  # a newer one is refused by its reader
    check_number(line.sid, 0, FURTHEST, "sid")
    if line.id:
        check_id(line.id)
    check_text(line.mark, "mark", MAX_ID_BYTES)


def _session(line: jsonl.SessionLine) -> None:
    check_session(line.row)
    for number in (line.row.sid, line.row.tree, line.row.head.branch):
        check_number(number, 0, FURTHEST, "the number of a session or branch")


def _new_branch(line: jsonl.BranchLine) -> None:
    check_branch(line.row)
    for number in (line.row.branch, line.row.tree, line.row.owner, line.row.parent):
        check_number(number, 0, FURTHEST, "the number of a session or branch")


def _head(line: jsonl.HeadLine) -> None:
    _sid(line)
    check_tip(line.head)
    check_number(line.head.branch, 0, FURTHEST, "branch")
    check_time(line.updated, "updated")
    check_text(line.title, "title", _LONGEST_NAME)
    check_text(line.preview, "preview", _LONGEST_NAME)


def _record(line: jsonl.RecordLine) -> None:
    check_number(line.sid, STORE_WIDE, FURTHEST, "sid")
    check_id(line.type, "the type of a record")
    check_text(line.name, "the name of a record", _LONGEST_NAME)
    if "\0" in line.name:
        raise InvalidError("the name of a record holds a NUL character")
    value = _value(line.base64, line.value)
    if line.sid != STORE_WIDE:
        if line.type in KINDS:
            check_record(line.type, line.name, value)
    elif line.type == "alias":
        check_id(line.name, "alias")
        if not value.isdigit() or len(value) > 19:
            raise InvalidError("an alias leads to the number of a session")
    elif line.type == "annotation":
        check_note(line.name, value)
    elif line.type == "label":
        check_label(value)


def _value(is_base64: bool, value: Any) -> bytes:
    try:
        return jsonl.extract(is_base64, value)
    except ValueError as error:
        raise InvalidError(f"its value cannot be read: {error}") from error


def _entry(line: jsonl.EntryLine) -> None:
    check_number(line.branch, 1, FURTHEST, "branch")
    _value(line.base64, line.body)
    check_entry(jsonl.entry_row(line))


def _event(line: jsonl.EventLine) -> None:
    _sid(line)
    _value(line.base64, line.data)
    check_event(jsonl.event_row(line))


def _sid(line: Any) -> None:
    check_number(line.sid, 1, FURTHEST, "sid")


def _branch(line: Any) -> None:
    check_number(line.branch, 1, FURTHEST, "branch")


def _details(line: jsonl.DetailsLine) -> None:
    _sid(line)
    check_details(line.details)


def _entries_gone(line: jsonl.EntriesGoneLine) -> None:
    _branch(line)
    check_number(line.after, NOWHERE, MAX_POSITION, "after")


def _erased(line: jsonl.ErasedLine) -> None:
    _branch(line)
    for position in line.positions:
        check_number(position, 0, MAX_POSITION, "position")


def _events_gone(line: jsonl.EventsGoneLine) -> None:
    _sid(line)
    check_number(line.upto, 0, MAX_POSITION, "upto")


def _usage(line: jsonl.UsageLine) -> None:
    _sid(line)
    check_call(line.row)


def _record_gone(line: jsonl.RecordGoneLine) -> None:
    check_number(line.sid, STORE_WIDE, FURTHEST, "sid")
    check_text(line.name, "the name of a record", _LONGEST_NAME)


def _numbers(line: jsonl.NumbersLine) -> None:
    for name in ("sid", "branch", "pack"):
        check_number(getattr(line, name), 0, FURTHEST, name)


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    jsonl.LogLine: _log,
    jsonl.SessionLine: _session,
    jsonl.DetailsLine: _details,
    jsonl.HeadLine: _head,
    jsonl.SessionGoneLine: _sid,
    jsonl.BranchLine: _new_branch,
    jsonl.DisownedLine: _branch,
    jsonl.BranchGoneLine: _branch,
    jsonl.EntryLine: _entry,
    jsonl.EntriesGoneLine: _entries_gone,
    jsonl.ErasedLine: _erased,
    jsonl.EventLine: _event,
    jsonl.EventsGoneLine: _events_gone,
    jsonl.UsageLine: _usage,
    jsonl.RecordLine: _record,
    jsonl.RecordGoneLine: _record_gone,
    jsonl.NumbersLine: _numbers,
}


# ── Reading a store, or the file of a session, that is not trusted ────────────────────────────────
# All that goes over to another store passes the checks of the door. Hashes, counters and sums are made anew,
# and compared. What does not pass costs its tree of sessions: `UnsoundError` says what it is, and where.

_SURPRISES: Final = (
    msgspec.MsgspecError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError
)  # fmt: skip
"""What reading rows may raise that say what we never write."""


@contextmanager
def judging(where: Where, what: str) -> Iterator[None]:
    """Whatever a check raises is said of this thing."""
    try:
        yield
    except (UnsoundError, ChangedError, CorruptEntryError):
        raise
    except InvalidError as error:
        raise UnsoundError(where, what, str(error)) from error
    except ClewError:
        raise
    except _SURPRISES as error:
        reason = f"it cannot be read: {type(error).__name__}: {error}"
        raise UnsoundError(where, what, reason[:500]) from error


class CheckedSource(Source):
    """A source that is not trusted."""

    def image(self, tree: int) -> TreeImage:
        with judging(("session", tree), f"tree {tree}"):
            image = super().image(tree)
            _check_tree(image)
            with self._read() as reader:
                for session in image.sessions:
                    _check_tip_of(reader, session)
            return image

    def rows(self) -> Iterator[SessionRow]:
        with judging(("session",), "the list of sessions"):
            yield from super().rows()

    def entries(self, branch: BranchImage, first: int) -> Iterator[Page]:
        before = self._before(branch, first)
        for page in _judged(super().entries(branch, first), ("entry", branch.number), f"branch {branch.uid}"):
            base = before
            for position, row in enumerate(page.entries, base.position + 1):
                try:
                    before = check_next(row, before)
                except (InvalidError, *_SURPRISES):
                    what = f"entry {position} of branch {branch.uid}"
                    with judging(("entry", branch.number, position), what):
                        raise
            yield msgspec.structs.replace(page, base=base)
        if before.position >= branch.last > NOWHERE and before.digest != branch.digest and branch.digest:
            raise UnsoundError(("branch", branch.number), f"branch {branch.uid}", "its end is not its own")

    def _before(self, branch: BranchImage, first: int) -> HeadRow:
        """The place before an entry, as the source tells it: a target that holds it compares."""
        if first <= 0:
            return msgspec.structs.replace(EMPTY, branch=branch.number)
        with judging(("entry", branch.number, first), f"branch {branch.uid}"), self._read() as reader:
            number = branch.number if first > branch.fork + 1 else reader.get_branch(branch.number).parent
            tip = reader.get_tip(number, first - 1)
            if tip is None:
                raise GoneError(f"entry {first - 1} of branch {branch.uid} was purged while it was read")
            tip = msgspec.structs.replace(tip, branch=branch.number, position=first - 1)
            check_tip(tip)
            return tip

    def events(self, session: SessionImage, after: int) -> Iterator[Page]:
        what = f"session {session.row.id!r}"
        expected = max(after + 1, session.events[0])
        ids = set[str]()
        for page in _judged(super().events(session, after), ("event",), what):
            for row in page.events:
                with judging(("event", row.number), f"event {row.number} of {what}"):
                    check_event(row)
                    _check_once(row.id, ids)
                    if row.number != expected:
                        raise InvalidError(f"event {expected} was expected")
                expected += 1
            yield page

    def calls(self, session: SessionImage, after: int) -> Iterator[Page]:
        what = f"session {session.row.id!r}"
        before: UsageRow | None = None
        ids = set[str]()
        if after > 0:
            with judging(("usage", after), f"call {after} of {what}"), self._read() as reader:
                before = next(iter(reader.read_usage(session.row.sid, after - 1, 1)), None)
                if before is None or before.number != after:
                    raise InvalidError("it is missing")
        for page in _judged(super().calls(session, after), ("usage",), what):
            for row in page.calls:
                with judging(("usage", row.number), f"call {row.number} of {what}"):
                    check_next_call(row, before)
                    _check_once(row.id, ids)
                before = row
            yield page


def _check_once(id: str | None, seen: set[str]) -> None:
    if id is not None:
        if id in seen:
            raise InvalidError(f"the id {id!r} occurs twice")
        seen.add(id)


def _judged(pages: Iterator[Page], where: Where, what: str) -> Iterator[Page]:
    """Pages, whatever reading them raises."""
    while True:
        with judging(where, what):
            page = next(pages, None)
        if page is None:
            return
        yield page


# -- the image of a tree


def _check_tree(image: TreeImage) -> None:
    branches = {branch.number: branch for branch in image.branches}
    by_uid: dict[str, BranchImage] = {}
    for branch in image.branches:
        with judging(("branch", branch.number), f"branch {branch.uid[:64]!r}"):
            _check_branch(branch, image.tree, by_uid)
        by_uid[branch.uid] = branch
    sids = {session.row.sid for session in image.sessions}
    if len(sids) != len(image.sessions):
        raise UnsoundError(("session", image.tree), f"tree {image.tree}", "one session is in it twice")
    for session in image.sessions:
        _check_session(session, branches, by_uid)
    for label, value in image.labels.items():
        with judging(("record", 0, "label", label), f"label {label[:80]!r}"):
            check_label(value)
    for name, value in image.notes.items():
        with judging(("record", 0, "annotation", name), f"annotation {name[:80]!r}"):
            bears = check_note(name, value)
            if bears is not None and name.encode() not in image.labels.get(bears, b""):
                raise InvalidError(f"the label {bears!r} does not lead to it")


def _check_branch(branch: BranchImage, tree: int, known: Mapping[str, BranchImage]) -> None:
    parent = known.get(branch.parent) if branch.parent else None
    if branch.parent and parent is None:
        raise InvalidError("its parent does not stand before it")
    number = parent.number if parent else 0
    check_branch(BranchRow(branch.number, branch.uid, tree, branch.owner, number, branch.fork))
    check_digest(branch.digest)
    if branch.uid in known:
        raise InvalidError("there is another one of that name")
    if parent is not None and not parent.fork < branch.fork <= parent.last:
        raise InvalidError(f"it continues entry {branch.fork} of a branch that does not hold it")
    if branch.last <= branch.fork:
        raise InvalidError("it is empty")


def _check_session(
    session: SessionImage, branches: Mapping[int, BranchImage], by_uid: Mapping[str, BranchImage]
) -> None:
    row = session.row
    what = f"session {row.id[:80]!r}"
    with judging(("session", row.sid), what):
        check_session(row)
        _check_head(session, branches)
        check_number(session.events[0], 0, LARGEST, "the first event")
        check_number(session.events[1], 0, LARGEST, "the last event")
        check_number(session.calls, 0, LARGEST, "the last call")
    with judging(("details", row.sid), what):
        check_details(session.details)
    moves = set[int]()
    for (kind, name), value in session.records.items():
        with judging(("record", row.sid, kind, name), f"{kind} {name[:80]!r} of {what}"):
            check_record(kind, name, value)
            if kind == "move":
                moves.add(number_of(name))
                if number_of(name) > row.moves:
                    raise InvalidError(f"the session has made {row.moves} moves")
            for head in places_named(kind, name, value)[0]:
                branch = by_uid.get(head.branch)
                if head.position != NOWHERE and (
                    branch is None or not branch.fork < head.position <= branch.last
                ):
                    raise InvalidError(
                        f"it leads to entry {head.position} of branch {head.branch}, which does not exist"
                    )
    if len(moves) != row.moves:
        raise UnsoundError(("session", row.sid), what, f"it has {len(moves)} of its {row.moves} moves")


def _check_head(session: SessionImage, branches: Mapping[int, BranchImage]) -> None:
    head = session.row.head
    branch = branches.get(head.branch)
    if head.position != NOWHERE and (branch is None or not branch.fork < head.position <= branch.last):
        raise InvalidError(f"its head is at entry {head.position} of a branch that does not hold it")
    is_own_end = branch is not None and branch.owner == session.row.sid and branch.last == head.position
    if session.row.grows and not is_own_end:
        raise InvalidError("its next entry would not go to the end of a branch of its own")
    if branch is not None and is_own_end and branch.digest != head.digest:
        raise InvalidError("the hash of its head is not that of its last entry")


def _check_tip_of(reader: Reader, session: SessionImage) -> None:
    """The counters of a head are those of its entry, which are made anew when that is read."""
    head = session.row.head
    tip = reader.get_tip(head.branch, head.position) if head.branch else EMPTY
    if tip is None:
        raise GoneError(f"the entries of session {session.row.id!r} were purged while they were read")
    if tip != head:
        raise UnsoundError(
            ("session", session.row.sid),
            f"session {session.row.id!r}",
            "its head is not what its entries say",
        )
