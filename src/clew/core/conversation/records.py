"""Documents and other records beside a conversation, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.backends.contract import Reader, RecordKind, Transaction
from clew.core.conversation.annotations import place_named
from clew.core.conversation.append import decode_uses
from clew.core.conversation.checkpoints import decode_checkpoint
from clew.core.conversation.history import decode_note
from clew.core.conversation.moves import decode_move
from clew.core.log.ids import MAX_POSITION, check_count, check_id
from clew.core.log.lease import Lease
from clew.core.log.lines import decode_lines
from clew.core.log.records import decoder, json_in
from clew.core.runs.access import Access, require_write
from clew.core.runs.status import Change, RunRecord
from clew.errors import InvalidError, InvalidQueryError
from clew.model import Head

# ── Documents ─────────────────────────────────────────────────────────────────────────────────────
# Documents: bytes under a name beside a conversation, any number of them, in the order of their names.

_END = "\U0010ffff"
"""The last character: as many of them as fit into a name are behind whatever else follows a prefix."""


def set_document(tx: Transaction, access: Access, name: str, content: bytes) -> None:
    tx.put_record(require_write(tx, access).sid, "document", name, content)


def delete_document(tx: Transaction, access: Access, name: str) -> bool:
    return tx.drop_record(require_write(tx, access).sid, "document", name)


def content_of(content: object) -> bytes:
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InvalidError(f"a document is bytes, not {type(content).__name__}")
    return bytes(content)


def scan_documents(
    reader: Reader, sid: int, prefix: str, after: str | None, limit: int | None, *, newest_first: bool = False
) -> list[tuple[str, bytes]]:
    """Those whose names begin with a prefix, behind `after` in the direction of reading."""
    if prefix:
        check_id(prefix, "prefix")
    if after is not None:
        check_id(after, "after")
    if limit is not None and check_count(limit, "limit", error=InvalidQueryError) == 0:
        return []
    more = None if limit is None else min(limit, MAX_POSITION) + (after is not None)
    first, last = prefix, prefix + _END * 128 if prefix else None
    if after is not None and not newest_first:
        first = max(first, after, key=str.encode)
    if after is not None and newest_first:
        last = after if last is None else min(last, after, key=str.encode)
    found = reader.scan_records(sid, "document", first, last, reverse=newest_first, limit=more)
    kept = [(name, content) for name, content in found if name != after and name.startswith(prefix)]
    return kept if limit is None else kept[:limit]


# ── Which entries and snapshots the records of a session lead to ──────────────────────────────────

PLAIN: Final[dict[RecordKind, Any]] = {"var": Any, "status": Change, "run": RunRecord, "lease": Lease}
"""Records that lead nowhere, and what is in them."""
_decode_plain: Final[dict[RecordKind, Callable[[bytes], Any]]] = {
    kind: decoder(type, f"the {kind}") for kind, type in PLAIN.items()
}


def places_named(kind: RecordKind, name: str, value: bytes) -> tuple[list[Head], list[str]]:
    """The places and the snapshots that a record of a session names."""
    if kind == "annotation":
        decode_note(value)
        return [place_named(name)], []
    if kind == "checkpoint":
        kept = decode_checkpoint(value)
        json_in(kept.state, "its state")
        return [Head(kept.uid, kept.position)], [kept.snapshot] if kept.snapshot else []
    if kind == "move":
        move = decode_move(value)
        named = [] if move.files is None else [move.files.safety, move.files.target]
        return [move.came_from, move.went_to], named
    if kind == "key":
        return [Head(use.uid, use.first + use.count - 1) for use in decode_uses(value)], []
    if kind == "line":
        decode_lines(value)
        return [], []
    if kind not in ("document", "label"):  # the bytes of one are its owner's, and the other has none
        _decode_plain[kind](value)
    return [], []


def points_of(reader: Reader, sid: int) -> list[Head]:
    """Every place that a session may come back to by undo, checkpoint or key. To what it noted at an entry
    it does not: that keeps no entry."""
    kinds: tuple[RecordKind, ...] = ("move", "checkpoint", "key")
    return [
        head
        for kind in kinds
        for name, value in reader.scan_records(sid, kind)
        for head in places_named(kind, name, value)[0]
    ]
