"""Whether a line of a session's file says only what we write into one: each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.backends.contract import STORE_WIDE
from clew.core.log import jsonl
from clew.core.log.ids import MAX_ID_BYTES, MAX_POSITION, check_id
from clew.core.log.rows import NOWHERE
from clew.core.transfer.image import KINDS
from clew.core.transfer.source import Where
from clew.core.transfer.untrusted.records import check_label, check_note, check_record
from clew.core.transfer.untrusted.rows import (
    LARGEST,
    check_branch,
    check_call,
    check_details,
    check_entry,
    check_event,
    check_number,
    check_session,
    check_text,
    check_time,
    check_tip,
)
from clew.errors import InvalidError

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
