"""The index follows the logs: what they have and it has not is put into it."""

from __future__ import annotations

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.directory import NotOursError
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_row import LogRow
from clew.backends.jsonl.mending import mend_heads
from clew.backends.jsonl.quarantine import set_tail_aside, tell
from clew.backends.jsonl.reading_logs import read_log
from clew.backends.jsonl.recognizing import (
    UnreadableLogError,
    changed,
    is_marked_alike,
    is_same,
    reading,
)
from clew.backends.jsonl.replay import TwinError
from clew.backends.jsonl.statements import (
    ADD_DAMAGE,
    ADD_LOG,
    ALL_LOGS,
    DAMAGE_OF_LOG,
    DROP_DAMAGE,
    DROP_HOMELESS,
    DROP_LOG,
    DROP_PLACE,
    DROP_UNREADABLE,
    LOG_BY_NAME,
    LOOSEN,
    PLACES_OF_LOG,
    RENAME,
    RESET_LOG,
    SET_LOG,
    SKIP_NUMBERS,
    START_NUMBER,
    TIGHTEN,
    TWINS,
    UNREADABLE,
)
from clew.backends.jsonl.unfinding import forget_texts
from clew.backends.sqlite.statements import DROP_BRANCH, DROP_ENTRIES, DROP_SESSION, REEXAMINE
from clew.backends.sqlite.statements_search import DROP_SEARCHED
from clew.core.log import jsonl
from clew.errors import ReadOnlyError

SHORTEST_BRANCH = 128
"""The line of a branch is longer."""


def catch_up(connection: apsw.Connection, layout: Layout, *, repair: bool) -> bool:
    """Bring the index to where all logs are; whether there was anything to do.

    With `repair`, which needs the store's lock, what is torn is set aside. A log that can not be read costs
    what it holds: the index keeps what it knows of it, and all others are read.
    """
    known = {row[1]: LogRow(*row) for row in connection.execute(ALL_LOGS)}
    unread = {log for (log,) in connection.execute(UNREADABLE)}
    names = layout.log_names()
    other = changed(layout, known)
    behind = [name for name in names if name in other or known[name].log in unread]
    gone = [known[name] for name in known.keys() - names]
    if not behind and not gone:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(LOOSEN)
        for row in gone:
            forget(connection, row)
            connection.execute(DROP_LOG, (row.log,))
        failed = [name for name in behind if not _begin(connection, layout, name)]
        for name in behind:
            if name not in failed and not _catch_up_or_note(connection, layout, name, repair=repair):
                failed.append(name)
        _give_way(connection, layout, failed, unread, repair=repair)
        settle(connection)
        connection.execute(REEXAMINE)  # when a session is due is not in the logs
        connection.execute(TIGHTEN)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def is_behind(connection: apsw.Connection, layout: Layout) -> bool:
    """Whether a log has what the index has not."""
    known = {row[1]: LogRow(*row) for row in connection.execute(ALL_LOGS)}
    return set(layout.log_names()) != set(known) or bool(changed(layout, known))


def settle(connection: apsw.Connection) -> None:
    """When logs were read: sessions stand on something, and have names of their own."""
    mend_heads(connection)
    # Two sessions of one id can only come from outside: the younger one gets another name.
    for sid, id in list(connection.execute(TWINS)):
        connection.execute(RENAME, (f"{id}~{sid}", sid))


def _begin(connection: apsw.Connection, layout: Layout, name: str) -> bool:
    """Forget a log that changed, of all first: files may have changed places. False: it can not be read."""
    row = _log_row(connection, name)
    try:
        forget_if_changed(connection, layout, row)
    except UnreadableLogError as exc:
        _note_unreadable(connection, layout, row, exc)
        return False
    return True


def _catch_up_or_note(connection: apsw.Connection, layout: Layout, name: str, *, repair: bool) -> bool:
    """False: it can not be read, or not to its end. Of such a log nothing is taken."""
    connection.execute("SAVEPOINT log")
    try:
        catch_up_log(connection, layout, name, repair=repair)
    except UnreadableLogError as exc:
        connection.execute("ROLLBACK TO log")
        _note_unreadable(connection, layout, _log_row(connection, name), exc)
        return False
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE log")
    return True


def _note_unreadable(
    connection: apsw.Connection, layout: Layout, row: LogRow, error: UnreadableLogError
) -> None:
    connection.execute(ADD_DAMAGE, (row.log, 0, str(error.reason)))
    tell("%s can not be read: %s", layout.path(row.name), error.reason)


def _give_way(
    connection: apsw.Connection, layout: Layout, failed: list[str], before: set[int], *, repair: bool
) -> None:
    """Logs that can not be read may hold numbers that nobody knows of: leave these free, so that all can be
    used when they are read again. A log holds one session, and no more branches than lines that name one."""
    for row in [_log_row(connection, name) for name in failed]:
        file = layout.file(row.name)
        if row.name == STORE_LOG and repair:
            raise ReadOnlyError(f"{file} can not be read: without it nothing can be written")
        if row.log not in before:
            branches = disk.length(file) // SHORTEST_BRANCH + 1
            for table, count in (("sessions", 1), ("branches", branches)):
                connection.execute(START_NUMBER, (table,))
                connection.execute(SKIP_NUMBERS, (table, count))


