"""A session of OpenCode as it is stored: its older files, and what `opencode export` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from clew.importers.contract import OnBytes, OnProblem, Problem
from clew.importers.programs.opencode.messages import StoredMessage
from clew.importers.reading.files import content_of
from clew.importers.reading.seen import note_folder
from clew.importers.reading.values import (
    decode,
    document,
    items,
    mapping,
    plain_name,
    text,
    unreadable,
    without,
)
from clew.model import Json

IDS: Final = frozenset({"id", "sessionID", "messageID"})
"""They stand in the files and not in the database; without them both say the same."""


class Stored(Protocol):
    """A session as it is stored."""

    info: dict[str, Json]
    """In the names of the older files: parentID, directory, time.created."""

    def messages(self) -> Iterator[StoredMessage]:
        """From the first on, oldest first."""


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
            whole = [(key, without(part, IDS)) for key, part in parts if part is not None]
            yield StoredMessage(name, without(data, IDS), whole)

    def _object(self, file: Path) -> dict[str, Json] | None:
        try:
            raw = content_of(file)
            self._on_bytes(len(raw))
            value = decode(raw)
        except (OSError, ValueError, RecursionError) as exc:
            self._on_problem(unreadable(file, exc))
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
                (plain_name(part.get("id")) or f"part-{at}", without(part, IDS))
                for at, part in enumerate(map(mapping, items(message.get("parts"))))
            ]
            yield StoredMessage(plain_name(info.get("id")) or f"message-{number}", without(info, IDS), parts)


def from_document(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> InFiles | InExport | None:
    on_bytes(path.stat().st_size)
    try:
        whole = mapping(document(path))
    except (ValueError, RecursionError) as exc:
        on_problem(unreadable(path, exc))
        return None
    stored = InExport(whole) if "messages" in whole else InFiles(path, whole, on_problem, on_bytes)
    id = text(stored.info.get("id"))
    if id and (isinstance(stored, InExport) or _is_name(id)):
        return stored
    reason = "the id of the session cannot be that of a folder" if id else "the session has no id"
    on_problem(Problem(path=str(path), line=None, reason=reason))
    return None


def _is_name(id: str) -> bool:
    """Whether it names a folder in another one: what a file says must not lead elsewhere."""
    return Path(id).name == id and id != ".." and "\0" not in id


def _created(data: dict[str, Json]) -> float:
    created = mapping(data.get("time")).get("created")
    return created if isinstance(created, int | float) else 0


def _json_files(folder: Path) -> list[Path]:
    note_folder(folder)
    return sorted(folder.glob("*.json")) if folder.is_dir() else []
