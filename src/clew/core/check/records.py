"""Whether the records beside sessions can be read, and lead to what exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core.check.scan import UNREADABLE
from clew.core.conversation.moves import decode_move, is_before
from clew.core.conversation.references import PLAIN, places_named
from clew.core.log.lease import Lease
from clew.core.log.rows import NOWHERE, SessionRow
from clew.core.retention.rules import Anchor
from clew.model import Head, Removal, Retention

_json = msgspec.json.decode
OF_SESSION: Final[tuple[RecordKind, ...]] = ("checkpoint", "document", "move", "key", *PLAIN)
OF_STORE: Final[tuple[RecordKind, ...]] = ("alias", "annotation", "label", "lease", "removal", "retention")


class Wrong(NamedTuple):
    text: str
    kind: Literal["record", "snapshot"] = "record"
    branch: str | None = None
    position: int | None = None


def of_session(reader: Reader, row: SessionRow, kind: RecordKind, name: str, value: bytes) -> Iterator[Wrong]:
    """What is wrong with a record of a session."""
    try:
        heads, named = places_named(kind, value)
        if kind == "move" and not is_before(decode_move(value), int(name)):
            yield Wrong("it leads to a move that came later")
    except UNREADABLE as error:
        yield Wrong(f"it cannot be read: {error}")
        return
    for head in heads:
        if not _exists(reader, row.tree, head):
            text = f"it leads to entry {head.position} of branch {head.branch}, which does not exist"
            yield Wrong(text, "record", head.branch, head.position)
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
    label = _json(value, type=dict[str, Any]).get("label")
    if label is None:
        return None
    places = reader.get_record(STORE_WIDE, "label", f"{branch.tree}:{label}")
    # A label that cannot be read is named by itself.
    leads_here = places is not None and (name.encode() in places or not _is_list(places))
    return None if leads_here else f"the label {label!r} does not lead to it"


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


def _retention(reader: Reader, name: str, value: bytes) -> str | None:
    if name in ("rules", "clock"):
        _json(value, type=Retention if name == "rules" else Anchor)
    return None


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
    "removal": _decoded(Removal),
    "retention": _retention,
}
