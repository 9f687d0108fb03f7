"""What stands beside an entry: a summary, a label, a note. Never in the message.

What came with an entry from another program is part of the entry: it is kept once, whatever sessions share
it. What a session notes is its own: the whole annotation, in a record of the session, which stands for what
came with the entry. A fork begins with copies of those of its base.

    sid 0   annotation  UID.POSITION        came with the entry; or was noted by a version of Clew before
    sid s   annotation  UID.POSITION        what session s noted; `{}`: it took away what came with the entry
    sid s   label       LABEL:UID.POSITION  an entry that session s gave this label
    sid 0   note        UID.POSITION        the note that came with the entry
    sid 0   note        s@UID.POSITION      the note of session s at the entry

A search looks at all notes, and not at annotations: importers put one beside most entries, and some of these
are large. So a note, the text in the field `note`, is kept a second time, in a record of its own that also
says where its entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.checkpoints import on_path
from clew.core.conversation.history import decode_note, entry_of, note_name
from clew.core.conversation.points import Point, resolve
from clew.core.log.ids import check_id
from clew.core.log.records import Count, Time, decoder, number_in
from clew.core.log.rows import HeadRow, SessionRow
from clew.core.messages.codec import decode_json, encode_json
from clew.core.messages.search_text import TextPlace
from clew.core.runs.access import Access, require_write_beside
from clew.errors import CheckpointNotFoundError, CorruptError, EntryNotFoundError
from clew.model import Entry, Head, Json

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

_decode_fields: Callable[[bytes], dict[str, msgspec.Raw]]
_decode_fields = decoder(dict[str, msgspec.Raw], "an annotation")
decode_label: Callable[[bytes], list[str]] = decoder(list[str], "the record of a label")


class Fields(msgspec.Struct, frozen=True):
    """What an annotation is to have, checked and encoded before any lock is taken."""

    encoded: dict[str, msgspec.Raw]
    removed: tuple[str, ...]


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
    )


def annotate(tx: Transaction, access: Access, point: Point, fields: Fields) -> Entry:
    """Set the fields of an entry's annotation, for this session."""
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
    own, came = (tx.get_record(sid, "annotation", name) for sid in (row.sid, STORE_WIDE))
    before = came if own is None else own
    kept = {} if before is None else _decode_fields(before)
    after = {field: raw for field, raw in {**kept, **fields.encoded}.items() if field not in fields.removed}
    encoded = msgspec.json.encode(after)
    if encoded != (came or b"{}"):
        place = TextPlace(entry.time, branch, position)
        put_annotation(tx, row.sid, name, encoded, before=own, place=place)
    elif own is not None:
        drop_annotation(tx, row.sid, name, own)
    return entry_of(uid, entry, {position: decode_json(encoded)})


def own_annotations(reader: Reader, sid: int) -> list[tuple[Head, bytes]]:
    """What a session noted, and at which entries; without what cannot be read."""
    found = []
    for name, value in reader.scan_records(sid, "annotation"):
        try:
            found.append((place_named(name), value))
        except CorruptError:
            continue
    return found


def copy_annotations(tx: Transaction, base: int, fork: int, tip: HeadRow) -> None:
    """Give a fork what its base noted at the entries on the path to where it begins. A damaged annotation
    costs itself, not the fork."""
    found = own_annotations(tx, base)
    if not found:
        return
    lies_there = on_path(tx, tip)
    for head, value in found:
        if not lies_there(head):
            continue
        name = note_name(head.branch, head.position)
        try:
            decode_note(value)
        except CorruptError:
            continue
        tx.put_record(fork, "annotation", name, value)
        for label in label_names([(name, value)]):
            tx.put_record(fork, "label", label, b"")
        note = tx.get_record(STORE_WIDE, "note", note_key(base, name))
        if note is not None:
            tx.put_record(STORE_WIDE, "note", note_key(fork, name), note)


# -- labels

_LAST: Final = "\U0010ffff"
"""Behind whatever else follows a prefix: the names of entries are ASCII."""


def labelled(reader: Reader, row: SessionRow, label: str) -> list[tuple[int, int]]:
    """(branch, position) of the entries that bear a label in a session."""
    prefix = f"{label}:"
    found = reader.scan_records(row.sid, "label", prefix, prefix + _LAST)
    own = (name.removeprefix(prefix) for name, _ in found)
    value = reader.get_record(STORE_WIDE, "label", f"{row.tree}:{label}")
    old = decode_label(value) if value else []
    names = [
        *(name for name in own if ":" not in name),  # else it is a longer label that begins alike
        *(name for name in old if reader.get_record(row.sid, "annotation", name) is None),
    ]
    places = []
    for name in names:
        uid, position = _split(name)
        branch = reader.find_branch(uid)
        if branch is not None:
            places.append((branch.branch, position))
    return places


def label_in(annotation: bytes) -> str | None:
    """The label of an annotation, if it has one."""
    if b'"label"' not in annotation and b"\\u" not in annotation:  # a name may be written with escapes
        return None
    label = decode_note(annotation).get("label")
    return label if isinstance(label, str) else None


