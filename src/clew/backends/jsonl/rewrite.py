"""A scrub: logs are rewritten, without what was dropped.

Each is read again, written from the index, beside itself, and then replaced. What this version does not know
of, and what it cannot read, is carried over byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import apsw

from clew.backends.jsonl import disk, log_file
from clew.backends.jsonl.disk import File
from clew.backends.jsonl.journal import Journal
from clew.backends.jsonl.layout import STORE_LOG, Layout, pack_file, shortened
from clew.backends.jsonl.log_file import LogRow, UnreadableLogError, new_mark, pack_place, reading
from clew.backends.jsonl.reader import JsonlReader, NoCare
from clew.backends.jsonl.recover import catch_up_log, forget, read_anew, settle
from clew.backends.jsonl.sql import (
    BRANCHES_OF_LOG,
    CLEAN_LOG,
    DAMAGE_OF_LOG,
    DIRTY_LOGS,
    DROP_LOG,
    DUE_OF,
    HOMELESS_RECORDS,
    HOMELESS_SIDS,
    KEYS,
    LAST_NUMBER,
    LOOSEN,
    OBJECTS_OF_PACK,
    PACK_FILES,
    RECORDS_OF,
    RESET_LOG,
    TIGHTEN,
)
from clew.backends.sqlite.sql import (
    BEGIN_WRITING,
    COMMIT,
    GET_SESSION,
    ROLLBACK,
    SET_DUE,
)
from clew.core.log import jsonl
from clew.core.log.rows import BranchRow, EntryRow
from clew.errors import CorruptEntryError, CorruptError

# -- what the index holds of a log, as lines: as if nothing had ever been dropped

PAGE: Final = 200


def _reader(connection: apsw.Connection, layout: Layout) -> JsonlReader:
    return JsonlReader(connection, {}, layout, NoCare())


def lines_of_session(connection: apsw.Connection, layout: Layout, row: LogRow) -> Iterator[bytes]:
    """Session, branches with their entries, and what lies beside them."""
    reader = _reader(connection, layout)
    session = reader.get_session(row.sid)
    yield jsonl.encode(jsonl.first_line(row.sid, session.id if session else "", new_mark()))
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
    yield jsonl.encode(jsonl.first_line(mark=new_mark()))
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
            KEYS,
            (after, branch.branch << 32 | 0xFFFFFFFF, PAGE),
        )]  # fmt: skip
        if not keys:
            return
        for key in keys:
            # One that cannot be read raises: its line was whole a moment ago, and must not be left out.
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


# -- rewriting

BUFFER: Final = 1 << 20


def rewrite_dirty_logs(connection: apsw.Connection, layout: Layout, journal: Journal) -> list[str]:
    """Leave no byte of what was dropped in any file but the index. Needs the store's lock.

    Gives what is wrong with the logs that could not be rewritten because they cannot be read; these are
    as they were.
    """
    journal.empty(for_good=True)
    dirty = [LogRow(*row) for row in connection.execute(DIRTY_LOGS)]
    if dirty and all(row.name != STORE_LOG for row in dirty):
        _remember_numbers(connection, layout)
    failed = []
    # The store's own log first: it keeps the highest numbers when their owners are gone.
    for row in sorted(dirty, key=lambda row: row.name != STORE_LOG):
        try:
            _rewrite(connection, layout, row)
        except (UnreadableLogError, CorruptEntryError, NewDamageError) as exc:
            if row.name == STORE_LOG:  # it is changed before any other: by that others are known to be new
                raise
            failed.append(str(exc))
    _remove_strays(layout)
    return failed


class NewDamageError(CorruptError):
    """A line of a log was damaged since the index read it. What it said is nowhere else than there: the log
    is left as it is, until it is repaired."""


def _rewrite(connection: apsw.Connection, layout: Layout, row: LogRow) -> None:
    file = layout.file(row.name)
    beside = file.beside(f"{shortened(file.name)}.{os.urandom(8).hex()}.new")
    connection.execute(BEGIN_WRITING)
    try:
        connection.execute(LOOSEN)
        due = connection.execute(DUE_OF, (row.sid,)).fetchone()  # that is in no log
        # An index may be older than its log, or damaged. What is written now takes the place of the truth:
        # so it comes from there.
        known = set(connection.execute(DAMAGE_OF_LOG, (row.log,)))
        row = read_anew(connection, layout, row)
        settle(connection)
        is_alive = row.name == STORE_LOG or connection.execute(GET_SESSION, (row.sid,)).fetchone() is not None
        for line, reason in connection.execute(DAMAGE_OF_LOG, (row.log,)).fetchall() if is_alive else ():
            if (line, reason) not in known:
                raise NewDamageError(f"line {line} of {file} is damaged: {reason}; repair the store")
        count = _write_anew(connection, layout, row, beside, is_alive=is_alive)
        forget(connection, row)
        if count:
            disk.replace(beside, file)
            disk.sync_directory(file.directory)
            connection.execute(RESET_LOG, (row.log, 0))
            catch_up_log(connection, layout, row.name, repair=False)
            connection.execute(CLEAN_LOG, (row.log,))
        else:
            disk.remove(beside)
            disk.remove(file)
            disk.sync_directory(file.directory)
            connection.execute(DROP_LOG, (row.log,))
        if due is not None:
            connection.execute(SET_DUE, (*due, row.sid))
        connection.execute(TIGHTEN)
        connection.execute(COMMIT)
    except BaseException:
        with suppress(OSError):
            disk.remove(beside)
        if connection.in_transaction:
            connection.execute(ROLLBACK)
        raise


def _write_anew(
    connection: apsw.Connection, layout: Layout, row: LogRow, beside: File, *, is_alive: bool
) -> int:
    """Write what the index says of a log into a file beside it; how many lines that are."""
    content = lines_of_store if row.name == STORE_LOG else lines_of_session
    # A session that is gone takes what cannot be read of it with it: it is not known what it was.
    foreign = _foreign_lines(layout, row.name) if is_alive else iter(())
    return _write_lines(beside, content(connection, layout, row), foreign)


def _write_lines(file: File, content: Iterator[bytes], foreign: Iterator[bytes]) -> int:
    """Write texts as one batch, with whole lines of others before its last; how many beside the first."""
    handle = disk.create(file)
    try:
        count = 0
        out = _Buffered(handle)
        held = next(content)
        for text in content:
            out.write(jsonl.finish(held, is_last=False))
            held = text
            count += 1
        for line in foreign:
            out.write(line)
            count += 1
        out.write(jsonl.finish(held, is_last=True))
        out.flush()
        disk.sync(handle)
    finally:
        disk.close(handle)
    return count


class _Buffered:
    """Few large writes instead of many small ones."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > BUFFER:
            self.flush()

    def flush(self) -> None:
        disk.write(self._handle, b"".join(self._parts))
        self._parts, self._size = [], 0


