"""A session as a file of its own, in the JSONL format: from any store, into any store.

The file holds all that the session needs: its branches, and those of others as far as it needs them.
Its numbers are its own (the session is 1, branches count from 1), so the file is the same from whatever
store it comes, and is itself a log that a JSONL store can open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core.check.scan import ChangedError
from clew.core.conversation.annotations import (
    NoteRecord,
    decode_label,
    label_names,
    note_in,
    note_key,
)
from clew.core.conversation.checkpoints import Record
from clew.core.conversation.history import decode_note, note_name, removed_name
from clew.core.conversation.moves import Move
from clew.core.disk import open_file
from clew.core.log import jsonl
from clew.core.log.keys import shareable_id
from clew.core.log.rows import BranchRow, Details, ForkOrigin, SessionRow, UsageRow
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.core.transfer.part import led_to, needed_branches
from clew.core.transfer.source import (
    BranchImage,
    Page,
    Records,
    SessionImage,
    Source,
    TreeImage,
    UnsoundError,
    Where,
    read_session,
)
from clew.core.transfer.untrusted.source import CheckedSource, Ids, check_line, where_of
from clew.core.transfer.write import Landing, prepare, transfer
from clew.core.work_folder import work_folder
from clew.errors import (
    CorruptEntryError,
    CorruptError,
    InvalidError,
    StoreBusyError,
)
from clew.files.records import find_record

if TYPE_CHECKING:
    from clew.core.engine.engine import Engine, EngineLike

SELF: Final = 1
"""The number of the session, and of its tree, in its file."""
TRIES: Final = 50
_FIRST_LINES: Final = 3
LONGEST: Final = 128 * 1024 * 1024
"""No line of a file has more bytes."""


class Excerpt(msgspec.Struct, frozen=True):
    """A session as it was at a moment, without entries, events and calls."""

    session: SessionImage
    branches: tuple[BranchImage, ...]
    """Each behind the one that it continues, else oldest first."""
    beside: tuple[tuple[RecordKind, str, bytes], ...]
    """What the store keeps of it."""


def export_lines(engine: EngineLike, sid: int) -> Iterator[bytes]:
    """The lines of a session's file, with their ends: as it was at some moment, in bounded memory."""
    excerpt = _excerpt(engine, sid)
    held: bytes | None = None
    for line in _lines(excerpt, Source(engine.read)):
        text = jsonl.encode(line)
        if held is not None:
            yield jsonl.finish(held, is_last=False)
        held = text
    if held is not None:
        yield jsonl.finish(held, is_last=True)


def _excerpt(engine: EngineLike, sid: int) -> Excerpt:
    for _ in range(TRIES):
        with engine.read() as reader:
            row = reader.get_session(sid)
            if row is None:
                raise InvalidError(f"there is no session {sid}")
            found = _read(reader, row)
            if reader.get_session(sid) == row:
                return found
    raise StoreBusyError(f"session {sid} never rests: it was written to all the time")


def _read(reader: Reader, row: SessionRow) -> Excerpt:
    branches = tuple(needed_branches(reader, row))
    image = read_session(reader, row, {branch.number: branch.uid for branch in branches})
    image = msgspec.structs.replace(image, records=led_to(image.records, branches))
    return Excerpt(image, branches, tuple(_beside(reader, row, image, branches)))


