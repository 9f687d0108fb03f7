"""What tests of logs look at: the files of a store, and what was said in its sessions."""

from __future__ import annotations

from pathlib import Path

import clew
from clew.model import Json
from clew.testing.backend import base


def said(store: clew.Store, id: str = "s") -> list[Json]:
    return base.said(store.get(id))


def log(place: Path, id: str = "s") -> Path:
    return place / "sessions" / f"{id}.jsonl"


def without_index(place: Path) -> None:
    for file in place.glob("index.db*"):
        file.unlink()


def quarantined(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((place / "quarantine").iterdir()))
