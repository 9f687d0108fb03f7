"""What stands beside an entry: a summary, a label, a note. Never in the message.

A search looks at all notes, and not at annotations: importers put one beside most entries, and some of these
are large. So a note, the text in the field `note`, is kept a second time, in a record of its own that also
says where its entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.history import decode_note, entry_of, note_name
from clew.core.conversation.points import Point, resolve
from clew.core.log.ids import check_id
from clew.core.log.records import Count, Time, decoder, json_in, number_in
from clew.core.log.rows import SessionRow
from clew.core.messages.codec import decode_json, encode_json
from clew.core.messages.search_text import TextPlace
from clew.core.runs.access import Access, require_write_beside
from clew.errors import CheckpointNotFoundError, CorruptError, EntryNotFoundError
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
        put_annotation(tx, name, encoded, before=before, place=TextPlace(entry.time, branch, position))
    elif before is not None:
        drop_annotation(tx, name)
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


# -- notes

_PAGE: Final = 1000


class NoteRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The value of a record of kind `note`. Its name is that of the annotation."""

    time: Time
    """Of the entry."""
    branch: Count
    """The number that the branch of the entry has in this store."""
    text: str


class Note(NamedTuple):
    """A note, and the entry beside which it stands."""

    place: TextPlace
    uid: str
    """Of the branch."""
    text: str


class _NoteField(msgspec.Struct):
    note: Json = None


decode_note_record: Callable[[bytes], NoteRecord] = decoder(NoteRecord, "the record of a note")
_decode_note_field: Callable[[bytes], _NoteField] = decoder(_NoteField, "an annotation")


def note_in(annotation: bytes) -> str | None:
    """The note of an annotation, if it has one that is text."""
    if b'"note"' not in annotation and b"\\u" not in annotation:  # a name may be written with escapes
        return None
    note = _decode_note_field(annotation).note
    return note if isinstance(note, str) and note else None


def put_annotation(
    tx: Transaction, name: str, value: bytes, *, before: bytes | None = None, place: TextPlace | None = None
) -> None:
    """Store an annotation, and its note. `before`: the annotation that it replaces. `place`: of its entry;
    None: it is looked up."""
    tx.put_record(STORE_WIDE, "annotation", name, value)
    text = note_in(value)
    place = place or (None if text is None else _place_of(tx, name))
    if text is not None and place is not None:
        record = NoteRecord(place.time, place.branch, text)
        tx.put_record(STORE_WIDE, "note", name, msgspec.json.encode(record))
    elif before is not None and note_in(before) is not None:
        tx.drop_record(STORE_WIDE, "note", name)


def drop_annotation(tx: Transaction, name: str) -> None:
    tx.drop_record(STORE_WIDE, "annotation", name)
    tx.drop_record(STORE_WIDE, "note", name)


def drop_annotations(tx: Transaction, tree: int, uid: str, last: int) -> None:
    """Remove the annotations of the entries of a branch behind a position."""
    first, end = note_name(uid, last + 1), f"{uid}/"
    for name, value in tx.scan_records(STORE_WIDE, "annotation", first, end):
        label = _label_of(value)
        if label is not None:
            unlabel(tx, tree, label, name)
        tx.drop_record(STORE_WIDE, "annotation", name)
    for name, _ in tx.scan_records(STORE_WIDE, "note", first, end):
        tx.drop_record(STORE_WIDE, "note", name)


def _label_of(value: bytes) -> str | None:
    """None: it has none, or cannot be read; it goes all the same."""
    try:
        return decode_note(value).get("label")
    except CorruptError:
        return None


def all_notes(reader: Reader) -> Iterator[Note]:
    """The notes of the store, as far as they can be read. Where they stand is what their records say: nothing
    is asked of the log."""
    first = ""
    while True:
        try:
            found = reader.scan_records(STORE_WIDE, "note", first, limit=_PAGE)
        except CorruptError:
            return  # what else there is can be searched
        for name, value in found:
            try:
                record = decode_note_record(value)
                uid, position = _split(name)
            except CorruptError:
                continue  # the others are found
            yield Note(TextPlace(record.time, record.branch, position), uid, record.text)
        if len(found) < _PAGE:
            return
        first = found[-1][0] + "\0"


def _place_of(reader: Reader, name: str) -> TextPlace | None:
    """None: the entry is not there."""
    uid, position = _split(name)
    branch = reader.find_branch(uid)
    row = None if branch is None else reader.get_entry(branch.branch, position)
    return None if branch is None or row is None else TextPlace(row.time, branch.branch, position)


def _split(name: str) -> tuple[str, int]:
    """The branch and the position of the entry whose annotation has this name."""
    uid, _, position = name.rpartition(".")
    return uid, number_in(position, f"the annotation {name!r}")
