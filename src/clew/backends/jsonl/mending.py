"""After damage: a session whose own lines are bad is put together from what is left of its log.

Its entries know all that a head needs. So a bad line of another kind costs what it said, and not the
entries, nor the next append, which would go where an entry is already.
"""

from __future__ import annotations

import apsw

from clew.backends.jsonl.statements import (
    ADD_PLACE,
    BRANCHES_OF_LOG,
    LOST_HEADS,
    ORPHANS,
    PUT_BRANCH,
    PUT_SESSION,
    TIME_OF,
)
from clew.backends.sqlite.rows import session_values
from clew.backends.sqlite.statements import GET_SESSION, SET_DETAILS
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.log.rows import EMPTY, BranchRow, ForkOrigin, SessionRow, Tip
from clew.errors import CorruptError, CorruptSessionError


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
            "SELECT coalesce(min(time), 0), coalesce(max(time), 0) FROM entries WHERE key BETWEEN ? AND ?",
            (mine[0].branch << 32, mine[-1].branch << 32 | 0xFFFFFFFF),
        ).fetchone() or (0, 0)
    grows = bool(mine)
    row = SessionRow(sid, _free(tx, id, sid), tree, time[0], time[1], None, tip, grows, None, False, "", None)
    connection.execute(PUT_SESSION, (sid, *session_values(row)))
    if mine and not _has_details(connection, sid):
        connection.execute(SET_DETAILS, (sid, b"{}"))


def _has_details(connection: apsw.Connection, sid: int) -> bool:
    return connection.execute("SELECT 1 FROM details WHERE sid = ?", (sid,)).fetchone() is not None


def _mend_branches(
    connection: apsw.Connection, tx: SqliteTransaction, log: int, sid: int, row: SessionRow | None
) -> None:
    """A branch whose line was lost starts at the root, or where its session was forked; its name is lost.
    One that was left by a rewind can not be put back: its entries stay, and what needs it is damaged."""
    origin = _origin(tx, sid)
    for branch, first in list(connection.execute(ORPHANS)):
        parent = 0
        if first and origin is not None and origin.position == first - 1:
            parent = origin.branch
        uid = f"lost-{sid}-{branch}"
        connection.execute(PUT_BRANCH, (branch, uid, row.tree if row else sid, sid, parent, first - 1))
        connection.execute(ADD_PLACE, (branch, log))


def mend_heads(connection: apsw.Connection) -> None:
    """When all logs were read: a session that stands on a branch of which nothing is left, not even
    entries, gets an empty one, and so can be listed, and says of each entry that it is missing."""
    tx = SqliteTransaction(connection, {})
    for sid, branch, tree, grows, log in list(connection.execute(LOST_HEADS)):
        origin = _origin(tx, sid) if grows else None
        parent, fork = (0, -1) if origin is None else (origin.branch, origin.position)
        connection.execute(PUT_BRANCH, (branch, f"lost-{sid}-{branch}", tree, sid, parent, fork))
        if grows and log is not None:  # else it is another session's: its log may come back
            connection.execute(ADD_PLACE, (branch, log))


def _branch(row: tuple[object, ...]) -> BranchRow:
    return BranchRow(*row)  # type: ignore[arg-type]


def _tip(tx: SqliteTransaction, branch: int) -> Tip:
    """The newest entry that follows on those before it without a gap in the branch's end."""
    return _tip_at(tx, branch, tx.last_position(branch)) or EMPTY


def _tip_at(tx: SqliteTransaction, branch: int, position: int) -> Tip | None:
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
