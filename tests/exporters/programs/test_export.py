"""`store.export` to other agents, and `import_path` back: the same session."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.messages.dialects import role_of, text_of
from clew.exporters.programs import picoclaw
from tests.support.rows import each_row

SUFFIXES = {
    "picoclaw": ".jsonl",
    "ggcode": ".jsonl",
    "tingly-box": ".db",
    "ductwork": ".json",
    "openrouter": ".json",
    "gemini-cli": ".jsonl",
    "opencode": ".json",
}


def spoken(store: clew.Store) -> clew.Session:
    s = store.create("chat:42")
    for number in range(6):
        s.append({"role": "user" if number % 2 == 0 else "assistant", "content": f"word {number} <b>"})
    return s


def texts(s: clew.Session) -> list[tuple[Any, Any]]:
    """Who said what, in whatever shape a program keeps it."""
    return [(role_of(message), text_of(message)) for message in s.messages()]


@each_row("format", SUFFIXES)
def test_what_is_exported_comes_back_with_the_same_messages(tmp_path: Path, format: Any) -> None:
    with clew.open("memory:") as store:
        s = spoken(store)
        where = store.export(s.id, format, path=tmp_path / f"x{SUFFIXES[format]}")
        with clew.open("memory:") as other:
            report = other.import_path(where)
            assert (report.ok, [session.format for session in report.sessions]) == (True, [format])
            again = other.get(report.sessions[0].id)
            assert texts(again) == texts(s)
            assert other.import_path(where).unchanged == 1


def test_picoclaws_summary_skip_and_aliases_stand_beside_its_log(store: clew.Store, tmp_path: Path) -> None:
    s = spoken(store)
    s.add_alias("telegram:7")
    s.compact("they spoke", upto=3)
    s.set_summary("they spoke")
    where = store.export(s.id, "picoclaw", path=tmp_path / "chat_42.jsonl")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["chat_42.jsonl", "chat_42.meta.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    meta = json.loads((tmp_path / "chat_42.meta.json").read_bytes())
    assert (meta["key"], meta["skip"], meta["summary"]) == ("chat:42", 4, "they spoke")
    with clew.open("memory:") as other:
        other.import_path(where)
        again = other.get("telegram:7")
        assert texts(again) == texts(s)
        assert again.summary == "they spoke"
        assert [message["content"] for message in again.context()[1:]] == ["word 4 <b>", "word 5 <b>"]


def test_tingly_without_a_path_is_refused_with_the_next_step(store: clew.Store) -> None:
    with pytest.raises(clew.InvalidError, match="path="):
        store.export(spoken(store).id, "tingly-box")


def test_an_option_that_an_sqlite_file_has_not_is_refused(store: clew.Store, tmp_path: Path) -> None:
    with pytest.raises(clew.InvalidError, match="no option 'whole'; there is redact"):
        store.export(spoken(store).id, "tingly-box", path=tmp_path / "x.db", whole=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_a_database_that_is_in_use_is_not_replaced(store: clew.Store, tmp_path: Path, end: str) -> None:
    s = spoken(store)
    (tmp_path / "x.db").write_bytes(b"precious")
    (tmp_path / f"x.db{end}").write_bytes(b"log")
    with pytest.raises(clew.InvalidError, match="choose another path"):
        store.export(s.id, "tingly-box", path=tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == b"precious"


@each_row("format", ["markdown", *SUFFIXES])
def test_a_place_that_can_be_no_file_is_refused_and_nothing_is_written(tmp_path: Path, format: Any) -> None:
    with clew.open("memory:") as store:
        s = spoken(store)
        (tmp_path / "folder").mkdir()
        for place, why in (("folder", "name a file in it"), ("nowhere/x.db", "make it first")):
            with pytest.raises(clew.InvalidError, match=why):
                store.export(s.id, format, path=tmp_path / place)
        assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_log_without_its_meta_never_replaces_one_with_it(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = spoken(store)
    store.export(s.id, "picoclaw", path=tmp_path / "x.jsonl")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    s.append({"role": "user", "content": "more"})

    def broken(*_: Any, **__: Any) -> bytes:
        raise clew.CorruptError("the disk is gone")

    monkeypatch.setattr(picoclaw, "meta", broken)
    with pytest.raises(clew.CorruptError):
        store.export(s.id, "picoclaw", path=tmp_path / "x.jsonl")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_long_name_in_another_script_can_be_exported_to(store: clew.Store, tmp_path: Path) -> None:
    name = "é" * 120 + ".md"
    where = store.export(spoken(store).id, "markdown", path=tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert Path(where).stat().st_size > 0
