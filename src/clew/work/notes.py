"""What stands beside an entry: a summary, a label, a note. Never in the message."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.codec import encode_json
from clew.core.ids import check_id
from clew.core.rows import SessionRow
from clew.errors import CheckpointNotFoundError, EntryNotFoundError
from clew.model import Entry, Json
from clew.work.access import Access, admit_beside
from clew.work.history import entry_of, note_name, notes_beside
from clew.work.places import Point, resolve


def annotate(tx: Transaction, access: Access, point: Point, fields: Mapping[str, Json]) -> Entry:
    """Set the fields of an entry's annotation; None removes one."""
    row = admit_beside(tx, access)
    encode_json(dict(fields), what="annotation")
    label = fields.get("label")
    if label is not None:
        check_id(label, "label")
    try:
        branch, position = resolve(tx, row, point)
    except CheckpointNotFoundError as exc:
        raise EntryNotFoundError(row.id, point) from exc
    entry = tx.get_entry(branch, position) if branch else None
    if entry is None:
        raise EntryNotFoundError(row.id, point)
    uid = tx.get_branch(branch).uid
    name = note_name(uid, position)
    before = notes_beside(tx, uid, [entry]).get(position, {})
    after = {key: value for key, value in {**before, **fields}.items() if value is not None}
    if before.get("label") != after.get("label"):
        if "label" in before:
            unlabel(tx, row.tree, before["label"], name)
        if "label" in after:
            _relabel(tx, row.tree, after["label"], [*_labelled(tx, row.tree, after["label"]), name])
    if after:
        tx.put_record(STORE_WIDE, "annotation", name, encode_json(after))
    elif before:
        tx.drop_record(STORE_WIDE, "annotation", name)
    return entry_of(uid, entry, {position: after})


def labelled(reader: Reader, row: SessionRow, label: str) -> list[tuple[int, int]]:
    """(branch, position) of the entries of a session's tree that bear a label."""
    places = []
    for name in _labelled(reader, row.tree, label):
        uid, _, position = name.rpartition(".")
        branch = reader.find_branch(uid)
        if branch is not None:
            places.append((branch.branch, int(position)))
    return places


def unlabel(tx: Transaction, tree: int, label: str, name: str) -> None:
    _relabel(tx, tree, label, [other for other in _labelled(tx, tree, label) if other != name])


def _labelled(reader: Reader, tree: int, label: str) -> list[str]:
    value = reader.get_record(STORE_WIDE, "label", f"{tree}:{label}")
    found: list[str] = msgspec.json.decode(value) if value else []
    return found


def _relabel(tx: Transaction, tree: int, label: str, names: list[str]) -> None:
    if names:
        tx.put_record(STORE_WIDE, "label", f"{tree}:{label}", msgspec.json.encode(names))
    else:
        tx.drop_record(STORE_WIDE, "label", f"{tree}:{label}")