def _beside(
    reader: Reader, row: SessionRow, image: SessionImage, branches: tuple[BranchImage, ...]
) -> Iterator[tuple[RecordKind, str, bytes]]:
    """What the store keeps of a session: its aliases, and what came with its entries."""
    for alias in sorted(image.aliases):
        yield "alias", alias, str(SELF).encode()
    notes: dict[str, bytes] = {}
    for branch in sorted(branches, key=lambda branch: branch.uid):
        if branch.last >= 0:
            first, last = note_name(branch.uid, 0), note_name(branch.uid, branch.last)
            notes.update(reader.scan_records(STORE_WIDE, "annotation", first, last))
    for name in sorted(notes):
        yield "annotation", name, notes[name]
    labels = [decode_note(value).get("label") for value in notes.values()]
    for label in sorted({label for label in labels if isinstance(label, str)}):
        value = reader.get_record(STORE_WIDE, "label", f"{row.tree}:{label}")
        places = [place for place in decode_label(value or b"[]") if place in notes]
        yield "label", f"{SELF}:{label}", msgspec.json.encode(sorted(places))
    if reader.get_record(STORE_WIDE, "retention", removed_name(row.tree)) is not None:
        yield "retention", removed_name(SELF), b""


def _lines(excerpt: Excerpt, source: Source) -> Iterator[jsonl.AnyLine]:
    session = excerpt.session
    numbers = {branch.uid: number for number, branch in enumerate(excerpt.branches, 1)}
    local = {branch.number: numbers[branch.uid] for branch in excerpt.branches}
    yield jsonl.first_line(SELF, session.row.id)
    yield jsonl.SessionLine(_row(session, numbers))
    yield jsonl.DetailsLine(SELF, _details(session.details, numbers))
    came = [(name, value) for kind, name, value in excerpt.beside if kind == "annotation"]
    own = [(name, value) for (kind, name), value in session.records.items() if kind == "annotation"]
    notes: dict[str, list[tuple[str, str]]] = {}
    for sid, beside in ((STORE_WIDE, came), (SELF, own)):
        for name, value in beside:
            if (note := note_in(value)) is not None:
                notes.setdefault(name, []).append((note_key(sid, name), note))
    records: list[tuple[str, NoteRecord]] = []
    for branch in excerpt.branches:
        number, parent = numbers[branch.uid], numbers.get(branch.parent, 0)
        owner = SELF if branch.owner else 0
        yield jsonl.BranchLine(BranchRow(number, branch.uid, SELF, owner, parent, branch.fork))
        for page in source.entries(branch, branch.fork + 1):
            for entry in page.entries:
                yield jsonl.entry_line(number, entry)
                for key, note in notes.get(note_name(branch.uid, entry.position), ()):
                    records.append((key, NoteRecord(entry.time, number, note)))
    for (kind, name), value in sorted(session.records.items()):
        yield jsonl.record_line(SELF, kind, name, value)
    for name in sorted(label_names(own)):
        yield jsonl.record_line(SELF, "label", name, b"")
    for page in source.events(session, session.events[0] - 1):
        for event in page.events:
            yield jsonl.event_line(SELF, msgspec.structs.replace(event, id=shareable_id(event.id)))
    for page in source.calls(session, 0):
        for call in page.calls:
            yield jsonl.UsageLine(SELF, _call(call, local))
    for kind, name, value in excerpt.beside:
        yield jsonl.record_line(STORE_WIDE, kind, name, value)
    for name, record in sorted(records):
        yield jsonl.record_line(STORE_WIDE, "note", name, _encode(record))


def _row(session: SessionImage, numbers: dict[str, int]) -> SessionRow:
    head = msgspec.structs.replace(session.row.head, branch=numbers.get(session.head, 0))
    return msgspec.structs.replace(session.row, sid=SELF, tree=SELF, head=head, deleted=None)


def _details(details: Details, numbers: dict[str, int]) -> Details:
    origin = details.origin
    if origin is None:
        return details
    local = ForkOrigin(0, origin.session, numbers.get(origin.uid, 0), origin.uid, origin.position)
    return msgspec.structs.replace(details, origin=local)


def _call(call: UsageRow, local: dict[int, int]) -> UsageRow:
    number = local.get(call.branch, 0)
    position = call.position if number else -1
    return msgspec.structs.replace(call, id=shareable_id(call.id), branch=number, position=position)


class Damage(msgspec.Struct, frozen=True):
    """A line whose bytes are not what was written: it costs what it said."""

    line: int
    reason: str


