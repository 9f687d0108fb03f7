"""What stands beside an entry: a summary, a label, a note. Never in the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.history import entry_of, note_name
from clew.core.conversation.points import Point, resolve
from clew.core.log.ids import check_id
from clew.core.log.records import decoder, json_in, number_in
from clew.core.log.rows import SessionRow
from clew.core.messages.codec import decode_json, encode_json
from clew.core.runs.access import Access, require_write_beside
from clew.errors import CheckpointNotFoundError, EntryNotFoundError
from clew.model import Entry, Json

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

_decode_fields: Callable[[bytes], dict[str, msgspec.Raw]]
_decode_fields = decoder(dict[str, msgspec.Raw], "an annotation")
decode_label: Callable[[bytes], list[str]] = decoder(list[str], "the record of a label")


class Fields(msgspec.Struct, frozen=True):
    """What an annotation is to have, checked and encoded before any lock is taken."""

    encoded: dict[str, msgspec.Raw]
    removed: tuple[str, ...]
    label: str | None


def fields_of(given: Mapping[str, Json], redactor: Incoming | None = None) -> Fields:
    """Check the fields of an annotation; None removes one."""
    kept = {name: value for name, value in given.items() if value is not None}
    label = kept.get("label")
    if label is not None:
        check_id(label, "label")
    encoded = encode_json(kept, what="annotation")
    if redactor is not None:
        encoded = redactor.body(encoded)
    return Fields(
        msgspec.json.decode(encoded, type=dict[str, msgspec.Raw]),
        tuple(name for name, value in given.items() if value is None),
        label,
    )


def annotate(tx: Transaction, access: Access, point: Point, fields: Fields) -> Entry:
    """Set the fields of an entry's annotation."""
    row = require_write_beside(tx, access)
    try:
        branch, position = resolve(tx, row, point)
    except CheckpointNotFoundError as exc:
        raise EntryNotFoundError(row.id, point) from exc
    entry = tx.get_entry(branch, position) if branch else None
    if entry is None:
        raise EntryNotFoundError(row.id, point)
    uid = tx.get_branch(branch).uid
    name = note_name(uid, position)
    before = tx.get_record(STORE_WIDE, "annotation", name)
    kept = {} if before is None else _decode_fields(before)
    had = json_in(kept["label"], "the label of an annotation") if "label" in kept else None
    after = {field: raw for field, raw in {**kept, **fields.encoded}.items() if field not in fields.removed}
    has = None if "label" in fields.removed else fields.label or had
    if had != has:
        if had is not None:
            unlabel(tx, row.tree, had, name)
        if has is not None:
            _relabel(tx, row.tree, has, [*_labelled(tx, row.tree, has), name])
    encoded = msgspec.json.encode(after)
    if after:
        tx.put_record(STORE_WIDE, "annotation", name, encoded)
    elif before is not None:
        tx.drop_record(STORE_WIDE, "annotation", name)
    return entry_of(uid, entry, {position: decode_json(encoded)})


def labelled(reader: Reader, row: SessionRow, label: str) -> list[tuple[int, int]]:
    """(branch, position) of the entries of a session's tree that bear a label."""
    places = []
    for name in _labelled(reader, row.tree, label):
        uid, _, position = name.rpartition(".")
        branch = reader.find_branch(uid)
        if branch is not None:
            places.append((branch.branch, number_in(position, f"the label {label!r}")))
    return places


def unlabel(tx: Transaction, tree: int, label: str, name: str) -> None:
    _relabel(tx, tree, label, [other for other in _labelled(tx, tree, label) if other != name])


def _labelled(reader: Reader, tree: int, label: str) -> list[str]:
    value = reader.get_record(STORE_WIDE, "label", f"{tree}:{label}")
    return decode_label(value) if value else []


def _relabel(tx: Transaction, tree: int, label: str, names: list[str]) -> None:
    if names:
        tx.put_record(STORE_WIDE, "label", f"{tree}:{label}", msgspec.json.encode(names))
    else:
        tx.drop_record(STORE_WIDE, "label", f"{tree}:{label}")
