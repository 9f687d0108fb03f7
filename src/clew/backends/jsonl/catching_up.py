"""The index follows the logs: what they have and it has not is put into it."""

from __future__ import annotations

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_row import LogRow
from clew.backends.jsonl.mending import mend_heads
from clew.backends.jsonl.quarantine import set_tail_aside, tell
from clew.backends.jsonl.reading_logs import read_log
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
    LOG_BY_NAME,
    LOOSEN,
    PLACES_OF_LOG,
    RENAME,
    RESET_LOG,
    SET_LOG,
    TIGHTEN,
    TWINS,
)
from clew.backends.jsonl.unfinding import forget_texts
from clew.backends.sqlite.statements import DROP_BRANCH, DROP_ENTRIES, DROP_SESSION, REEXAMINE
from clew.backends.sqlite.statements_search import DROP_SEARCHED
from clew.core import lines


def catch_up(connection: apsw.Connection, layout: Layout, *, repair: bool) -> bool:
    """Bring the index to where all logs are; whether there was anything to do.

    With `repair`, which needs the store's lock, what is torn is set aside.
    """
    names = layout.log_names()
    known = {row[1]: LogRow(*row) for row in connection.execute(ALL_LOGS)}
    behind = [name for name in names if name not in known or _differs(layout, known[name])]
    gone = [known[name] for name in known.keys() - names]
    if not behind and not gone:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(LOOSEN)
        for row in gone:
            forget(connection, row)
            connection.execute(DROP_LOG, (row.log,))
        for name in behind:  # all of them first: files may have changed places
            forget_if_changed(connection, layout, _log_row(connection, name))
        for name in behind:
            catch_up_log(connection, layout, name, repair=repair)
        mend_heads(connection)
        _settle(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def is_behind(connection: apsw.Connection, layout: Layout) -> bool:
    """Whether a log has what the index has not."""
    names = layout.log_names()
    known = {row[1]: LogRow(*row) for row in connection.execute(ALL_LOGS)}
    return set(names) != set(known) or any(_differs(layout, row) for row in known.values())


def _settle(connection: apsw.Connection) -> None:
    """Two sessions of one id can only come from outside: the younger one gets a name of its own."""
    for sid, id in list(connection.execute(TWINS)):
        connection.execute(RENAME, (f"{id}~{sid}", sid))
    connection.execute(TIGHTEN)
    connection.execute(REEXAMINE)  # when a session is due is not in the logs


def _differs(layout: Layout, row: LogRow) -> bool:
    found = layout.path(row.name).stat()
    return found.st_size != row.applied or found.st_ino != row.inode


def forget_if_changed(connection: apsw.Connection, layout: Layout, row: LogRow) -> LogRow:
    """Begin anew with a log that is not the one that was read: shorter, or of another content."""
    if not row.applied:
        return row
    handle = disk.open_for_reading(layout.path(row.name))
    try:
        is_same = (
            0 <= row.tail_at < row.applied <= disk.size(handle)
            and disk.read_at(handle, len(row.tail), row.tail_at) == row.tail
        )
    finally:
        disk.close(handle)
    if is_same:
        return row
    # A file that was put in the place of another owes nothing to what that one held.
    safe = row.safe if layout.path(row.name).stat().st_ino == row.inode else 0
    forget(connection, row)
    connection.execute(RESET_LOG, (row.log, safe))
    return row._replace(sid=0, applied=0, lines=0, tail_at=0, tail=b"", dirty=0, stale=0, safe=safe)


def catch_up_log(connection: apsw.Connection, layout: Layout, name: str, *, repair: bool) -> LogRow:
    """Read one log from where the index is, inside a transaction of the index."""
    row = forget_if_changed(connection, layout, _log_row(connection, name))
    handle = disk.open_for_reading(layout.path(name))
    try:
        size = disk.size(handle)
        is_ours = row.applied > 0 or _is_ours(handle)
        try:
            found = read_log(connection, handle, row) if is_ours else row
        except TwinError as exc:
            connection.execute("ROLLBACK TO batch")
            connection.execute("RELEASE batch")
            loser = _log_row(connection, exc.other)
            if layout.path(exc.other).stat().st_size < size:  # the longer one is the newer one
                forget(connection, loser)
                connection.execute(RESET_LOG, (loser.log, 0))
                found = read_log(connection, handle, row)
            else:
                loser, is_ours, found = row, False, row
            connection.execute(ADD_DAMAGE, (loser.log, 1, "another log holds this session"))
        inode = disk.inode(handle)
    finally:
        disk.close(handle)
    if repair and is_ours and found.applied < size:
        set_tail_aside(layout, name, found.applied)
    elif repair and found.applied > row.applied:
        _end_line(layout, name, found.applied)
    found = found._replace(inode=inode, safe=min(found.safe, found.applied))
    connection.execute(SET_LOG, _set_values(found))
    if repair and found.applied > row.applied:
        _tell_damage(connection, layout, found)
    return found


def _set_values(row: LogRow) -> tuple[int | bytes, ...]:
    return (
        row.log, row.sid, row.applied, row.lines, row.inode, row.tail_at, row.tail, row.dirty,
        row.stale, row.safe,
    )  # fmt: skip


def _tell_damage(connection: apsw.Connection, layout: Layout, row: LogRow) -> None:
    for line, reason in connection.execute(DAMAGE_OF_LOG, (row.log,)):
        tell("line %d of %s is damaged: %s", line, layout.path(row.name), reason)


def _is_ours(handle: int) -> bool:
    """Whether a file begins as a log does, however little of it there is: others are let alone."""
    head = disk.read_at(handle, 4096, 0).removeprefix(lines.BOM).rstrip(b"\0")
    begin = b'{"x":"'
    return head.startswith(begin) or begin.startswith(head) or b"\n" + begin in head


def _log_row(connection: apsw.Connection, name: str) -> LogRow:
    if connection.execute(LOG_BY_NAME, (name,)).fetchone() is None:
        connection.execute(ADD_LOG, (name, 0))
    return next(LogRow(*row) for row in connection.execute(LOG_BY_NAME, (name,)))


def _end_line(layout: Layout, name: str, end: int) -> None:
    """Put a line end where the last line has none, or another byte in its place."""
    handle = disk.open_for_patching(layout.path(name))
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
