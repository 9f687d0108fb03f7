"""Check the records, events and usage beside conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core.check.scan import UNREADABLE, Read
from clew.core.conversation.annotations import (
    decode_note_record,
    label_in,
    label_names,
    labelled_place,
    note_in,
    note_key,
    noted_by,
)
from clew.core.conversation.moves import decode_move, is_before
from clew.core.conversation.records import PLAIN, places_named
from clew.core.engine.redaction import decode_key, decode_policy
from clew.core.log.grants import GrantKind, decode_grant
from clew.core.log.lease import Lease
from clew.core.log.rows import NOWHERE, EventRow, SessionRow, UsageRow
from clew.core.messages.codec import decode_json
from clew.core.retention.rules import Anchor
from clew.model import Head, Removal, Retention

# ── Whether the records beside sessions can be read, and lead to what exists ──────────────────────

_json = msgspec.json.decode
OF_SESSION: Final[tuple[RecordKind, ...]] = (
    "annotation", "checkpoint", "document", "key", "label", "line", "move", *PLAIN,
)  # fmt: skip
OF_STORE: Final[tuple[RecordKind, ...]] = (
    "alias", "annotation", "label", "lease", "note", "redaction", "removal", "retention", "share", "token",
)  # fmt: skip


class Wrong(NamedTuple):
    text: str
    kind: Literal["record", "snapshot"] = "record"
    branch: str | None = None
    position: int | None = None


def of_session(reader: Reader, row: SessionRow, kind: RecordKind, name: str, value: bytes) -> Iterator[Wrong]:
    """What is wrong with a record of a session."""
    try:
        heads, named = places_named(kind, name, value)
        if kind == "move" and not is_before(decode_move(value), int(name)):
            yield Wrong("it leads to a move that came later")
    except UNREADABLE as error:
        yield Wrong(f"it cannot be read: {error}")
        return
    for head in heads:
        if not _exists(reader, row.tree, head):
            text = f"it leads to entry {head.position} of branch {head.branch}, which does not exist"
            yield Wrong(text, "record", head.branch, head.position)
    if kind == "annotation":
        yield from (Wrong(text) for text in _own_annotation(reader, row, name, value))
    elif kind == "label":
        label, place = labelled_place(name)
        if value:
            yield Wrong("it holds something, and a label has nothing to hold")
        if _label_at(reader, row.sid, place) != label:
            yield Wrong(f"it leads to {place}, which does not bear it")
    for id in named:
        if reader.get_record(STORE_WIDE, "snapshot", id) is None:
            yield Wrong(f"it names the snapshot {id}, which was deleted, or is lost", "snapshot")


def _exists(reader: Reader, tree: int, head: Head) -> bool:
    if head == Head("", NOWHERE):
        return True
    branch = reader.find_branch(head.branch)
    return (
        branch is not None
        and branch.tree == tree
        and reader.get_tip(branch.branch, head.position) is not None
    )


def of_store(reader: Reader, kind: RecordKind, name: str, value: bytes) -> str | None:
    """What is wrong with a record that belongs to no session; None: nothing."""
    try:
        return _CHECKS[kind](reader, name, value)
    except UNREADABLE as error:
        return f"it cannot be read: {error}"


def _alias(reader: Reader, name: str, value: bytes) -> str | None:
    holder = reader.get_session(int(value))
    if holder is None or name not in reader.get_details(holder.sid).aliases:
        return "it leads to no session that has it"
    return None


def _annotation(reader: Reader, name: str, value: bytes) -> str | None:
    uid, _, position = name.rpartition(".")
    branch = reader.find_branch(uid)
    if branch is None or reader.get_tip(branch.branch, int(position)) is None:
        return "its entry does not exist"
    if _is_missed(reader, STORE_WIDE, name, value):
        return MISSED
    label = _json(value, type=dict[str, Any]).get("label")
    if label is None:
        return None
    places = reader.get_record(STORE_WIDE, "label", f"{branch.tree}:{label}")
    # A label that cannot be read is named by itself.
    leads_here = places is not None and (name.encode() in places or not _is_list(places))
    return None if leads_here else f"the label {label!r} does not lead to it"


MISSED: Final = "a search does not find its note; set the note again, or copy the store"


def _is_missed(reader: Reader, sid: int, name: str, value: bytes) -> bool:
    return note_in(value) is not None and reader.get_record(STORE_WIDE, "note", note_key(sid, name)) is None


def _own_annotation(reader: Reader, row: SessionRow, name: str, value: bytes) -> Iterator[str]:
    """What is wrong with what a session noted."""
    if _is_missed(reader, row.sid, name, value):
        yield MISSED
    for label in label_names([(name, value)]):
        if reader.get_record(row.sid, "label", label) is None:
            yield f"the label {labelled_place(label)[0]!r} does not lead to it"


def _label_at(reader: Reader, sid: int, name: str) -> str | None:
    value = reader.get_record(sid, "annotation", name)
    try:
        return None if value is None else label_in(value)
    except UNREADABLE:
        return None


def _is_list(value: bytes) -> bool:
    try:
        _json(value, type=list[str])
    except msgspec.MsgspecError:
        return False
    return True


def _label(reader: Reader, name: str, value: bytes) -> str | None:
    label = name.partition(":")[2]
    for place in _json(value, type=list[str]):
        note = reader.get_record(STORE_WIDE, "annotation", place)
        if note is None or _json(note, type=dict[str, Any]).get("label") != label:
            return f"it leads to {place}, which does not bear it"
    return None


def _note(reader: Reader, name: str, value: bytes) -> str | None:
    note = decode_note_record(value)
    sid, name = noted_by(name)
    annotation = reader.get_record(sid, "annotation", name)
    if annotation is None or note_in(annotation) != note.text:
        return "its entry does not bear it"
    uid, _, position = name.rpartition(".")
    branch = reader.find_branch(uid)
    row = None if branch is None else reader.get_entry(branch.branch, int(position))
    if branch is None or row is None or (note.time, note.branch) != (row.time, branch.branch):
        return "it leads to another place than that of its entry"
    return None


def _redaction(reader: Reader, name: str, value: bytes) -> str | None:
    if name in ("policy", "key"):
        decode_policy(value) if name == "policy" else decode_key(value)
    return None


def _retention(reader: Reader, name: str, value: bytes) -> str | None:
    if name in ("rules", "clock"):
        _json(value, type=Retention if name == "rules" else Anchor)
    return None


def _grant(kind: GrantKind) -> Callable[[Reader, str, bytes], str | None]:
    def check(reader: Reader, name: str, value: bytes) -> str | None:
        decode_grant(kind, name, value)
        return None

    return check


def _decoded(type: Any) -> Callable[[Reader, str, bytes], str | None]:
    def check(reader: Reader, name: str, value: bytes) -> str | None:
        _json(value, type=type)
        return None

    return check


_CHECKS: Final[dict[RecordKind, Callable[[Reader, str, bytes], str | None]]] = {
    "alias": _alias,
    "annotation": _annotation,
    "label": _label,
    "lease": _decoded(Lease),
    "note": _note,
    "redaction": _redaction,
    "removal": _decoded(Removal),
    "retention": _retention,
    "share": _grant("share"),
    "token": _grant("token"),
}


# ── Whether the events and the calls of a session can be read, are all there, and add up ──────────

STREAM_PAGE: Final = 256
LATEST: Final = 253_402_300_799_999_999
"""The end of the year 9999."""
_SUMMED: Final = ("input", "output", "cache_read", "cache_write", "reasoning")

Fetch: TypeAlias = Callable[[Reader, int, int], Sequence[Any]]
"""Takes a number and how many; gives the rows with numbers above it."""


def is_time(moment: int) -> bool:
    """Whether it is one that a calendar knows."""
    return 0 <= moment <= LATEST


class StreamCheck:
    """A look at what one session has beside its conversation."""

    def __init__(self, read: Read, sid: int, looked: Callable[..., None]) -> None:
        """`looked` is called after each page; it may raise to end the check."""
        self._read = read
        self._sid = sid
        self._looked = looked

    def events(self) -> Iterator[str]:
        """What is wrong with its events."""
        try:
            with self._read() as reader:
                first, last = reader.event_bounds(self._sid)
        except UNREADABLE as error:
            yield f"its events cannot be counted: {error}"
            return

        def fetch(reader: Reader, after: int, count: int) -> Sequence[EventRow]:
            return [_sound_event(row) for row in reader.read_events(self._sid, after, count)]

        yield from _told("event", self._wrong(fetch, first, last, lambda row: None))

    def calls(self) -> Iterator[str]:
        """What is wrong with its model calls, and with the sums that are kept with each."""
        try:
            with self._read() as reader:
                newest = reader.last_usage(self._sid)
        except UNREADABLE as error:
            yield f"its model calls cannot be counted: {error}"
            return

        def fetch(reader: Reader, after: int, count: int) -> Sequence[UsageRow]:
            return [_sound_call(row) for row in reader.read_usage(self._sid, after, count)]

        last = 0 if newest is None else newest.number
        yield from _told("model call", self._wrong(fetch, 1, last, _Sums().wrong))

    def _wrong(
        self, fetch: Fetch, first: int, last: int, judge: Callable[[Any], str | None]
    ) -> Iterator[tuple[int, str]]:
        """Numbers, and what is wrong with each."""
        for low in range(first, last + 1, STREAM_PAGE):
            high = min(low + STREAM_PAGE - 1, last)
            found = self._page(fetch, low, high)
            for number in range(low, high + 1):
                row = found.get(number)
                wrong = "it is missing" if row is None else row if isinstance(row, str) else judge(row)
                if wrong is not None:
                    yield number, wrong
            self._looked()

    def _page(self, fetch: Fetch, first: int, last: int) -> dict[int, Any]:
        """The rows by their numbers; of one that cannot be read, why. So one costs no other."""
        try:
            with self._read() as reader:
                rows = fetch(reader, first - 1, last - first + 1)
            return {row.number: row for row in rows if row.number <= last}
        except UNREADABLE as error:
            if first == last:
                return {first: f"it cannot be read: {error}"}
        middle = (first + last) // 2
        return self._page(fetch, first, middle) | self._page(fetch, middle + 1, last)


def _sound_event(row: EventRow) -> EventRow:
    _check_time(row.time)
    decode_json(row.data)
    return msgspec.convert(msgspec.structs.asdict(row), EventRow)


def _sound_call(row: UsageRow) -> UsageRow:
    _check_time(row.time)
    return msgspec.convert(msgspec.structs.asdict(row), UsageRow)


def _check_time(moment: int) -> None:
    if not is_time(moment):
        raise ValueError(f"its time is {moment}")


class _Sums:
    """The sums that a call should have follow from the call before it. They are made anew from what that one
    says, and from what it should say; so one wrong call is one problem, not one for each call behind it."""

    def __init__(self) -> None:
        self._bases: list[dict[str, int]] = [{}]
        self._number = 0

    def wrong(self, row: UsageRow) -> str | None:
        stored = {name: getattr(row, f"all_{name}") for name in (*_SUMMED, "cost", "unpriced", "estimated")}
        is_next = row.number == self._number + 1
        self._number = row.number
        expected = [after(base, row) for base in self._bases] if is_next else []
        self._bases = [stored, *expected[-1:]]
        if not expected or stored in expected:
            self._bases = [stored]
            return None
        others = [name for name in stored if all(stored[name] != one[name] for one in expected)]
        return f"its sums are wrong: {', '.join(others) or 'they do not fit together'}"


def after(base: dict[str, int], row: UsageRow) -> dict[str, int]:
    """The sums behind a call, by their names."""
    own = {name: getattr(row, name) for name in _SUMMED}
    own |= {
        "cost": row.cost or 0,
        "unpriced": int(row.cost is None),
        "estimated": int(row.priced_by is not None),
    }
    return {name: base.get(name, 0) + value for name, value in own.items()}


def _told(what: str, found: Iterator[tuple[int, str]]) -> Iterator[str]:
    """One sentence for each run of numbers of which the same is wrong."""
    first = last = 0
    said = ""
    for number, wrong in found:
        if said and (number, wrong) == (last + 1, said):
            last = number
            continue
        if said:
            yield _sentence(what, first, last, said)
        first = last = number
        said = wrong
    if said:
        yield _sentence(what, first, last, said)


def _sentence(what: str, first: int, last: int, wrong: str) -> str:
    return f"{what} {first}: {wrong}" if first == last else f"{what}s {first} to {last}, of each: {wrong}"
