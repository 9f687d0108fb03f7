"""The id that a session has in its own program leads to it, where that name is free."""

from __future__ import annotations

from pathlib import Path

import clew
from clew.model.source import SourceEntry, SourceSession
from tests.importers.hostile.test_lookalikes import SAMPLES
from tests.importers.test_contexts import of_llm
from tests.support.rows import each_row

ENTRY = SourceEntry(uid="e1", parent=None, message={"role": "user", "content": "hi"})


def session(name: str, *aliases: str) -> SourceSession:
    return SourceSession(id=f"other:{name}", entries=[ENTRY], aliases=aliases or (name,))


@each_row("name", [*(name for name in SAMPLES if "aider" not in name), "logs.db"])
def test_the_own_id_of_every_program_is_an_alias(tmp_path: Path, name: str) -> None:
    with clew.open("memory:") as store:
        path = of_llm(tmp_path) if name == "logs.db" else tmp_path / name
        if name in SAMPLES:
            path.write_text(SAMPLES[name][1])
        (found,) = store.import_path(path).sessions
        own = found.id.partition(":")[2]
        assert store.get(own).id == found.id
        store.import_path(path)
        assert list(store.get(found.id).info.aliases) == [own]


def test_a_name_that_another_session_has_stays_its_own(store: clew.Store) -> None:
    store.create("a")
    store.create("x").add_alias("b")
    store.create("y").add_alias("c")
    store.delete("y")
    for name in "abc":
        assert store.load(session(name)).state == "new"
    assert [store.get(name).id for name in ("a", "b")] == ["a", "x"]
    assert store.find("c") is None
    assert [store.get(f"other:{name}").info.aliases for name in "abc"] == [(), (), ()]
    assert store.restore_deleted("y").info.aliases == ("c",)
    assert store.verify().ok


def test_a_name_that_becomes_free_leads_to_the_session_with_its_next_import(store: clew.Store) -> None:
    store.create("x").add_alias("a")
    store.load(session("a"))
    store.get("x").remove_alias("a")
    store.load(session("a"))
    assert store.get("a").id == "other:a"


def test_a_name_that_was_taken_from_the_session_does_not_come_back(store: clew.Store) -> None:
    store.load(session("a", "a", "nick"))
    store.get("nick").remove_alias("nick")
    for _ in range(2):
        assert store.load(session("a", "a", "nick")).state == "unchanged"
    assert store.find("nick") is None
    assert store.get("a").id == "other:a"