def forget_if_changed(connection: apsw.Connection, layout: Layout, row: LogRow) -> LogRow:
    """Begin anew with a log that is not the one that was read: shorter, or another file.

    Raises:
        UnreadableLogError: it is not known whether it is, and nothing was forgotten.
    """
    if not row.applied:
        return row
    with reading(row.name):
        handle = disk.open_for_reading(layout.file(row.name))
        try:
            if is_same(handle, row):
                return row
            # A file that was put in the place of another, or a copy, owes nothing to what that one held.
            safe = row.safe if disk.inode(handle) == row.inode and is_marked_alike(handle, row) else 0
        finally:
            disk.close(handle)
    return _forgotten(connection, row, safe)


def read_anew(connection: apsw.Connection, layout: Layout, row: LogRow) -> LogRow:
    """Let the index say of a log what that says, whatever it said before; inside a transaction of it."""
    _forgotten(connection, row, row.safe)
    return catch_up_log(connection, layout, row.name, repair=False)


def _forgotten(connection: apsw.Connection, row: LogRow, safe: int) -> LogRow:
    forget(connection, row)
    connection.execute(RESET_LOG, (row.log, safe))
    return LogRow(row.log, row.name, 0, 0, 0, row.inode, 0, b"", 0, 0, safe)


def catch_up_log(connection: apsw.Connection, layout: Layout, name: str, *, repair: bool) -> LogRow:
    """Read one log from where the index is, inside a transaction of the index.

    Raises:
        UnreadableLogError: half of it may be in the index; undo that.
    """
    row = forget_if_changed(connection, layout, _log_row(connection, name))
    with reading(name):
        found, size, is_ours = _read_on(connection, layout, row)
    connection.execute(DROP_UNREADABLE, (row.log,))
    repair = repair and _may_write(layout, name)
    if repair and is_ours and found.applied < size:
        set_tail_aside(layout, name, found.applied)
    elif repair and found.applied > row.applied:
        _end_line(layout, name, found.applied)
    found = found._replace(safe=min(found.safe, found.applied))
    connection.execute(SET_LOG, _set_values(found))
    if repair and found.applied > row.applied:
        _tell_damage(connection, layout, found)
    return found


def _may_write(layout: Layout, name: str) -> bool:
    """Else it is read as it is, and whoever appends to it is told why he can not."""
    try:
        disk.check(layout.file(name), writes=True)
    except NotOursError:
        return False
    return True


def _read_on(connection: apsw.Connection, layout: Layout, row: LogRow) -> tuple[LogRow, int, bool]:
    """The row as it is then, how long the log is, and whether it is one that can be used."""
    handle = disk.open_for_reading(layout.file(row.name))
    try:
        size = disk.size(handle)
        is_ours = row.applied > 0 or _is_ours(handle)
        try:
            found = read_log(connection, handle, row) if is_ours else row
        except TwinError as exc:
            connection.execute("ROLLBACK TO batch")
            connection.execute("RELEASE batch")
            loser = _log_row(connection, exc.other)
            if disk.length(layout.file(exc.other)) < size:  # the longer one is the newer one
                _forgotten(connection, loser, 0)
                found = read_log(connection, handle, row)
            else:
                loser, is_ours, found = row, False, row
            connection.execute(ADD_DAMAGE, (loser.log, 1, "another log holds this session"))
        return found._replace(inode=disk.inode(handle)), size, is_ours
    finally:
        disk.close(handle)


def _set_values(row: LogRow) -> tuple[int | bytes, ...]:
    return (
        row.log, row.sid, row.applied, row.lines, row.inode, row.tail_at, row.tail, row.dirty,
        row.stale, row.safe, row.head,
    )  # fmt: skip


def _tell_damage(connection: apsw.Connection, layout: Layout, row: LogRow) -> None:
    for line, reason in connection.execute(DAMAGE_OF_LOG, (row.log,)):
        tell("line %d of %s is damaged: %s", line, layout.path(row.name), reason)


def _is_ours(handle: int) -> bool:
    """Whether a file begins as a log does, however little of it there is: others are let alone."""
    head = disk.read_at(handle, 4096, 0).removeprefix(jsonl.BOM).rstrip(b"\0")
    begin = b'{"x":"'
    return head.startswith(begin) or begin.startswith(head) or b"\n" + begin in head


def _log_row(connection: apsw.Connection, name: str) -> LogRow:
    if connection.execute(LOG_BY_NAME, (name,)).fetchone() is None:
        connection.execute(ADD_LOG, (name, 0))
    return next(LogRow(*row) for row in connection.execute(LOG_BY_NAME, (name,)))


def _end_line(layout: Layout, name: str, end: int) -> None:
    """Put a line end where the last line has none, or another byte in its place."""
    handle = disk.open_for_patching(layout.file(name))
    try:
        if disk.read_at(handle, 1, end - 1) != b"\n":
            disk.write_at(handle, b"\n", end - 1)
            disk.sync(handle)
    finally:
        disk.close(handle)


def forget(connection: apsw.Connection, row: LogRow) -> None:
    """Take out of the index what came from a log."""
    for (branch,) in list(connection.execute(PLACES_OF_LOG, (row.log,))):
        forget_texts(connection, branch)
        connection.execute(DROP_ENTRIES, (branch << 32, branch << 32 | 0xFFFFFFFF))
        connection.execute(DROP_BRANCH, (branch,))
        connection.execute(DROP_PLACE, (branch,))
    connection.execute(DROP_DAMAGE, (row.log,))
    if row.name == STORE_LOG:
        for statement in DROP_HOMELESS:
            connection.execute(statement)
    elif row.sid:
        for statement in DROP_SESSION:
            connection.execute(statement, (row.sid,))
        connection.execute(DROP_SEARCHED, (row.sid,))