def label_names(annotations: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """The names of the records of kind `label` that go with annotations of a session."""
    for name, value in annotations:
        label = label_in(value)
        if label is not None:
            yield _label_name(label, name)


def labelled_place(name: str) -> tuple[str, str]:
    """The label, and the name of the annotation, that a record of kind `label` of a session stands for."""
    label, _, place = name.rpartition(":")
    return label, place


def _label_name(label: str, name: str) -> str:
    return f"{label}:{name}"


# -- notes

_PAGE: Final = 1000


class NoteRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The value of a record of kind `note`. Its name says at which entry, and in which session."""

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
    sid: int
    """Of the session that noted it; STORE_WIDE: it came with the entry."""

    @property
    def name(self) -> str:
        """Of the annotation."""
        return note_name(self.uid, self.place.position)


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


def note_key(sid: int, name: str) -> str:
    """The name of the record of kind `note` that goes with an annotation of a session, or with what came."""
    return name if sid == STORE_WIDE else f"{sid}@{name}"


def noted_by(key: str) -> tuple[int, str]:
    """The session, and the name of the annotation, of which a record of kind `note` has the note."""
    sid, is_own, name = key.rpartition("@")
    return number_in(sid, f"the note {key!r}") if is_own else STORE_WIDE, name


def put_annotation(
    tx: Transaction,
    sid: int,
    name: str,
    value: bytes,
    *,
    before: bytes | None = None,
    place: TextPlace | None = None,
) -> None:
    """Store an annotation of a session, or STORE_WIDE one that came with its entry, with its note and label.
    `before`: the annotation that it replaces. `place`: of its entry; None: it is looked up."""
    tx.put_record(sid, "annotation", name, value)
    text = note_in(value)
    place = place or (None if text is None else _place_of(tx, name))
    if text is not None and place is not None:
        record = NoteRecord(place.time, place.branch, text)
        tx.put_record(STORE_WIDE, "note", note_key(sid, name), msgspec.json.encode(record))
    elif before is not None and note_in(before) is not None:
        tx.drop_record(STORE_WIDE, "note", note_key(sid, name))
    if sid != STORE_WIDE:
        _relabel(tx, sid, name, None if before is None else _label_of(before), label_in(value))


def drop_annotation(tx: Transaction, sid: int, name: str, value: bytes) -> None:
    """`value`: of the annotation."""
    tx.drop_record(sid, "annotation", name)
    tx.drop_record(STORE_WIDE, "note", note_key(sid, name))
    if sid != STORE_WIDE:
        _relabel(tx, sid, name, _label_of(value), None)


def _relabel(tx: Transaction, sid: int, name: str, had: str | None, has: str | None) -> None:
    if had == has:
        return
    if had is not None:
        tx.drop_record(sid, "label", _label_name(had, name))
    if has is not None:
        tx.put_record(sid, "label", _label_name(has, name), b"")


def drop_notes(tx: Transaction, sid: int) -> None:
    """Remove what a search finds of a session's annotations; these go with the session."""
    for key, _ in tx.scan_records(STORE_WIDE, "note", f"{sid}@", f"{sid}@{_LAST}"):
        tx.drop_record(STORE_WIDE, "note", key)


def drop_annotations(tx: Transaction, tree: int, uid: str, last: int) -> None:
    """Remove what came with the entries of a branch behind a position."""
    first, end = note_name(uid, last + 1), f"{uid}/"
    for name, value in tx.scan_records(STORE_WIDE, "annotation", first, end):
        label = _label_of(value)
        if label is not None:
            unlabel(tx, tree, label, name)
        drop_annotation(tx, STORE_WIDE, name, value)
    for name, _ in tx.scan_records(STORE_WIDE, "note", first, end):
        tx.drop_record(STORE_WIDE, "note", name)


def unlabel(tx: Transaction, tree: int, label: str, name: str) -> None:
    """Take a label from an entry that a version of Clew before gave it."""
    key = f"{tree}:{label}"
    value = tx.get_record(STORE_WIDE, "label", key)
    others = [other for other in (decode_label(value) if value else []) if other != name]
    if others:
        tx.put_record(STORE_WIDE, "label", key, msgspec.json.encode(others))
    else:
        tx.drop_record(STORE_WIDE, "label", key)


def _label_of(value: bytes) -> str | None:
    """None: it has none, or cannot be read; it goes all the same."""
    try:
        return label_in(value)
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
        for key, value in found:
            try:
                record = decode_note_record(value)
                sid, name = noted_by(key)
                uid, position = _split(name)
            except CorruptError:
                continue  # the others are found
            yield Note(TextPlace(record.time, record.branch, position), uid, record.text, sid)
        if len(found) < _PAGE:
            return
        first = found[-1][0] + "\0"


def _place_of(reader: Reader, name: str) -> TextPlace | None:
    """None: the entry is not there."""
    uid, position = _split(name)
    branch = reader.find_branch(uid)
    row = None if branch is None else reader.get_entry(branch.branch, position)
    return None if branch is None or row is None else TextPlace(row.time, branch.branch, position)


def place_named(name: str) -> Head:
    """The entry beside which the annotation of this name stands. CorruptError: it is none."""
    return Head(*_split(name))


def _split(name: str) -> tuple[str, int]:
    """The branch and the position of the entry whose annotation has this name."""
    uid, _, position = name.rpartition(".")
    return uid, number_in(position, f"the annotation {name!r}")
