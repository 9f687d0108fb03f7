"""What the index holds of a log, as lines: the log as it would be if nothing had ever been dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw

from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.log_row import LogRow
from clew.backends.jsonl.reader import JsonlReader, NoCare
from clew.backends.jsonl.recognizing import new_mark
from clew.backends.jsonl.replay import pack_place
from clew.backends.jsonl.statements import (
    BRANCHES_OF_LOG,
    HOMELESS_RECORDS,
    HOMELESS_SIDS,
    LAST_NUMBER,
    OBJECTS_OF_PACK,
    PACK_FILES,
    RECORDS_OF,
)
from clew.core.log import jsonl
from clew.core.log.rows import BranchRow, EntryRow

PAGE: Final = 200


def _reader(connection: apsw.Connection, layout: Layout) -> JsonlReader:
    return JsonlReader(connection, {}, layout, NoCare())


def lines_of_session(connection: apsw.Connection, layout: Layout, row: LogRow) -> Iterator[bytes]:
    """Session, branches with their entries, and what lies beside them."""
    reader = _reader(connection, layout)
    session = reader.get_session(row.sid)
    yield jsonl.encode(jsonl.LogLine(jsonl.FORMAT, row.sid, session.id if session else "", new_mark()))
    if session is not None:
        yield jsonl.encode(jsonl.SessionLine(session))
        yield jsonl.encode(jsonl.DetailsLine(row.sid, reader.get_details(row.sid)))
    yield from _branches(connection, reader, row.log)
    for kind, name, value in connection.execute(RECORDS_OF, (row.sid,)):
        yield jsonl.encode(jsonl.record_line(row.sid, kind, name, value))
    yield from _streams(reader, row.sid)


def lines_of_store(connection: apsw.Connection, layout: Layout, row: LogRow) -> Iterator[bytes]:
    """The numbers, what belongs to no session, and where the packs are."""
    reader = _reader(connection, layout)
    yield jsonl.encode(jsonl.LogLine(jsonl.FORMAT, mark=new_mark()))
    yield jsonl.encode(numbers_line(connection))
    yield from _branches(connection, reader, row.log)
    for sid, kind, name, value in connection.execute(HOMELESS_RECORDS):
        yield jsonl.encode(jsonl.record_line(sid, kind, name, value))
    for (sid,) in list(connection.execute(HOMELESS_SIDS)):
        yield from _streams(reader, sid)
    for pack, size, codec, recorded, content in list(connection.execute(PACK_FILES)):
        file, stored = pack_place(content)
        members = tuple(connection.execute(OBJECTS_OF_PACK, (pack,)))
        yield jsonl.encode(jsonl.PackLine(pack, file, codec, size, recorded, stored, members))


def numbers_line(connection: apsw.Connection) -> jsonl.NumbersLine:
    highest = [
        connection.execute(LAST_NUMBER, (table,)).get or 0 for table in ("sessions", "branches", "packs")
    ]
    return jsonl.NumbersLine(*highest)


def _branches(connection: apsw.Connection, reader: JsonlReader, log: int) -> Iterator[bytes]:
    for found in list(connection.execute(BRANCHES_OF_LOG, (log,))):
        branch = BranchRow(*found)
        yield jsonl.encode(jsonl.BranchLine(branch))
        for entry in _entries(connection, reader, branch):
            yield jsonl.encode(jsonl.entry_line(branch.branch, entry))


def _entries(connection: apsw.Connection, reader: JsonlReader, branch: BranchRow) -> Iterator[EntryRow]:
    """One by one: a body may be large."""
    after = (branch.branch << 32) - 1
    while True:
        keys = [key for (key,) in connection.execute(
            "SELECT key FROM entries WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
            (after, branch.branch << 32 | 0xFFFFFFFF, PAGE),
        )]  # fmt: skip
        if not keys:
            return
        for key in keys:
            # One that can not be read raises: its line was whole a moment ago, and must not be left out.
            entry = reader.get_entry(branch.branch, key & 0xFFFFFFFF)
            if entry is not None:
                yield entry
        after = keys[-1]


def _streams(reader: JsonlReader, sid: int) -> Iterator[bytes]:
    after = 0
    while rows := reader.read_events(sid, after, PAGE):
        for event in rows:
            yield jsonl.encode(jsonl.event_line(sid, event))
        after = rows[-1].number
    after = 0
    while calls := reader.read_usage(sid, after, PAGE):
        for call in calls:
            yield jsonl.encode(jsonl.UsageLine(sid, call))
        after = calls[-1].number
