"""Which entries and snapshots the records of a session lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clew.backends.contract import Reader, RecordKind
from clew.core.conversation.append import decode_uses
from clew.core.conversation.checkpoints import decode_checkpoint
from clew.core.conversation.moves import decode_move
from clew.core.log.lease import Lease
from clew.core.log.records import decoder, json_in
from clew.core.runs.status import Change, RunRecord
from clew.model import Head

PLAIN: Final[dict[RecordKind, Any]] = {"var": Any, "status": Change, "run": RunRecord, "lease": Lease}
"""Records that lead nowhere, and what is in them."""
_decode_plain: Final[dict[RecordKind, Callable[[bytes], Any]]] = {
    kind: decoder(type, f"the {kind}") for kind, type in PLAIN.items()
}


def places_named(kind: RecordKind, value: bytes) -> tuple[list[Head], list[str]]:
    """The places and the snapshots that a record of a session names."""
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
    if kind != "document":  # its bytes are its owner's
        _decode_plain[kind](value)
    return [], []


def points_of(reader: Reader, sid: int) -> list[Head]:
    """Every place that a session may come back to by undo, checkpoint or key."""
    kinds: tuple[RecordKind, ...] = ("move", "checkpoint", "key")
    return [
        head
        for kind in kinds
        for _, value in reader.scan_records(sid, kind)
        for head in places_named(kind, value)[0]
    ]
