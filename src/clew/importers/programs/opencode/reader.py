"""OpenCode: its SQLite database, the JSON files before 1.2, and what `opencode export` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.importers.contract import NotFollowedError, OnBytes, OnProblem, Place, SourceSession
from clew.importers.programs.opencode.database import (
    InDatabase,
    State,
    changes_since,
    copied_calls,
    decode_state,
    encode_state,
    has_times,
)
from clew.importers.programs.opencode.stored import from_document
from clew.importers.programs.opencode.walk import Paid, Walk, session_of
from clew.importers.reading.files import has_keys
from clew.importers.reading.sqlite import is_sqlite, opened, reporting, rows, tables
from clew.model import Json

if TYPE_CHECKING:
    import apsw

NAME: Final = "opencode"
KNOWS_FOLDERS: Final = True

_TABLES: Final = frozenset({"session", "message", "part"})
_FORK: Final = re.compile(r" \(fork #\d+\)$")


def recognises(path: Path, beginning: bytes) -> bool:
    if is_sqlite(beginning):
        return tables(path) >= _TABLES
    if path.is_dir():
        # Neither is to be searched for anything else: beside them lie copies of the user's own files.
        stores = (path, path / "storage")
        return any((store / "session").is_dir() and (store / "message").is_dir() for store in stores)
    is_session = has_keys(beginning, "id", "projectID") or has_keys(beginning, "info", "messages")
    return is_session and b'"ses_' in beginning


def known_places(home: Path) -> list[Path]:
    return [home / ".local" / "share" / "opencode"]


def files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    storage = path if (path / "session").is_dir() else path / "storage"
    # The names of sessions count down: the oldest has the last one.
    return [
        *sorted((storage / "session").glob("*/ses_*.json"), reverse=True),
        *sorted(path.glob("opencode*.db")),
    ]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    if _is_database(path):
        with reporting(path, on_problem), opened(path) as db:
            listed = list(rows(db, "SELECT * FROM session ORDER BY time_created, id"))
            for _, _, session in _sessions(db, listed, State(), path, on_problem, lambda size: None):
                yield session
        on_bytes(path.stat().st_size)
    else:
        yield from _of_document(path, on_problem, on_bytes)


def follow(
    path: Path, place: Place | None, on_problem: OnProblem, on_bytes: OnBytes
) -> Iterator[SourceSession | Place]:
    """Only a database has a place."""
    if not _is_database(path):
        yield from _of_document(path, on_problem, on_bytes)
        return
    before = None if place is None else decode_state(place.state)
    with reporting(path, on_problem), opened(path) as db:
        if not has_times(db):
            if before is not None:
                raise NotFollowedError("the database does not tell any more when it was written")
            yield from read(path, on_problem, on_bytes)
            return
        changes = changes_since(db, before)
        known = {} if before is None else {one.id: one for one in before.sessions}
        is_whole = True
        for stored, walk, session in _sessions(
            db, changes.listed, before or State(), path, on_problem, on_bytes, is_all=before is None
        ):
            yield session
            is_whole = is_whole and not stored.has_failed
            known.pop(stored.key, None)
            known[stored.key] = stored.known_now(walk.end, *walk.told)
        state = msgspec.structs.replace(changes.marks, sessions=list(known.values()))
        encoded = encode_state(state) if is_whole else None
        if encoded is not None:
            yield Place(0, 0, encoded)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return is_sqlite(file.read(16))


def _of_document(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    stored = from_document(path, on_problem, on_bytes)
    if stored is not None:
        yield session_of(Walk(stored, Paid()), stored.info, None)


def _sessions(
    db: apsw.Connection,
    listed: list[dict[str, Json]],
    before: State,
    path: Path,
    on_problem: OnProblem,
    on_bytes: OnBytes,
    *,
    is_all: bool = True,
) -> Iterator[tuple[InDatabase, Walk, SourceSession]]:
    """`is_all`: all sessions of the database are read. Else what a fork copied may be anywhere."""
    paid = Paid()
    known = {one.id: one for one in before.sessions}
    listed = _parents_first(listed)
    named = (
        listed if is_all or not any(_FORK.search(str(row.get("title"))) for row in listed) else _titles(db)
    )
    titles = {str(row.get("title")): str(row["id"]) for row in reversed(named)}
    for row in listed:
        stored = InDatabase(db, row, path, on_problem, on_bytes, known.get(str(row["id"])))
        if not is_all and stored.known is None:
            _tell_copies(db, row, paid)
        # A fork does not say of what, except by its title.
        base, forks = _FORK.subn("", str(row.get("title")))
        walk = Walk(stored, paid, stored.known)
        yield stored, walk, session_of(walk, stored.info, titles.get(base) if forks else None)


def _titles(db: apsw.Connection) -> list[dict[str, Json]]:
    return _parents_first(list(rows(db, "SELECT * FROM session ORDER BY time_created, id")))


def _tell_copies(db: apsw.Connection, row: dict[str, Json], paid: Paid) -> None:
    """Messages that are older than their session were copied from another one, where their calls count."""
    born = row.get("time_created")
    if not isinstance(born, int):
        return
    wanted = "SELECT time_created AS made FROM message WHERE session_id = ? AND time_created < ?"
    times = [found["made"] for found in rows(db, wanted, (str(row["id"]), born))]
    for copied in copied_calls(db, str(row["id"]), times) if times else ():
        paid.tell(copied)


def _parents_first(listed: list[dict[str, Json]]) -> list[dict[str, Json]]:
    waiting = {str(row["id"]): row for row in listed}
    ordered: list[dict[str, Json]] = []

    for row in listed:
        line: list[dict[str, Json]] = []
        above: Json = row["id"]
        while isinstance(above, str) and above in waiting:
            line.append(waiting.pop(above))
            above = line[-1].get("parent_id")
        ordered += reversed(line)
    return ordered
