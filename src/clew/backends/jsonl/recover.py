"""The index follows the logs: after a crash, and when others wrote.

What the logs have and the index has not is put into it, what is torn is set aside, what is damaged is mended.
"""

from __future__ import annotations

import apsw

from clew.backends.jsonl import disk, log_file
from clew.backends.jsonl.disk import NotOursError
from clew.backends.jsonl.layout import STORE_LOG, Layout
from clew.backends.jsonl.log_file import (
    TAIL,
    LogRow,
    UnreadableLogError,
    changed,
    id_of,
    is_marked_alike,
    is_same,
    reading,
    set_tail_aside,
    tell,
)
from clew.backends.jsonl.replay import Replay, TwinError
from clew.backends.jsonl.sql import (
    ADD_BRANCH_PLACE,
    ADD_DAMAGE,
    ADD_LOG,
    ALL_LOGS,
    BEGIN_BATCH,
    BEGIN_LOG,
    BRANCHES_OF_LOG,
    DAMAGE_OF_LOG,
    DROP_BRANCH_PLACE,
    DROP_DAMAGE,
    DROP_HOMELESS,
    DROP_LOG,
    DROP_UNREADABLE,
    END_BATCH,
    END_LOG,
    HAS_DETAILS,
    LOG_BY_NAME,
    LOOSEN,
    LOST_HEADS,
    ORPHANS,
    PLACES_OF_LOG,
    PUT_BRANCH,
    PUT_SESSION,
    RENAME,
    RESET_LOG,
    SET_LOG,
    SKIP_NUMBERS,
    START_NUMBER,
    TIGHTEN,
    TIME_OF,
    TIMES,
    TWINS,
    UNDO_BATCH,
    UNDO_LOG,
    UNREADABLE,
)
from clew.backends.sqlite.rows import POSITION_MASK, key, session_values
from clew.backends.sqlite.sql import (
    BEGIN_WRITING,
    COMMIT,
    DROP_BRANCH,
    DROP_ENTRIES,
    DROP_PLACE,
    DROP_SEARCHED,
    DROP_SESSION,
    DROP_UPTO,
    DROP_WORDS,
    FORGET_TREE,
    GET_SESSION,
    PLACES,
    ROLLBACK,
    SET_ALL_DUE,
    SET_DETAILS,
)
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.log import jsonl
from clew.core.log.rows import EMPTY, BranchRow, ForkOrigin, HeadRow, SessionRow
from clew.errors import CorruptError, CorruptSessionError, ReadOnlyError, SchemaTooOldError, VersionError

# -- after damage: a session whose own lines are bad is put together from what is left of its log
# Its entries know all that a head needs. So a bad line of another kind costs what it said, and not the
# entries, nor the next append, which would go where an entry is already.


def mend(
    connection: apsw.Connection, log: int, sid: int, id: str, ahead: tuple[int, int] | None = None
) -> None:
    """Give a session back its row, or its head, if lines that set them were lost.

    `ahead` is the entry behind the last line that says where the session stands: it was appended there.
    """
    tx = SqliteTransaction(connection, {})
    try:
        row = tx.get_session(sid)
    except CorruptSessionError:
        return  # it is there, and is listed as damaged
    _mend_branches(connection, tx, log, sid, row)
    mine = [row for row in map(_branch, connection.execute(BRANCHES_OF_LOG, (log,))) if row.owner == sid]
    if row is None:
        _put_back(connection, tx, sid, id, mine)
    elif not mine:
        return
    elif ahead is not None and ahead[0] in {branch.branch for branch in mine}:
        (time,) = connection.execute(TIME_OF, (ahead[0] << 32 | ahead[1],)).fetchone() or (0,)
        head = _tip_at(tx, *ahead) or row.head
        tx.set_head(sid, head, max(row.updated, time), row.title, row.preview)
    elif row.grows or (row.head == EMPTY and not row.moves):
        tip = _tip(tx, row.head.branch or mine[-1].branch)
        if tip.position > row.head.position:
            tx.set_head(sid, tip, row.updated, row.title, row.preview)


def is_headless(connection: apsw.Connection, log: int, sid: int) -> bool:
    """Whether a log has settings or branches of a session, and no line that says what that is."""
    if connection.execute(GET_SESSION, (sid,)).fetchone() is not None:
        return False
    rows = map(_branch, connection.execute(BRANCHES_OF_LOG, (log,)))
    return _has_details(connection, sid) or any(row.owner == sid for row in rows)