class Imported(msgspec.Struct, frozen=True):
    """What became of a file, or would."""

    id: str
    """Of the session in the store."""
    state: Literal["new", "grown", "unchanged"]
    entries: int
    """Entries that the store lacked."""
    messages: int
    damage: tuple[Damage, ...]


def import_file(
    open_engine: Callable[[], Engine],
    path: str | os.PathLike[str],
    *,
    rename: bool = False,
    dry_run: bool = False,
) -> Imported:
    """Bring the session of a file into a store, which is opened when the file was found to hold one. The same
    file again changes nothing.

    Nothing in the file is believed. InvalidError: a line says what no store writes, or its hash is not that
    of its content and of what is before it; it is named, and nothing of the file is imported. A line whose
    checksum is wrong was damaged: it costs what it said.
    ConflictError: the store has another session of that id, or of that history; with `rename` the former
    gets a new id.
    """
    damage = tuple(_look_through(path))
    with _opened(path) as source:
        row = _checked(path, source, damage)
        engine = open_engine()
        source.target = engine
        state: Literal["new", "grown", "unchanged"] = "unchanged"
        entries = 0
        ready = prepare(source, engine, row.tree, rename=rename)
        if isinstance(ready, Landing):
            entries = ready.entries
            state = "new" if ready.is_new else "grown"
            if not dry_run:
                transfer(source, engine, row.tree, rename=rename, on_page=lambda *_: None)
        ids = {} if ready is None else ready.ids
    return Imported(ids.get(row.id, row.id), state, entries, row.head.messages, damage)


def created_in(path: str | os.PathLike[str]) -> int:
    """When the session of a file was created, as its first lines tell; 0: they do not. A base is older than
    its forks."""
    try:
        for _, raw in islice(_numbered(path), _FIRST_LINES):
            line = _read_line(raw)[1]
            if isinstance(line, jsonl.SessionLine):
                return line.row.created
    except (OSError, jsonl.BadLineError):
        pass  # it is told when the file is read
    return 0


class FileSource(CheckedSource):
    """The file of a session as a source. It holds no files of checkpoints."""

    target: EngineLike | None = None

    def image(self, tree: int) -> TreeImage:
        image = msgspec.structs.replace(super().image(tree), is_part=True)
        if self.target is None:
            return image
        with self.target.read() as reader:
            return without_files(reader, image)


def _look_through(path: str | os.PathLike[str]) -> Iterator[Damage]:
    """Every line by itself. A checksum that is right says that nothing was damaged: so what is wrong in such
    a line was written on purpose, and the file is refused."""
    is_end, ids, format = True, Ids(), jsonl.FORMAT
    for number, raw in _numbered(path):
        try:
            is_end, line = _read_line(raw, format)
            if isinstance(line, jsonl.LogLine):
                jsonl.refuse_format(os.fspath(path), line.format, line.clew)
                format = line.format
            if line is not None:
                check_line(line)
                ids.check(line)
        except jsonl.BadLineError as error:
            if isinstance(error, jsonl.WrongLineError):
                raise _refusal(path, number, str(error)) from error
            is_end = True
            yield Damage(number, str(error))
        except InvalidError as error:
            raise _refusal(path, number, str(error)) from error
    if not is_end:
        yield Damage(number, "the file ends inside of what was written at once")


def _read_line(raw: bytes | None, format: int = jsonl.FORMAT) -> tuple[bool, jsonl.AnyLine | None]:
    if raw is None:
        raise jsonl.BadLineError(f"it is longer than {LONGEST} bytes")
    is_end, text = jsonl.open_line(raw)
    try:
        check_value_count(text)
    except TooManyValuesError as error:
        raise jsonl.WrongLineError(f"it has {error}") from error
    return is_end, jsonl.decode(text, format)


