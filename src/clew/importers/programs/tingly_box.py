"""tingly-box, whose remote coder has kept its sessions in three ways:.

remote-coder.db, remote-cc.db           two tables, remote_cc_sessions and remote_cc_messages
bot_sessions.json (also .migrated)      one document with all sessions and their messages
db/tingly.db + remote/transcripts/      a table of sessions, and a log of messages for each
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from clew.importers.contract import OnBytes, OnProblem, SourceEntry, SourceRun, SourceSession
from clew.importers.reading import sqlite, values
from clew.importers.reading.files import first_objects
from clew.importers.reading.jsonlines import decoded, members, members_of_file, objects, read_lines
from clew.importers.reading.seen import note
from clew.importers.reading.values import digest, link, session_id, version
from clew.model import Json

if TYPE_CHECKING:
    import apsw

__all__ = ["NAME", "files", "known_places", "read", "recognises"]

_DOCUMENT: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"version"\s*:\s*\d+\s*,\s*"items"\s*:\s*\{')
_OLD: Final = frozenset({"remote_cc_sessions", "remote_cc_messages"})
_SPOKEN: Final = frozenset({"Role", "Content", "Timestamp"})
_NEW: Final = "remote_sessions"
_MESSAGES: Final = "SELECT * FROM remote_cc_messages WHERE session_id = ? ORDER BY id"
_LOST: Final = """SELECT DISTINCT session_id AS id FROM remote_cc_messages
WHERE session_id NOT IN (SELECT id FROM remote_cc_sessions WHERE id IS NOT NULL)"""
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACES: Final = (
    *("remote-cc.db", "remote-coder.db", "bot_sessions.json.migrated", "bot_sessions.json"),
    *("db/tingly.db", "remote/transcripts/*.jsonl"),
)


def recognises(path: Path, beginning: bytes) -> bool:
    if not beginning:
        return (path / "db" / "tingly.db").is_file()
    if sqlite.is_sqlite(beginning):
        found = sqlite.tables(path)
        return found.issuperset(_OLD) or _NEW in found
    if _DOCUMENT.match(beginning):
        return b'"LastActivity"' in beginning or b'"ChatID"' in beginning
    return any(line.keys() >= _SPOKEN for line in first_objects(beginning, most=3))


def known_places(home: Path) -> list[Path]:
    return [home / ".tingly-box"]


def files(path: Path) -> list[Path]:
    """Oldest form first; what has moved from one to the next then grows there."""
    if not path.is_dir():
        return [path]
    return [file for place in _PLACES for file in sorted(path.glob(place))]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    with path.open("rb") as file:
        is_database = sqlite.is_sqlite(file.read(16))
    if is_database:
        with sqlite.reporting(path, on_problem):
            yield from _database(path, on_problem, on_bytes)
    elif path.suffix == ".jsonl":
        yield source_of(_row_of(path), _transcript(path, on_problem, on_bytes))
    else:
        items = members_of_file(path, on_problem, on_bytes).get("items")
        for id, raw in members(items).items():
            row = values.mapping(decoded(raw))
            messages = objects(row.pop("Messages", None), f"the messages of {id!r}", path, on_problem)
            yield source_of({"ID": id, **row}, chained(messages))


def _database(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    on_bytes(path.stat().st_size)
    with sqlite.opened(path) as db:
        found = sqlite.tables_in(db)
        if found.issuperset(_OLD):
            yield from _old(db, path, on_problem)
        if _NEW in found:
            for row in sqlite.rows(db, "SELECT * FROM remote_sessions ORDER BY created_at, id"):
                log = _transcripts(path) / f"{_key(str(row.get('id')))}.jsonl"
                note(log)
                entries = _transcript(log, on_problem, on_bytes) if log.is_file() else iter(())
                yield source_of(row, entries)


def _old(db: apsw.Connection, path: Path, on_problem: OnProblem) -> Iterator[SourceSession]:
    """By the number of the row, never by its time: that is local, to the second, and compared as text."""

    def messages(id: Json) -> Iterator[SourceEntry]:
        with sqlite.reporting(path, on_problem):
            yield from numbered(sqlite.rows(db, _MESSAGES, (str(id),)))

    for row in sqlite.rows(db, "SELECT * FROM remote_cc_sessions ORDER BY rowid"):
        yield source_of(row, messages(row.get("id")))
    for row in list(sqlite.rows(db, _LOST)):
        yield source_of({**row, "orphan": True}, messages(row.get("id")))


def _transcript(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceEntry]:
    return chained(line.record for line in read_lines(path, on_problem, on_bytes))


def _transcripts(database: Path) -> Path:
    return database.parent.parent / "remote" / "transcripts"


def _key(id: str) -> str:
    """The name of a session's transcript."""
    return id if _SAFE.fullmatch(id) else f"h-{sha256(id.encode()).hexdigest()}"


