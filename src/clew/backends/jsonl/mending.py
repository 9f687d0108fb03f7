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
from clew.backends.sqlite.statements import SET_DETAILS
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.rows import EMPTY, BranchRow, SessionRow, Tip


def mend(
    connection: apsw.Connection, log: int, sid: int, id: str, ahead: tuple[int, int] | None = None
) -> None:
    """Give a session back its row, or its head, if lines that set them were lost.

    `ahead` is the entry behind the last line that says where the session stands: it was appended there.
    """
    tx = SqliteTransaction(connection, {})
    _mend_branches(connection, tx, log, sid)
    mine = [row for row in map(_branch, connection.execute(BRANCHES_OF_LOG, (log,))) if row.owner == sid]
    row = tx.get_session(sid)
    if not mine:
        return
    if row is None:
        tip = _tip(tx, mine[-1].branch)
        time = connection.execute(
            "SELECT coalesce(min(time), 0), coalesce(max(time), 0) FROM entries WHERE key BETWEEN ? AND ?",
            (mine[0].branch << 32, mine[-1].branch << 32 | 0xFFFFFFFF),
        ).fetchone() or (0, 0)
        row = SessionRow(
            sid, _free(tx, id, sid), mine[0].tree, time[0], time[1], None, tip, True, None, False, "", None
        )
        connection.execute(PUT_SESSION, (sid, *session_values(row)))
        connection.execute(SET_DETAILS, (sid, b"{}"))
    elif ahead is not None and ahead[0] in {branch.branch for branch in mine}:
        (time,) = connection.execute(TIME_OF, (ahead[0] << 32 | ahead[1],)).fetchone() or (0,)
        head = tx.get_tip(*ahead) or row.head
        tx.set_head(sid, head, max(row.updated, time), row.title, row.preview)
    elif row.grows or (row.head == EMPTY and not row.moves):
        tip = _tip(tx, row.head.branch or mine[-1].branch)
        if tip.position > row.head.position:
            tx.set_head(sid, tip, row.updated, row.title, row.preview)


def _mend_branches(connection: apsw.Connection, tx: SqliteTransaction, log: int, sid: int) -> None:
    """A branch whose line was lost starts at the root, or where its session was forked; its name is lost.
    One that was left by a rewind can not be put back: its entries stay, and what needs it is damaged."""
    row, origin = tx.get_session(sid), tx.get_details(sid).origin
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
        origin = tx.get_details(sid).origin if grows else None
        parent, fork = (0, -1) if origin is None else (origin.branch, origin.position)
        connection.execute(PUT_BRANCH, (branch, f"lost-{sid}-{branch}", tree, sid, parent, fork))
        if grows and log is not None:  # else it is another session's: its log may come back
            connection.execute(ADD_PLACE, (branch, log))


def _branch(row: tuple[object, ...]) -> BranchRow:
    return BranchRow(*row)  # type: ignore[arg-type]


def _tip(tx: SqliteTransaction, branch: int) -> Tip:
    """The newest entry that follows on those before it without a gap in the branch's end."""
    return tx.get_tip(branch, tx.last_position(branch)) or EMPTY


def _free(tx: SqliteTransaction, id: str, sid: int) -> str:
    return id if id and tx.find_session(id) is None else f"{id or 'recovered'}~{sid}"