def _numbered(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes | None]]:
    """Lines without what editors put around them, by number; None: it is too long to be one."""
    with open_file(path) as file:
        number = 0
        end = os.fstat(file.fileno()).st_size  # what is written meanwhile comes with the next import
        while file.tell() < end and (raw := file.readline(LONGEST + 2)):
            number += 1
            if len(raw) > LONGEST and not raw.endswith(b"\n"):
                while (raw := file.readline(1024 * 1024)) and not raw.endswith(b"\n"):
                    pass
                yield number, None
                continue
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            yield number, line.removeprefix(jsonl.BOM) if number == 1 else line


def _checked(path: str | os.PathLike[str], source: Source, damage: tuple[Damage, ...]) -> SessionRow:
    """The session of a file, all of which was looked at."""
    try:
        found = list(source.rows())
        if len(found) != 1:
            said = f"; line {damage[0].line}: {damage[0].reason}" if damage else ""
            raise InvalidError(f"{os.fspath(path)} holds no session that can be imported{said}")
        image = source.image(found[0].tree)
        for session in image.sessions:
            _read_all(source.events(session, 0))
            _read_all(source.calls(session, 0))
        for branch in image.branches:
            _read_all(source.entries(branch, branch.fork + 1))
    except UnsoundError as error:
        raise _refusal(path, _line_of(path, error.where), f"{error.what}: {error.reason}") from error
    except (ChangedError, CorruptEntryError) as error:
        said = f"line {damage[0].line}: {damage[0].reason}" if damage else str(error)
        raise InvalidError(
            f"{os.fspath(path)}: a part of its history is missing ({said}); nothing of it was imported"
        ) from error
    except CorruptError as error:
        raise _refusal(path, None, str(error)) from error
    return found[0]


def _read_all(pages: Iterator[Page]) -> None:
    for _ in pages:
        pass


def _line_of(path: str | os.PathLike[str], where: Where) -> int | None:
    """The last line that tells of a thing; None: no line does."""
    found = None
    for number, raw in _numbered(path):
        try:
            line = _read_line(raw)[1]
        except jsonl.BadLineError:
            continue
        if line is not None and where in where_of(line):
            found = number
    return found


def _refusal(path: str | os.PathLike[str], line: int | None, reason: str) -> InvalidError:
    place = os.fspath(path) if line is None else f"{os.fspath(path)}, line {line}"
    return InvalidError(f"{place}: {reason}; nothing of it was imported")


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[FileSource]:
    """A file as a store of its own, for as long as it is looked at."""
    from clew.backends.jsonl.backend import OneLogBackend

    with work_folder("import") as place, closing(OneLogBackend(place / "store", path)) as backend:
        yield FileSource(backend.read)


# -- a session that comes without its files


_encode = msgspec.json.Encoder().encode


def without_files(reader: Reader, image: TreeImage) -> TreeImage:
    """The tree with the names of those snapshots only that the target keeps for this very tree. Any other
    would lead nowhere, or to files of another session."""
    branches = (reader.find_branch(branch.uid) for branch in image.branches)
    tree = next((branch.tree for branch in branches if branch is not None), 0)

    def is_there(id: str) -> bool:
        kept = find_record(reader, id)
        return kept is not None and tree != 0 and kept.sessions == tree

    def bare(kind: RecordKind, value: bytes) -> bytes:
        if kind == "checkpoint":
            record = msgspec.json.decode(value, type=Record)
            if record.snapshot is not None and not is_there(record.snapshot):
                return _encode(msgspec.structs.replace(record, snapshot=None))
        elif kind == "move":
            move = msgspec.json.decode(value, type=Move)
            if move.files is not None and not (is_there(move.files.safety) and is_there(move.files.target)):
                return _encode(msgspec.structs.replace(move, files=None))
        return value

    def of_session(session: SessionImage) -> SessionImage:
        records: Records = {
            (kind, name): bare(kind, value) for (kind, name), value in session.records.items()
        }
        return msgspec.structs.replace(session, records=records)

    return msgspec.structs.replace(image, sessions=tuple(map(of_session, image.sessions)))
