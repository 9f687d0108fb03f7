"""What no person said stays told apart: in copies, files, repaired stores, exports, and on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.backends.sqlite.rows import key
from clew.cli.store import entries_of_tree
from clew.cli.text import who
from clew.core.log.digest import checksum
from clew.core.messages.dialects import speaker_of
from clew.exporters.transcript import Transcript
from clew.model.source import SourceEntry, SourceSession
from tests.support.rows import each_row
from tests.support.stores import run_sql

ID = "other:1"
WHO = [True, False, False, True]


def source(*, more: int = 0) -> SourceSession:
    said = [("a hook ran", False), ("fix the door", None), ("thanks", None), ("time is up", False)]
    said += [(f"more {number}", False) for number in range(more)]
    entries = [
        SourceEntry(
            uid=f"e{number}",
            parent=f"e{number - 1}" if number else None,
            message={"role": "assistant" if text == "thanks" else "user", "content": text},
            human=human,
        )
        for number, (text, human) in enumerate(said)
    ]
    return SourceSession(id=ID, entries=entries)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[clew.Store]:
    with clew.open(path) as store:
        store.load(source())
        yield store


def check(store: clew.Store) -> None:
    """As it was loaded."""
    session = store.get(ID)
    assert [entry.injected for entry in session.entries()] == WHO
    assert (session.info.user_turns, session.info.preview) == (1, "fix the door")
    assert [hit.position for hit in store.search("door", role="user")] == [1]
    assert [hit.position for hit in store.search("hook", role="other")] == [0]
    assert store.verify(full=True).problems == ()


# -- from store to store


@pytest.mark.parametrize("to", ["memory:", "copy.db", "copy"])
def test_a_copy_tells_it_apart(store: clew.Store, tmp_path: Path, to: str) -> None:
    address = to if to == "memory:" else f"{'jsonl:///' if to == 'copy' else ''}{tmp_path / to}"
    with clew.open(address) as target:
        clew.copy(store, target)
        check(target)
        store.load(source(more=2))
        clew.copy(store, target)
        assert [entry.injected for entry in target.get(ID).entries()] == [*WHO, True, True]
        assert target.verify(full=True).problems == ()


@pytest.mark.parametrize("redact", [False, True])
def test_the_interchange_file_tells_it_apart(store: clew.Store, tmp_path: Path, redact: bool) -> None:
    file = tmp_path / "session.jsonl"
    store.export(ID, "jsonl", path=file, redact=redact)
    with clew.open("memory:") as target:
        target.import_path(file)
        check(target)


def test_a_repaired_store_tells_it_apart_and_counts_anew(
    store: clew.Store, path: Path, tmp_path: Path
) -> None:
    branch = branch_of(path)
    run_sql(path, "UPDATE entries SET turns = 7, last_user_turn = 3 WHERE key = ?", key(branch, 3))
    assert store.repair(to=tmp_path / "new.db").ok
    with clew.open(tmp_path / "new.db") as target:
        check(target)


# -- verify


def branch_of(path: Path) -> int:
    [(branch,)] = run_sql(path, "SELECT branch FROM branches")
    return int(branch)


def test_verify_sees_a_turn_that_is_counted_and_should_not_be(store: clew.Store, path: Path) -> None:
    run_sql(path, "UPDATE entries SET turns = 2, last_user_turn = 3 WHERE key = ?", key(branch_of(path), 3))
    found = store.verify(full=True).details
    assert "its counters are wrong: turns, last_user_turn" in found[0].text


def test_verify_sees_a_flag_that_was_changed_with_its_checksum(store: clew.Store, path: Path) -> None:
    """Who spoke is under the hash, as what was said is."""
    place = key(branch_of(path), 0)
    entry = next(iter(store.get(ID).entries()))
    forged = checksum(entry.raw, 0, entry.stamp, 0, 0, 0)
    run_sql(path, "UPDATE entries SET flags = 0, checksum = ? WHERE key = ?", forged, place)
    problem = store.verify(full=True).details[0]
    assert problem.position == 0
    assert "its hash is not" in problem.text
    assert "turns" in problem.text


# -- stores written before there was a flag


def test_an_annotation_of_older_imports_is_left_as_it_is(tmp_path: Path) -> None:
    """Such an entry goes by its shape, as it did when it was counted."""
    message = {"role": "user", "content": "a hook ran"}
    old = SourceEntry(uid="e", parent=None, message=message, notes={"human": False})
    with clew.open("memory:") as store:
        store.load(SourceSession(id=ID, entries=[old]))
        (entry,) = store.get(ID).entries()
        assert (entry.injected, entry.annotations) == (False, {"human": False})
        assert store.get(ID).info.user_turns == 1
        assert store.verify(full=True).problems == ()


# -- for people and programs


@each_row("role", ["assistant", "tool", "system"])
def test_only_under_the_name_of_the_user_is_it_another_speaker(role: str) -> None:
    assert speaker_of({"role": role, "content": "x"}, injected=True) == role
    assert speaker_of({"role": "user", "content": "x"}, injected=True) == "other"


def test_a_branch_of_an_export_is_known_by_what_a_person_says_there(store: clew.Store) -> None:
    session = store.get(ID)
    session.clear()
    session.append({"role": "user", "content": "another way"})
    transcript = Transcript(store, ID, whole=True, redactor=None)
    assert sorted(map(transcript.opening, transcript.outline.paths)) == ["another way", "fix the door"]


def test_exports_do_not_call_it_the_user(store: clew.Store) -> None:
    document = json.loads(store.export(ID, "json"))
    assert [entry["role"] for entry in document["entries"]] == ["other", "user", "assistant", "other"]
    assert document["session"]["user_turns"] == 1
    markdown = store.export(ID, "markdown")
    assert (markdown.count("### User"), markdown.count("### Added by the agent")) == (1, 2)
    whole = store.export(ID, "html", whole=True)
    assert (whole.count('<article class="user '), whole.count('<article class="other ')) == (1, 2)


def test_the_command_line_names_it(store: clew.Store) -> None:
    names = ["injected", "user", "assistant", "injected"]
    assert [who(entry) for entry in store.get(ID).entries()] == names
    assert [who(entry) for entry in entries_of_tree(store, store.get(ID).tree())] == names
