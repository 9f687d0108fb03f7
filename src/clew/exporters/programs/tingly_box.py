"""Sessions as the SQLite file of tingly-box's remote coder: remote_cc_sessions and remote_cc_messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from clew.core.messages.dialects import role_of, text_of
from clew.errors import InvalidError
from clew.exporters.file import appearing, place_of
from clew.exporters.programs.shapes import ZERO_TIME, go_json, go_time, parse_go_time
from clew.exporters.redact import Redactor, redactor_of
from clew.model import Entry, Json, RunInfo, SessionInfo

if TYPE_CHECKING:
    import apsw

    from clew.session import Session
    from clew.store import Store

_SCHEMA: Final = """
CREATE TABLE remote_cc_sessions (
  id TEXT PRIMARY KEY, status TEXT NOT NULL, request TEXT, response TEXT, error TEXT,
  created_at TEXT NOT NULL, last_activity TEXT NOT NULL, expires_at TEXT NOT NULL, context TEXT);
CREATE INDEX idx_remote_cc_sessions_last_activity ON remote_cc_sessions(last_activity);
CREATE TABLE remote_cc_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
  summary TEXT, timestamp TEXT NOT NULL);
CREATE INDEX idx_remote_cc_messages_session ON remote_cc_messages(session_id, timestamp);
"""
NAME: Final = "tingly-box"
_STATUS: Final = {"interrupted": "failed"}
"""What tingly-box has no word for."""
_Row: TypeAlias = tuple[str | int | None, ...]


def write(
    store: Store, ids: Iterable[str], path: str | os.PathLike[str], *, redact: bool | Redactor = False
) -> str:
    """One file with these sessions; one that is there is replaced."""
    import apsw

    target = place_of(path)
    _check_unused(target)
    redactor = redactor_of(redact)
    with appearing(target) as place:
        db = apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
        try:
            db.execute(_SCHEMA)
            with db:
                for id in ids:
                    _put(db, store.get(id), redactor)
        finally:
            db.close()
    return str(target)


def write_file(store: Store, id: str, target: Path, *, redact: bool | Redactor = False) -> None:
    """A file with one session."""
    write(store, [id], target, redact=redact)


def _check_unused(target: Path) -> None:
    for end in ("-wal", "-journal"):
        log = target.with_name(target.name + end)
        if os.path.lexists(log):
            # It would be taken for the log of the new file.
            raise InvalidError(
                f"{log} exists: {target.name} is in use, or was not closed; choose another path"
            )


def _put(db: apsw.Connection, session: Session, redactor: Redactor | None) -> None:
    info = session.info
    row = _session_row(info, session.vars(), went_on=_went_on(session, info))
    row = _clean(row, f"session {info.id}", redactor)
    if not info.metadata.get("orphan"):
        db.execute("INSERT INTO remote_cc_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    last = 0
    for number, message in _messages(session, str(row[0])):
        # Readers go by the number, so it only grows; one that another session has is not used again.
        given = number if number is not None and number > last and not _is_taken(db, number) else None
        db.execute(
            "INSERT INTO remote_cc_messages VALUES (?, ?, ?, ?, ?, ?)",
            (given, *_clean(message, f"{info.id}: message", redactor)),
        )
        last = db.last_insert_rowid()


def _went_on(session: Session, info: SessionInfo) -> bool:
    """Whether something happened here since it came from a file. Times do not tell: tingly-box notes when
    a session was active last, and writes a message behind that."""
    last = next(session.entries(last=1), None)
    return _own_run(info) is not None or (last is not None and "timestamp" not in last.annotations)


def _session_row(info: SessionInfo, variables: dict[str, Json], *, went_on: bool) -> _Row:
    """What its run left here, if there was one; else what the file said that it came from."""
    known = {name: value for name, value in info.metadata.items() if isinstance(value, str)}
    run = _own_run(info)
    told = known.get("status")
    is_told = run is None and info.status in ("interrupted" if told == "running" else told, "pending")
    status = told if is_told else _STATUS.get(info.status, info.status)
    expires = known.get("expires_at", ZERO_TIME)
    if info.expires_at and parse_go_time(expires) != info.expires_at:
        expires = go_time(info.expires_at)
    return (
        known.get("id", info.id),
        status or "pending",
        _text(run.request) if run else known.get("request", ""),
        _text(run.response) if run else known.get("response", ""),
        run.error or "" if run else known.get("error", ""),
        known.get("created_at", go_time(info.created_at)),
        go_time(info.updated_at) if went_on else known.get("last_activity", go_time(info.updated_at)),
        expires,
        go_json(variables).decode() if variables else known.get("context", ""),
    )


def _own_run(info: SessionInfo) -> RunInfo | None:
    """The newest run that was made here, and not told of by the file."""
    return info.run if info.run is not None and info.run.owner != NAME else None


def _clean(row: _Row, place: str, redactor: Redactor | None) -> _Row:
    if redactor is None:
        return row
    return tuple(redactor.text(value, place) if isinstance(value, str) else value for value in row)


def _text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else go_json(value).decode()


def _messages(session: Session, id: str) -> Iterator[tuple[int | None, _Row]]:
    for entry in session.entries():
        if entry.kind == "message":
            number = entry.annotations.get("id")
            yield number if isinstance(number, int) else None, _message_row(entry, id)


def _message_row(entry: Entry, id: str) -> _Row:
    content = entry.message.get("content")
    summary, time = entry.annotations.get("summary"), entry.annotations.get("timestamp")
    return (
        id,
        str(entry.message.get("role") or role_of(entry.message) or "user"),
        content if isinstance(content, str) else text_of(entry.message),
        summary if isinstance(summary, str) else "",
        time if isinstance(time, str) else go_time(entry.time.replace(microsecond=0)),
    )


def _is_taken(db: apsw.Connection, number: int) -> bool:
    return bool(list(db.execute("SELECT 1 FROM remote_cc_messages WHERE id = ?", (number,))))
