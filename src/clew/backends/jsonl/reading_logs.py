"""From a log to the index, batch by batch; and at its end what was torn is told from what is damaged.

A crash leaves a log shorter, or with NULs where something did not arrive, and in its last batch only: the
next is not written before that is durable. No whole line holds a NUL. So a last batch that has its end and
no NULs, and yet a wrong checksum, was changed after it was written: it is damage, and does not vanish.
"""

from __future__ import annotations

import apsw

from clew.backends.jsonl import disk, scan
from clew.backends.jsonl.layout import STORE_LOG
from clew.backends.jsonl.log_row import TAIL, LogRow
from clew.backends.jsonl.mending import is_headless, mend
from clew.backends.jsonl.recognizing import UnreadableLogError, id_of
from clew.backends.jsonl.replay import Replay
from clew.backends.jsonl.statements import ADD_DAMAGE, DAMAGE_OF_LOG
from clew.core.log import jsonl
from clew.errors import CorruptError, SchemaTooNewError


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
    connection.execute("SAVEPOINT batch")
    for offset, raw, after, is_ended in scan.lines(handle, row.applied, size):
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
    connection.execute("ROLLBACK TO batch")
    connection.execute("RELEASE batch")
    if done.applied < row.safe:
        gone = f"the log was longer: of {row.safe} bytes that were durable {done.applied} are left"
        connection.execute(ADD_DAMAGE, (row.log, done.lines + 1, gone))
    is_hurt = connection.execute(DAMAGE_OF_LOG, (row.log,)).fetchone() is not None
    is_hurt = is_hurt or (done.sid > 0 and is_headless(connection, row.log, done.sid))
    if is_hurt and done.sid and not replay.session_gone:
        mend(connection, row.log, done.sid, replay.id or id_of(row.name), ahead)
    return done


def _keep(connection: apsw.Connection) -> None:
    connection.execute("RELEASE batch")
    connection.execute("SAVEPOINT batch")


def _opened(offset: int, raw: bytes, *, is_ended: bool) -> tuple[bytes, bool, bytes]:
    """A line without its end, whether it is the last of its batch, and its text."""
    try:
        return raw, *jsonl.open_line(scan.cleaned(offset, raw))
    except jsonl.BadLineError:
        if is_ended:
            raise
    raw = raw[:-1]  # the last line of the log: perhaps only its line end is wrong
    return raw, *jsonl.open_line(scan.cleaned(offset, raw))


def _apply(replay: Replay, name: str, offset: int, raw: bytes, text: bytes) -> None:
    line = jsonl.decode(text)
    if isinstance(line, jsonl.LogLine) and line.format > jsonl.FORMAT:
        newer = SchemaTooNewError(name, line.format, jsonl.FORMAT)
        if name == STORE_LOG:
            raise newer
        raise UnreadableLogError(name, OSError(str(newer)))
    if line is not None:
        last = offset + len(raw.removesuffix(b"\r")) - 1
        body_at = last - len(line.body) if isinstance(line, jsonl.EntryLine) else 0
        try:
            replay.apply(line, body_at)
        except OverflowError as exc:
            raise jsonl.BadLineError(f"it holds a number that is too large: {exc}") from exc
        except CorruptError as exc:
            raise jsonl.BadLineError(str(exc)) from exc


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
