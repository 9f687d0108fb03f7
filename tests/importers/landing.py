"""What tests of several programs share: their files, brought into a store."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import clew
from clew.importers.contract import Problem
from clew.model.source import Loaded


def bring(store: clew.Store, reader: ModuleType, *paths: Path) -> list[Loaded]:
    """As an import does it; nothing may be refused."""
    problems: list[Problem] = []
    return [
        store.load(source) for path in paths for source in reader.read(path, problems.append, lambda _: None)
    ]


def bring_one(store: clew.Store, reader: ModuleType, path: Path) -> clew.Session:
    (loaded,) = bring(store, reader, path)
    return store.get(loaded.id)
