"""A file in the JSONL format, into a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.transfer.jsonl_file import import_file
from clew.importers.contract import Problem
from clew.model.transfer import ImportedSession, ImportReport

if TYPE_CHECKING:
    from clew.store import Store


def bring(store: Callable[[], Store], path: Path, *, dry_run: bool, rename: bool) -> ImportReport:
    landed = import_file(lambda: store()._engine, path, rename=rename, dry_run=dry_run)
    session = ImportedSession(id=landed.id, source=str(path), state=landed.state, messages=landed.messages)
    problems = (Problem(path=str(path), line=one.line, reason=one.reason) for one in landed.damage)
    return ImportReport(sessions=(session,), dry_run=dry_run, problems=tuple(problems))