def _row_of(transcript: Path) -> dict[str, Json]:
    """What the table says of a transcript; without it, its name is all that is known."""
    key = transcript.stem
    database = transcript.parent.parent.parent / "db" / "tingly.db"
    note(database)
    if database.is_file() and _NEW in sqlite.tables(database):
        with sqlite.opened(database) as db:
            for row in sqlite.rows(db, "SELECT * FROM remote_sessions"):
                if _key(str(row.get("id"))) == key:
                    return row
    return {"id": key, "orphan": True}


# -- values that its three ways of keeping sessions share


NAME: Final = "tingly-box"
KNOWS_FOLDERS: Final = True
_Status: TypeAlias = Literal["pending", "completed", "failed", "interrupted", "expired", "closed"]
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def source_of(row: dict[str, Json], entries: Iterable[SourceEntry]) -> SourceSession:
    """A session. The context, which its users set and read by key, becomes variables."""
    fields = {_snake(name): value for name, value in row.items() if value is not None}
    context = fields.pop("context", "")
    variables = values.mapping(values.decode_or_none(context) if isinstance(context, str) else context)
    if context and not variables:
        fields["context"] = context
    own = str(fields.get("id", ""))
    return SourceSession(
        id=session_id(NAME, own),
        aliases=(own,),
        entries=entries,
        workspace=values.text(fields.get("project")) or values.text(variables.get("project_path")),
        created_at=values.when(fields.get("created_at")),
        metadata=fields,
        vars=lambda: variables,
        updates=lambda: {"expires_at": _expiry(fields)},
        run=lambda: _run(fields),
    )


def _expiry(fields: dict[str, Json]) -> datetime | str | None:
    """The zero time of Go stands for never."""
    told = values.text(fields.get("expires_at")) or ""
    return "never" if told.startswith("0001-") else values.when(told)


def _run(fields: dict[str, Json]) -> SourceRun | None:
    """What it says of the work. One that was running when the file was written is not running here."""
    match fields.get("status"):
        case "running":
            status: _Status = "interrupted"
        case "pending" | "completed" | "failed" | "expired" | "closed" as told:
            status = told
        case _:
            return None
    return SourceRun(
        status=status,
        request=fields.get("request") or None,
        response=fields.get("response") or None,
        error=values.text(fields.get("error")) or None,
        started_at=values.when(fields.get("created_at")),
        ended_at=values.when(fields.get("last_activity")) if status != "pending" else None,
    )


def numbered(rows: Iterable[dict[str, Json]]) -> Iterator[SourceEntry]:
    """Messages of a table."""
    parent = None
    for row in rows:
        fields = {name: value for name, value in row.items() if name != "session_id"}
        # The program removes old messages, so no name depends on those before; and a database that was
        # restored from a backup gives the same numbers again.
        number = f"m{fields.get('id')}"
        uid = version(None, number, digest(fields))
        yield msgspec.structs.replace(_entry(uid, parent, fields), formerly=number)
        parent = uid


def chained(records: Iterable[dict[str, Json]]) -> Iterator[SourceEntry]:
    """Messages of a document or a log: they have nothing but their order."""
    parent = None
    for record in records:
        fields = {_snake(name): value for name, value in record.items()}
        uid = link(parent, fields)
        yield _entry(uid, parent, fields)
        parent = uid


def _entry(uid: str, parent: str | None, fields: dict[str, Json]) -> SourceEntry:
    """The words are the message; its summary and all else are beside it."""
    role, content = fields.get("role"), fields.get("content")
    message: dict[str, Json] = {
        "role": role if isinstance(role, str) and role else "unknown",
        "content": "" if content is None else content,
    }
    notes = {name: value for name, value in fields.items() if name not in message and value not in (None, "")}
    return SourceEntry(
        uid=uid, parent=parent, message=message, at=values.when(fields.get("timestamp")), notes=notes
    )


def _snake(name: str) -> str:
    """ChatID is chat_id, LastActivity is last_activity; the names of columns are so already."""
    return _HUMP.sub("_", name).lower()
