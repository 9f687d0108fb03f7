"""The three forms in which OpenCode keeps a session, as one: its database, its older files, its exports."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from clew.importers.contract import OnBytes, OnProblem, Problem
from clew.importers.programs.opencode.messages import StoredMessage
from clew.importers.reading.files import content_of
from clew.importers.reading.sqlite import reporting, rows
from clew.importers.reading.values import (
    decode,
    decode_or_none,
    document,
    items,
    mapping,
    plain_name,
    text,
    without,
)
from clew.model import Json

if TYPE_CHECKING:
    import apsw

_IDS: Final = frozenset({"id", "sessionID", "messageID"})
"""They stand in the files and not in the database; without them both say the same."""


_DATA: Final = {
    "message": "SELECT data FROM message WHERE id = ?",
    "part": "SELECT data FROM part WHERE id = ?",
}


class Stored(Protocol):
    """A session as it is stored."""

    info: dict[str, Json]
    """In the names of the older files: parentID, directory, time.created."""

    def messages(self) -> Iterator[StoredMessage]:
        """From the first on, oldest first."""


class InDatabase:
    def __init__(self, db: apsw.Connection, row: dict[str, Json], path: Path, on_problem: OnProblem) -> None:
        self._db = db
        self._path = path
        self._on_problem = on_problem
        self.key = str(row["id"])
        self.info = _as_in_files(row)

    def messages(self) -> Iterator[StoredMessage]:
        with reporting(self._path, self._on_problem):
            for message, names in groupby(self._names(), key=itemgetter("message")):
                parts = [str(row["part"]) for row in names if row["part"] is not None]
                data = self._data("message", str(message))
                if data is not None:
                    yield StoredMessage(str(message), data, list(self._parts(parts)))

    def _names(self) -> Iterator[dict[str, Json]]:
        # Names only: so that SQLite sorts little, and where an index is missing makes one for itself.
        wanted = (
            "SELECT message.id AS message, part.id AS part FROM message"
            " LEFT JOIN part ON part.message_id = message.id"
            " WHERE message.session_id = ? ORDER BY message.time_created, message.id, part.id"
        )
        return rows(self._db, wanted, (self.key,))

    def _parts(self, names: list[str]) -> Iterator[tuple[str, dict[str, Json]]]:
        for name in names:
            data = self._data("part", name)
            if data is not None:
                yield name, data

    def _data(self, table: Literal["message", "part"], name: str) -> dict[str, Json] | None:
        row = next(rows(self._db, _DATA[table], (name,)), {"data": None})
        data = decode_or_none(row["data"])
        if isinstance(data, dict):
            return without(data, _IDS)
        reason = f"the data of {table} {name} is no JSON object"
        self._on_problem(Problem(path=str(self._path), line=None, reason=reason))
        return None


class InFiles:
    """`storage/session/<project>/<session>.json`, and beside it a file for each message and each part."""

    def __init__(self, path: Path, info: dict[str, Json], on_problem: OnProblem, on_bytes: OnBytes) -> None:
        self.info = info
        self._storage = path.parent.parent.parent
        self._on_problem = on_problem
        self._on_bytes = on_bytes

    def messages(self) -> Iterator[StoredMessage]:
        found = []
        for file in _json_files(self._storage / "message" / str(self.info["id"])):
            data = self._object(file)
            if data is not None:
                found.append((_created(data), file.stem, data))
        for _, name, data in sorted(found, key=lambda each: each[:2]):
            parts = [(file.stem, self._object(file)) for file in _json_files(self._storage / "part" / name)]
            whole = [(key, without(part, _IDS)) for key, part in parts if part is not None]
            yield StoredMessage(name, without(data, _IDS), whole)

    def _object(self, file: Path) -> dict[str, Json] | None:
        try:
            raw = content_of(file)
            self._on_bytes(len(raw))
            value = decode(raw)
        except (OSError, ValueError, RecursionError) as exc:
            self._on_problem(Problem(path=str(file), line=None, reason=f"no JSON: {exc}"))
            return None
        return value if isinstance(value, dict) else None


class InExport:
    """What `opencode export` writes: one document."""

    def __init__(self, whole: dict[str, Json]) -> None:
        self.info = mapping(whole.get("info"))
        self._messages = items(whole.get("messages"))

    def messages(self) -> Iterator[StoredMessage]:
        for number, message in enumerate(map(mapping, self._messages)):
            info = mapping(message.get("info"))
            parts = [
                (plain_name(part.get("id")) or f"part-{at}", without(part, _IDS))
                for at, part in enumerate(map(mapping, items(message.get("parts"))))
            ]
            yield StoredMessage(plain_name(info.get("id")) or f"message-{number}", without(info, _IDS), parts)


def from_document(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> InFiles | InExport | None:
    on_bytes(path.stat().st_size)
    try:
        whole = mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(Problem(path=str(path), line=getattr(exc, "lineno", None), reason=f"no JSON: {exc}"))
        return None
    stored = InExport(whole) if "messages" in whole else InFiles(path, whole, on_problem, on_bytes)
    if text(stored.info.get("id")):
        return stored
    on_problem(Problem(path=str(path), line=None, reason="the session has no id"))
    return None


def _as_in_files(row: dict[str, Json]) -> dict[str, Json]:
    renamed = {"project_id": "projectID", "parent_id": "parentID"}
    info = {renamed.get(name, name): value for name, value in row.items() if value is not None}
    info["time"] = {name: row.get(f"time_{name}") for name in ("created", "updated")}
    for name in ("revert", "model", "permission"):
        if (value := decode_or_none(info.get(name))) is not None:
            info[name] = value
    return info


def _created(data: dict[str, Json]) -> float:
    created = mapping(data.get("time")).get("created")
    return created if isinstance(created, int | float) else 0


def _json_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json")) if folder.is_dir() else []
