"""Why a file that no reader took should be named: it looks like a session, or it is damaged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from clew.importers.reading import sqlite
from clew.importers.reading.jsonlines import first_objects
from clew.importers.reading.telling import first_keys, is_data
from clew.importers.reading.values import kind
from clew.model import Json

ROLES: Final = frozenset({"system", "developer", "user", "human", "assistant", "model", "tool", "toolResult"})
_WORDS: Final = ("content", "parts", "text", "tool_calls")
_HISTORIES: Final = frozenset({"messages", "Messages", "history", "conversation"})
_ROLE: Final = re.compile(rb'"[Rr]ole"\s*:\s*"(?:system|user|assistant|model|tool)"')
_OWN: Final = frozenset({"x", "end", "kind"})
_DATABASES: Final = re.compile(r"sessions\.db|logs\.db|tingly\.db|opencode.*\.db")
"""The names that programs give to their databases of sessions."""


def reason_to_name(path: Path, beginning: bytes) -> str | None:
    """What an import should say of a file that is of no known format; None: it is none of its business."""
    if not beginning and path.stat().st_size == 0:
        return None
    if sqlite.is_sqlite(beginning):
        damage = sqlite.damage_of(path)
        return None if damage is None else f"the database cannot be read: {damage}"
    if _DATABASES.fullmatch(path.name):
        return "it has the name of a database of sessions, but is no SQLite database"
    if not is_data(path, beginning):
        return None
    found = first_objects(beginning)
    if _has_name_of_log(path) and not found and (beginning.strip() or not beginning):
        return "it has the name of a log, but none of its first lines is whole JSON"
    if any(record.keys() >= _OWN for record in found):
        return "it is a log of Clew whose first line is damaged"
    if any(map(_is_spoken, found)) or _is_conversation(beginning):
        return "it looks like a session, but of no known format; format= (--format) names one"
    return None


def _has_name_of_log(path: Path) -> bool:
    suffixes = path.suffixes[:-1] if path.suffix == ".zst" else path.suffixes
    return suffixes[-1:] in ([".jsonl"], [".ndjson"])


def _is_spoken(record: dict[str, Json]) -> bool:
    """Whether a line is a message, or holds one."""
    inner = record.get("message")
    said = inner if isinstance(inner, dict) else record
    return kind(said.get("role")) in ROLES and any(word in said for word in _WORDS)


def _is_conversation(beginning: bytes) -> bool:
    """Whether a document has a list of messages."""
    return not _HISTORIES.isdisjoint(first_keys(beginning)) and _ROLE.search(beginning) is not None
