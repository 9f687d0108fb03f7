"""A session as a file of its own, in the JSONL format: from any store, into any store.

The file holds all that the session needs: its branches, and those of others as far as it needs them.
Its numbers are its own (the session is 1, branches count from 1), so the file is the same from whatever
store it comes, and is itself a log that a JSONL store can open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, RecordKind
from clew.core import lines
from clew.core.rows import BranchRow, Details, ForkOrigin, SessionRow, UsageRow
from clew.errors import InvalidError, StoreBusyError
from clew.work.checking_records import points_of
from clew.work.history import note_name, removed_name
from clew.work.image import BranchImage, SessionImage, read_session
from clew.work.lineage import check_branches
from clew.work.source import Source
from clew.work.transfer import Landing, prepare, transfer

if TYPE_CHECKING:
    from clew.engine import Engine

SELF: Final = 1
"""The number of the session, and of its tree, in its file."""
TRIES: Final = 50


class Excerpt(msgspec.Struct, frozen=True):
    """A session as it was at a moment, without entries, events and calls."""

    session: SessionImage
    branches: tuple[BranchImage, ...]
    """Each behind the one that it continues, else oldest first."""
    beside: tuple[tuple[RecordKind, str, bytes], ...]
    """What the store keeps of it."""


def export_lines(engine: Engine, sid: int) -> Iterator[bytes]:
    """The lines of a session's file, with their ends: as it was at some moment, in bounded memory."""
    excerpt = _excerpt(engine, sid)
    held: bytes | None = None
    for line in _lines(excerpt, Source(engine.read)):
        text = lines.encode(line)
        if held is not None:
            yield lines.finish(held, is_last=False)
        held = text
    if held is not None:
        yield lines.finish(held, is_last=True)


def _excerpt(engine: Engine, sid: int) -> Excerpt:
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
    branches = tuple(_needed(reader, row))
    image = read_session(reader, row, {branch.number: branch.uid for branch in branches})
    return Excerpt(image, branches, tuple(_beside(reader, row, image, branches)))


def _needed(reader: Reader, row: SessionRow) -> Iterator[BranchImage]:
    """Its own branches whole, and those of others as far as it continues them or may come back to them.
    CorruptError: one of them leads to no beginning."""
    stored = reader.tree_branches(row.tree)
    rows = {branch.branch: branch for branch in stored}
    ends: dict[int, int] = {
        number: reader.last_position(number) for number, branch in rows.items() if branch.owner == row.sid
    }
    if row.grows:
        ends[row.head.branch] = row.head.position
    numbers = {branch.uid: number for number, branch in rows.items()}
    places = [(numbers.get(point.branch, 0), point.position) for point in points_of(reader, row.sid)]
    for number, position in ((row.head.branch, row.head.position), *places):
        if number in rows and rows[number].owner != row.sid:
            ends[number] = max(ends.get(number, -1), position)
    ordered = check_branches(reader, stored, ends)
    for branch in reversed(ordered):
        if branch.branch in ends and branch.parent and rows[branch.parent].owner != row.sid:
            ends[branch.parent] = max(ends.get(branch.parent, -1), branch.fork)
    for branch in ordered:
        if branch.branch in ends:
            parent = rows[branch.parent].uid if branch.parent else ""
            owner = row.sid if branch.owner == row.sid else 0
            last = ends[branch.branch]
            yield BranchImage(branch.branch, branch.uid, owner, parent, branch.fork, last, b"", 0)