def _foreign_lines(layout: Layout, name: str) -> Iterator[bytes]:
    """Lines of kinds that are not known here, those that cannot be read, and what an exported session
    says for the store."""
    with reading(name):
        handle = disk.open_for_reading(layout.file(name))
    try:
        for offset, raw, end, _ in _scanned(handle, name):
            try:
                _, text = jsonl.open_line(log_file.cleaned(offset, raw))
                line = jsonl.decode(text)
                if line is None or (
                    name != STORE_LOG and isinstance(line, jsonl.RecordLine) and not line.sid
                ):
                    yield jsonl.finish(text, is_last=False)
            except jsonl.BadLineError:
                for at in range(offset, end - 1, log_file.CHUNK):
                    with reading(name):
                        piece = disk.read_at(handle, min(log_file.CHUNK, end - 1 - at), at)
                    yield piece
                yield b"\n"
    finally:
        disk.close(handle)


def _scanned(handle: int, name: str) -> Iterator[tuple[int, bytes, int, bool]]:
    """The lines of a log; its errors are about that, and not about what is done with a line."""
    found = log_file.read_lines(handle)
    while True:
        with reading(name):
            line = next(found, None)
        if line is None:
            return
        yield line


def _remember_numbers(connection: apsw.Connection, layout: Layout) -> None:
    """Before a log goes: the numbers in it are never used again. And the store's log is another one than
    before the scrub, whatever the index will know of it after a crash."""

    file = layout.file(STORE_LOG)
    text = jsonl.encode(numbers_line(connection))
    is_new = not disk.exists(file)
    handle = disk.open_for_appending(file)
    try:
        if is_new:
            first = jsonl.first_line(mark=new_mark())
            disk.write(handle, jsonl.finish(jsonl.encode(first), is_last=False))
        disk.write(handle, jsonl.finish(text, is_last=True))
        disk.sync(handle)
    finally:
        disk.close(handle)
    connection.execute(BEGIN_WRITING)
    try:
        catch_up_log(connection, layout, STORE_LOG, repair=False)
        connection.execute(COMMIT)
    except BaseException:
        if connection.in_transaction:
            connection.execute(ROLLBACK)
        raise


def _remove_strays(layout: Layout) -> None:
    """Files that nothing names, and what was set aside: it may hold anything."""
    named = _packs_named(layout)
    if named is not None:
        for name in disk.names(layout.packs):
            if name not in named:
                disk.remove(layout.packs.file(name))
    for name in disk.names(layout.quarantine):
        disk.remove(layout.quarantine.file(name))
    for directory in (layout.top, layout.sessions):
        for name in disk.names(directory):
            if name.endswith(".new") or (directory is layout.top and name.startswith("index.db.corrupt-")):
                disk.remove(directory.file(name))


def _packs_named(layout: Layout) -> set[str] | None:
    """The files of the packs that the store's log names; None: not all of that can be read."""
    named: dict[int, str] = {}
    try:
        with reading(STORE_LOG):
            handle = disk.open_for_reading(layout.file(STORE_LOG))
    except UnreadableLogError as exc:
        return set() if isinstance(exc.reason, FileNotFoundError) else None
    try:
        for offset, raw, _, _ in _scanned(handle, STORE_LOG):
            line = jsonl.decode(jsonl.open_line(log_file.cleaned(offset, raw))[1])
            if isinstance(line, jsonl.PackLine):
                named[line.pack] = pack_file(line.pack, line.checksum)
            elif isinstance(line, jsonl.PackGoneLine):
                named.pop(line.pack, None)
    except (jsonl.BadLineError, UnreadableLogError):
        return None
    finally:
        disk.close(handle)
    return set(named.values())
