"""What tests of logs look at: the files of a store, and what was said in its sessions."""

from __future__ import annotations

from pathlib import Path

import clew
from clew.backends.jsonl import JsonlBackend
from clew.model import Json
from clew.testing.backend import base


def said(store: clew.Store, id: str = "s") -> list[Json]:
    return base.said(store.get(id))


def log(place: Path, id: str = "s") -> Path:
    return place / "sessions" / f"{id}.jsonl"


def without_index(place: Path) -> None:
    for file in place.glob("index.db*"):
        file.unlink()


def drop_variable(backend: JsonlBackend, name: str, id: str = "s") -> None:
    """Leave something in the log of a session that the next scrub will write it without."""
    with backend.write() as tx:
        row = tx.find_session(id)
        assert row is not None
        tx.drop_record(row.sid, "var", name)


def quarantined(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((place / "quarantine").iterdir()))
