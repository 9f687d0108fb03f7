"""A file in the JSONL format, into a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.core import lines
from clew.interchange import import_file
from clew.model.porting import ImportedSession, ImportReport

if TYPE_CHECKING:
    from clew.store import Store

_ENOUGH: Final = 64 * 1024


def recognises(path: Path) -> bool:
    with path.open("rb") as file:
        return lines.begins_log(file.read(_ENOUGH))


def bring(store: Store, path: Path, *, dry_run: bool, rename: bool) -> ImportReport:
    landed = import_file(store._engine, path, rename=rename, dry_run=dry_run)
    session = ImportedSession(id=landed.id, source=str(path), state=landed.state, messages=landed.messages)
    return ImportReport(sessions=(session,), dry_run=dry_run)
