"""A file in the JSONL format, into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core import lines
from clew.importers.contract import Problem
from clew.importers.unpacking import open_file
from clew.interchange import import_file
from clew.model.porting import ImportedSession, ImportReport

if TYPE_CHECKING:
    from clew.store import Store


def bring(store: Callable[[], Store], path: Path, *, dry_run: bool, rename: bool) -> ImportReport:
    landed = import_file(lambda: store()._engine, path, rename=rename, dry_run=dry_run)
    session = ImportedSession(id=landed.id, source=str(path), state=landed.state, messages=landed.messages)
    return ImportReport(sessions=(session,), dry_run=dry_run, problems=tuple(_damage(path)))


def _damage(path: Path) -> Iterator[Problem]:
    """The lines that were passed over: what can be read without them is imported."""
    number, is_end = 0, True
    with open_file(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                is_end, text = lines.open_line(line.removeprefix(lines.BOM) if number == 1 else line)
                lines.decode(text)
            except lines.BadLineError as error:
                is_end = True
                yield Problem(path=str(path), line=number, reason=str(error))
    if not is_end:
        yield Problem(path=str(path), line=number, reason="the file ends inside of what was written at once")