def _put_back(
    connection: apsw.Connection, tx: SqliteTransaction, sid: int, id: str, mine: list[BranchRow]
) -> None:
    """Without settings and entries it is one of which nothing is known: it has none, and so is damaged."""
    time, tree, tip = (0, 0), sid, EMPTY
    if mine:
        tree, tip = mine[0].tree, _tip(tx, mine[-1].branch)
        time = connection.execute(
            TIMES,
            (mine[0].branch << 32, mine[-1].branch << 32 | 0xFFFFFFFF),
        ).fetchone() or (0, 0)
    grows = bool(mine)
    row = SessionRow(sid, _free(tx, id, sid), tree, time[0], time[1], None, tip, grows, None, False, "", None)
    connection.execute(PUT_SESSION, (sid, *session_values(row)))
    if mine and not _has_details(connection, sid):
        connection.execute(SET_DETAILS, (sid, b"{}"))


def _has_details(connection: apsw.Connection, sid: int) -> bool:
    return connection.execute(HAS_DETAILS, (sid,)).fetchone() is not None


def _mend_branches(
    connection: apsw.Connection, tx: SqliteTransaction, log: int, sid: int, row: SessionRow | None
) -> None:
    """A branch whose line was lost starts at the root, or where its session was forked; its name is lost.
    One that was left by a rewind cannot be put back: its entries stay, and what needs it is damaged."""
    origin = _origin(tx, sid)
    for branch, first in list(connection.execute(ORPHANS)):
        parent = 0
        if first and origin is not None and origin.position == first - 1:
            parent = origin.branch
        uid = f"lost-{sid}-{branch}"
        connection.execute(PUT_BRANCH, (branch, uid, row.tree if row else sid, sid, parent, first - 1))
        connection.execute(ADD_BRANCH_PLACE, (branch, log))


def mend_heads(connection: apsw.Connection) -> None:
    """When all logs were read: a session that stands on a branch of which nothing is left, not even
    entries, gets an empty one, and so can be listed, and says of each entry that it is missing."""
    tx = SqliteTransaction(connection, {})
    for sid, branch, tree, grows, log in list(connection.execute(LOST_HEADS)):
        origin = _origin(tx, sid) if grows else None
        parent, fork = (0, -1) if origin is None else (origin.branch, origin.position)
        connection.execute(PUT_BRANCH, (branch, f"lost-{sid}-{branch}", tree, sid, parent, fork))
        if grows and log is not None:  # else it is another session's: its log may come back
            connection.execute(ADD_BRANCH_PLACE, (branch, log))


def _branch(row: tuple[object, ...]) -> BranchRow:
    return BranchRow(*row)  # type: ignore[arg-type]


def _tip(tx: SqliteTransaction, branch: int) -> HeadRow:
    """The newest entry that follows on those before it without a gap in the branch's end."""
    return _tip_at(tx, branch, tx.last_position(branch)) or EMPTY


def _tip_at(tx: SqliteTransaction, branch: int, position: int) -> HeadRow | None:
    """None: there is none, or none that can be."""
    try:
        return tx.get_tip(branch, position)
    except CorruptError:
        return None


def _origin(tx: SqliteTransaction, sid: int) -> ForkOrigin | None:
    """None: it is no fork, or that is not known any more."""
    try:
        return tx.get_details(sid).origin
    except CorruptError:
        return None


def _free(tx: SqliteTransaction, id: str, sid: int) -> str:
    return id if id and tx.find_session(id) is None else f"{id or 'recovered'}~{sid}"


# -- reading a log
# From a log to the index, batch by batch; and at its end what was torn is told from what is damaged.
#
# A crash leaves a log shorter, or with NULs where something did not arrive, and in its last batch only: the
# next is not written before that is durable. No whole line holds a NUL. So a last batch that has its end and
# no NULs, and yet a wrong checksum, was changed after it was written: it is damage, and does not vanish.


