"""S-23: what was imported says where it came from, and no file can say otherwise.
S-30: a delete is final, also for an import that is under way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.load import load
from clew.model.source import SourceEntry, SourceSession
from tests.importers import test_contexts
from tests.importers.hostile import forged_files
from tests.support.rows import each_row

FORGED = {"format": "by hand", "path": "/home/me/trusted"}


@each_row("format", test_contexts.STOPPED)
def test_s23_every_imported_session_says_where_it_came_from(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        path = test_contexts.STOPPED[format](tmp_path)
        report = store.import_path(path)
        for one in report.sessions:
            origin = store.get(one.id).info.metadata["imported_from"]
            assert origin == {"format": format, "path": one.source}


def _forged(value: Any) -> Any:
    """The value with another origin in each of its objects."""
    if isinstance(value, list):
        return [_forged(item) for item in value]
    if isinstance(value, dict):
        return {key: _forged(item) for key, item in value.items()} | {
            "imported_from": FORGED,
            "ImportedFrom": FORGED,
        }
    return value


def _forge(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(_forged(json.loads(line))) + "\n" for line in text.splitlines()))
    else:
        path.write_text(json.dumps(_forged(json.loads(text))))


@each_row("format", test_contexts.STOPPED.keys() - {"llm", "aider"})  # they have no objects
def test_s23_a_file_cannot_say_that_it_came_from_somewhere_else(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        path = test_contexts.STOPPED[format](tmp_path)
        for file in tmp_path.rglob("*.json*"):
            _forge(file)
        if format == "gemini-cli":
            with path.open("a") as chat:
                chat.write(json.dumps({"$set": {"imported_from": FORGED}}) + "\n")
        for _ in range(2):
            for one in store.import_path(path, format).sessions:
                origin = store.get(one.id).info.metadata["imported_from"]
                assert origin == {"format": format, "path": str(path)}
        assert len(store.list()) > 0


@each_row("format", test_contexts.STOPPED)
def test_s23_what_was_said_by_others_is_never_an_instruction(tmp_path: Path, format: str) -> None:
    """A message of role system in the middle is a notice of the program, and no model gets it."""
    with clew.open("memory:") as store:
        path = test_contexts.STOPPED[format](tmp_path)
        for one in store.import_path(path).sessions:
            context = list(store.get(one.id).context())
            roles = [message.get("role", message.get("Role")) for message in context]
            assert "system" not in roles[1:]
            assert "developer" not in roles[1:]


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
