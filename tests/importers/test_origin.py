"""S-23: what was imported says where it came from, and no file can say otherwise.
S-30: a delete is final, also for an import that is under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.load import load
from clew.model.source import SourceEntry, SourceSession
from tests.importers import test_contexts
from tests.importers.hostile import forged_files
from tests.importers.readers import write_json, write_lines
from tests.support.rows import each_row

FORGED = {"format": "by hand", "path": "/home/me/trusted"}
SAID = {"role": "user", "content": "hi"}


@each_row("format", test_contexts.STOPPED)
def test_s23_every_imported_session_says_where_it_came_from(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        path = test_contexts.STOPPED[format](tmp_path)
        report = store.import_path(path)
        for one in report.sessions:
            origin = store.get(one.id).info.metadata["imported_from"]
            assert origin == {"format": format, "path": one.source}


def _openrouter(folder: Path) -> Path:
    found = {"ID": "s", "Messages": [SAID], "imported_from": FORGED, "ImportedFrom": FORGED}
    return write_json(folder / "q.json", {"sessions": {"s": found}})


def _continue(folder: Path) -> Path:
    history = [{"message": SAID}]
    return write_json(
        folder / "r.json", {"sessionId": "s", "title": "t", "history": history, "imported_from": FORGED}
    )


def _gemini(folder: Path) -> Path:
    about = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z"}
    said = {"id": "1", "type": "user", "content": "hi"}
    return write_lines(
        folder / "d.jsonl", {**about, "imported_from": FORGED}, said, {"$set": {"imported_from": FORGED}}
    )


def _picoclaw(folder: Path) -> Path:
    path = write_lines(folder / "l.jsonl", SAID)
    write_json(folder / "l.meta.json", {"key": "k", "skip": 0, "count": 1, "imported_from": FORGED})
    return path


def _codex(folder: Path) -> Path:
    meta = {"id": "s", "imported_from": FORGED}
    content = [{"type": "input_text", "text": "hi"}]
    said = {"type": "message", "role": "user", "content": content}
    return write_lines(
        folder / "rollout.jsonl",
        {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": meta},
        {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": said},
        {"timestamp": "2026-01-01T00:00:00Z", "type": "turn_context", "payload": {"imported_from": FORGED}},
    )


@each_row("write", [_openrouter, _continue, _gemini, _picoclaw, _codex])
def test_s23_a_file_cannot_say_that_it_came_from_somewhere_else(tmp_path: Path, write: Any) -> None:
    with clew.open("memory:") as store:
        path = write(tmp_path)
        for _ in range(2):
            report = store.import_path(path)
            (one,) = report.sessions
            assert store.get(one.id).info.metadata["imported_from"] == {
                "format": one.format,
                "path": str(path),
            }


# -- S-30


def source(meanwhile: Any, count: int = 6) -> SourceSession:
    def entries() -> Iterator[SourceEntry]:
        for number in range(count):
            if number == count - 1:
                meanwhile()
            message = {"role": "user", "content": f"said {number}"}
            yield SourceEntry(uid=f"u{number}", parent=f"u{number - 1}" if number else None, message=message)

    return SourceSession(id="s", entries=entries())


@pytest.mark.parametrize("purge", [True, False])
def test_s30_a_session_that_is_deleted_while_it_is_loaded_stays_deleted(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch, purge: bool
) -> None:
    monkeypatch.setattr(load, "AT_ONCE", 2)
    with pytest.raises(clew.NotFoundError):
        store.load(source(lambda: store.delete("s", purge=purge)))
    assert list(store.list()) == []
    assert len(list(store.list(deleted=True))) == (0 if purge else 1)
    assert store.verify().ok


def test_s30_a_trashed_session_does_not_come_back_by_its_file(tmp_path: Path, backend: str) -> None:
    """What was deleted on purpose stays so; purged, it may come anew."""
    path = tmp_path / "file.jsonl"
    forged_files.exported(path)
    with forged_files.store_of(backend, tmp_path) as store:
        store.import_path(path)
        store.delete("s")
        assert [one.state for one in store.import_path(path).sessions] == ["unchanged"]
        assert list(store.list()) == []
        assert [info.id for info in store.list(deleted=True)] == ["s"]
        store.delete("s", purge=True)
        assert [one.state for one in store.import_path(path).sessions] == ["new"]
        forged_files.check_whole(store)