class _Batch:
    """What is known of the lines since the last end of a batch."""

    def __init__(self, start: int, safe: int) -> None:
        self._was_safe = start < safe
        self._is_bad = self._has_nul = self._has_line = False

    def add_bad(self, raw: bytes) -> None:
        self._is_bad = True
        self._has_nul = self._has_nul or b"\0" in raw
        self._has_line = self._has_line or jsonl.looks_like_line(raw)

    @property
    def may_be_torn(self) -> bool:
        """Of a batch that has its end."""
        return self._has_nul and not self._was_safe

    def is_damaged(self, *, is_ended: bool) -> bool:
        """Of lines at the end of a log, without the end of a batch."""
        if self._was_safe:
            return self._is_bad
        return self._has_line and is_ended and not self._has_nul


def read_log(connection: apsw.Connection, handle: int, row: LogRow, *, limit: int | None = None) -> LogRow:
    """Apply whole batches only: each is a savepoint, undone when it is torn. `limit`: as far as there."""
    replay = Replay(connection, row.log, row.name)
    replay.sid = row.sid
    size = disk.size(handle) if limit is None else limit
    done = reached = row
    batch = _Batch(row.applied, row.safe)
    is_ended = True
    ahead = None
    connection.execute(BEGIN_BATCH)
    for offset, raw, after, is_ended in log_file.read_lines(handle, row.applied, size):
        end, is_last = after, False
        try:
            raw, is_last, text = _opened(offset, raw, is_ended=is_ended)
            end = offset + len(raw) + 1
            _apply(replay, row.name, offset, raw, text)
        except jsonl.BadLineError as exc:
            connection.execute(ADD_DAMAGE, (row.log, reached.lines + 1, str(exc)))
            batch.add_bad(raw)
        reached = _after(reached, replay, offset, raw, end)
        if is_last and not (batch.may_be_torn and end >= size):
            _keep(connection)
            done, batch, ahead = reached, _Batch(end, row.safe), replay.ahead
    if reached is not done and batch.is_damaged(is_ended=is_ended):
        _keep(connection)
        done, ahead = reached, replay.ahead
    connection.execute(UNDO_BATCH)
    connection.execute(END_BATCH)
    if done.applied < row.safe:
        gone = f"the log was longer: of {row.safe} bytes that were durable {done.applied} are left"
        connection.execute(ADD_DAMAGE, (row.log, done.lines + 1, gone))
    is_hurt = connection.execute(DAMAGE_OF_LOG, (row.log,)).fetchone() is not None
    is_hurt = is_hurt or (done.sid > 0 and is_headless(connection, row.log, done.sid))
    if is_hurt and done.sid and not replay.session_gone:
        mend(connection, row.log, done.sid, replay.id or id_of(row.name), ahead)
    return done


def _keep(connection: apsw.Connection) -> None:
    connection.execute(END_BATCH)
    connection.execute(BEGIN_BATCH)


def _opened(offset: int, raw: bytes, *, is_ended: bool) -> tuple[bytes, bool, bytes]:
    """A line without its end, whether it is the last of its batch, and its text."""
    try:
        return raw, *jsonl.open_line(log_file.cleaned(offset, raw))
    except jsonl.BadLineError:
        if is_ended:
            raise
    raw = raw[:-1]  # the last line of the log: perhaps only its line end is wrong
    return raw, *jsonl.open_line(log_file.cleaned(offset, raw))


def _apply(replay: Replay, name: str, offset: int, raw: bytes, text: bytes) -> None:
    try:
        line = _decoded(replay, name, text)
    except VersionError as error:
        if name == STORE_LOG:
            raise
        raise UnreadableLogError(name, OSError(str(error))) from error
    if line is not None:
        last = offset + len(raw.removesuffix(b"\r")) - 1
        body_at = last - len(line.body) if isinstance(line, jsonl.EntryLine) else 0
        try:
            replay.apply(line, body_at)
        except OverflowError as exc:
            raise jsonl.BadLineError(f"it holds a number that is too large: {exc}") from exc
        except CorruptError as exc:
            raise jsonl.BadLineError(str(exc)) from exc


def _decoded(replay: Replay, name: str, text: bytes) -> jsonl.AnyLine | None:
    """What a line says. VersionError: a version of Clew wrote it whose lines this one cannot read."""
    try:
        line = jsonl.decode(text, replay.format)
    except jsonl.OtherVersionError as exc:
        if replay.format != jsonl.FIRST_FORMAT:
            raise  # no version writes it into a log of this format
        raise SchemaTooOldError(name, replay.format) from exc
    if isinstance(line, jsonl.LogLine):
        jsonl.refuse_format(name, line.format, line.clew)
    return line