def _beside(
    reader: Reader, row: SessionRow, image: SessionImage, branches: tuple[BranchImage, ...]
) -> Iterator[tuple[RecordKind, str, bytes]]:
    """What the store keeps of a session: its aliases, and notes and labels of its entries."""
    for alias in sorted(image.aliases):
        yield "alias", alias, str(SELF).encode()
    notes: dict[str, bytes] = {}
    for branch in sorted(branches, key=lambda branch: branch.uid):
        if branch.last >= 0:
            first, last = note_name(branch.uid, 0), note_name(branch.uid, branch.last)
            notes.update(reader.scan_records(STORE_WIDE, "annotation", first, last))
    for name in sorted(notes):
        yield "annotation", name, notes[name]
    labels = {msgspec.json.decode(value).get("label") for value in notes.values()}
    for label in sorted(label for label in labels if isinstance(label, str)):
        value = reader.get_record(STORE_WIDE, "label", f"{row.tree}:{label}")
        places = [place for place in msgspec.json.decode(value or b"[]", type=list[str]) if place in notes]
        yield "label", f"{SELF}:{label}", msgspec.json.encode(sorted(places))
    if reader.get_record(STORE_WIDE, "retention", removed_name(row.tree)) is not None:
        yield "retention", removed_name(SELF), b""


def _lines(excerpt: Excerpt, source: Source) -> Iterator[lines.AnyLine]:
    session = excerpt.session
    numbers = {branch.uid: number for number, branch in enumerate(excerpt.branches, 1)}
    local = {branch.number: numbers[branch.uid] for branch in excerpt.branches}
    yield lines.LogLine(lines.FORMAT, SELF, session.row.id)
    yield lines.SessionLine(_row(session, numbers))
    yield lines.DetailsLine(SELF, _details(session.details, numbers))
    for branch in excerpt.branches:
        number, parent = numbers[branch.uid], numbers.get(branch.parent, 0)
        owner = SELF if branch.owner else 0
        yield lines.BranchLine(BranchRow(number, branch.uid, SELF, owner, parent, branch.fork))
        for page in source.entries(branch, branch.fork + 1):
            for entry in page.entries:
                yield lines.entry_line(number, entry)
    for (kind, name), value in sorted(session.records.items()):
        yield lines.record_line(SELF, kind, name, value)
    for page in source.events(session, session.events[0] - 1):
        for event in page.events:
            yield lines.event_line(SELF, event)
    for page in source.calls(session, 0):
        for call in page.calls:
            yield lines.UsageLine(SELF, _call(call, local))
    for kind, name, value in excerpt.beside:
        yield lines.record_line(STORE_WIDE, kind, name, value)


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
    return msgspec.structs.replace(call, branch=number, position=call.position if number else -1)


class Imported(msgspec.Struct, frozen=True):
    """What became of a file, or would."""

    id: str
    """Of the session in the store."""
    state: Literal["new", "grown", "unchanged"]
    messages: int


def import_file(
    open_engine: Callable[[], Engine],
    path: str | os.PathLike[str],
    *,
    rename: bool = False,
    dry_run: bool = False,
) -> Imported:
    """Bring the session of a file into a store, which is opened when the file was found to hold one. The same
    file again changes nothing.

    ConflictError: the store has another session of that id, or of that history; with `rename` the former
    gets a new id.
    """
    with _opened(path) as source:
        found = list(source.rows())
        if len(found) != 1:
            raise InvalidError(f"{os.fspath(path)} holds no session that can be imported")
        (row,) = found
        engine = open_engine()
        ready = prepare(source, engine, row.tree, rename=rename)
        state: Literal["new", "grown", "unchanged"] = "unchanged"
        if isinstance(ready, Landing):
            state = "new" if ready.is_new else "grown"
            if not dry_run:
                transfer(source, engine, row.tree, rename=rename, on_page=lambda *_: None)
        ids = {} if ready is None else ready.ids
    return Imported(ids.get(row.id, row.id), state, row.head.messages)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """A file as a store of its own, for as long as it is looked at."""
    import shutil
    import tempfile

    from clew.backends.jsonl import JsonlBackend
    from clew.backends.jsonl.layout import Layout

    place = Path(tempfile.mkdtemp(prefix="clew-import-"))
    try:
        layout = Layout(place / "store")
        layout.prepare()
        (layout.sessions / "session.jsonl").symlink_to(os.path.realpath(path))
        with closing(JsonlBackend(layout.root, read_only=True)) as backend:
            yield Source(backend.read)
    finally:
        shutil.rmtree(place)
