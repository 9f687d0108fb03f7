"""Whatever a test of the readers imports must come back byte for byte."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
import clew.model.transfer
from clew.core.messages.value_count import TooManyValuesError, check_value_count
from clew.exporters.programs.resuming import is_changed
from clew.importers.reading.files import MOST_AT_ONCE, content_of

EXACT = ("claude-code", "codex", "pi")


@pytest.fixture(params=["sqlite", "memory", "jsonl"])
def backend(request: pytest.FixtureRequest) -> str:
    """Before a commit, tests run on SQLite and a share of them on the others."""
    kind: str = request.param
    return kind


@pytest.fixture
def store() -> Iterator[clew.Store]:
    with clew.open("memory:") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each import, the files of agents that can be written again are compared with their exports.

    A test with several imports at once compares when all have ended: one may return while another works.
    """
    bring = clew.Store.import_path

    def and_compare(store: clew.Store, *args: Any, **options: Any) -> clew.ImportReport:
        start = time.time_ns()
        report = bring(store, *args, **options)
        if not options.get("dry_run") and threading.current_thread() is threading.main_thread():
            for source in report.sources:
                if source.read and source.format in EXACT and source.sessions:
                    compare(store, source, start)
        return report

    monkeypatch.setattr(clew.Store, "import_path", and_compare)


def compare(store: clew.Store, source: clew.model.transfer.ImportedFile, start: int) -> None:
    session = store.find(source.sessions[0].id)
    if session is None or is_changed(session):
        return  # deleted here, or gone on with
    expected = whole_lines(Path(source.path))
    if expected is not None and os.stat(source.path).st_mtime_ns < start:  # it did not grow meanwhile
        format: Any = source.format
        assert store.export(session.id, format).encode() == expected, source.path


def whole_lines(path: Path) -> bytes | None:
    """The lines of a file that are JSON objects; None: one had to be mended."""
    if not os.path.exists(path) or os.path.getsize(path) > MOST_AT_ONCE:
        return None
    found = []
    for line in content_of(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            check_value_count(line)
            record = msgspec.json.decode(line)
        except TooManyValuesError:
            continue
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if line.strip(b" \t\r\0"):
                return None
            continue
        if isinstance(record, dict):
            found.append(line + b"\n")
    return b"".join(found)