def _after(row: LogRow, replay: Replay, offset: int, raw: bytes, end: int) -> LogRow:
    return row._replace(
        sid=replay.sid,
        applied=end,
        lines=row.lines + 1,
        tail_at=offset,
        tail=raw[:TAIL],
        dirty=int(replay.dropped),
        stale=row.stale + (len(raw) if replay.said_anew else 0),
        head=raw[:TAIL] if offset == 0 and replay.mark else row.head,
    )


# -- what the index of words forgets with a log


def forget_texts(connection: apsw.Connection, branch: int) -> None:
    """Let nothing of a branch be found, and all sessions that may show it be searched again."""
    places = connection.execute(PLACES, (key(branch, 0), key(branch, POSITION_MASK))).fetchall()
    if places:
        connection.executemany(DROP_WORDS, places)
        connection.executemany(DROP_PLACE, places)
    connection.execute(FORGET_TREE, (branch,))
    connection.execute(DROP_UPTO, (branch,))


# -- catching up with all logs

SHORTEST_BRANCH = 128
"""The line of a branch is longer."""


def catch_up(connection: apsw.Connection, layout: Layout, *, repair: bool) -> bool:
    """Bring the index to where all logs are; whether there was anything to do.

    With `repair`, which needs the store's lock, what is torn is set aside. A log that cannot be read costs
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
    connection.execute(BEGIN_WRITING)
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
        connection.execute(SET_ALL_DUE, (0,))  # when a session is due is not in the logs
        connection.execute(TIGHTEN)
        connection.execute(COMMIT)
    except BaseException:
        if connection.in_transaction:
            connection.execute(ROLLBACK)
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
    """Forget a log that changed, of all first: files may have changed places. False: it cannot be read."""
    row = _log_row(connection, name)
    try:
        forget_if_changed(connection, layout, row)
    except UnreadableLogError as exc:
        _note_unreadable(connection, layout, row, exc)
        return False
    return True


def _catch_up_or_note(connection: apsw.Connection, layout: Layout, name: str, *, repair: bool) -> bool:
    """False: it cannot be read, or not to its end. Of such a log nothing is taken."""
    connection.execute(BEGIN_LOG)
    try:
        catch_up_log(connection, layout, name, repair=repair)
    except UnreadableLogError as exc:
        connection.execute(UNDO_LOG)
        _note_unreadable(connection, layout, _log_row(connection, name), exc)
        return False
    finally:
        if connection.in_transaction:
            connection.execute(END_LOG)
    return True


def _note_unreadable(
    connection: apsw.Connection, layout: Layout, row: LogRow, error: UnreadableLogError
) -> None:
    connection.execute(ADD_DAMAGE, (row.log, 0, str(error.reason)))
    tell("%s cannot be read: %s", layout.path(row.name), error.reason)


def _give_way(
    connection: apsw.Connection, layout: Layout, failed: list[str], before: set[int], *, repair: bool
) -> None:
    """Logs that cannot be read may hold numbers that are not known: leave these free, so that all can be
    used when they are read again. A log holds one session, and no more branches than lines that name one."""
    for row in [_log_row(connection, name) for name in failed]:
        file = layout.file(row.name)
        if row.name == STORE_LOG and repair:
            raise ReadOnlyError(f"{file} cannot be read: without it nothing can be written")
        if row.log not in before:
            branches = disk.length(file) // SHORTEST_BRANCH + 1
            for table, count in (("sessions", 1), ("branches", branches)):
                connection.execute(START_NUMBER, (table,))
                connection.execute(SKIP_NUMBERS, (table, count))


def forget_if_changed(connection: apsw.Connection, layout: Layout, row: LogRow) -> LogRow:
    """Begin again with a log that is not the one that was read: shorter, or another file.

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
    """False: it is read as it is, and an append to it says why it is refused."""
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
            connection.execute(UNDO_BATCH)
            connection.execute(END_BATCH)
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
        connection.execute(DROP_BRANCH_PLACE, (branch,))
    connection.execute(DROP_DAMAGE, (row.log,))
    if row.name == STORE_LOG:
        for statement in DROP_HOMELESS:
            connection.execute(statement)
    elif row.sid:
        for statement in DROP_SESSION:
            connection.execute(statement, (row.sid,))
        connection.execute(DROP_SEARCHED, (row.sid,))
