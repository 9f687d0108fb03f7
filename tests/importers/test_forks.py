"""A session that a program forked is a fork here, and what it has in common with its base is stored once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import clew
from clew.model.source import SourceEntry, SourceSession
from tests.importers.hostile.forged_files import store_of
from tests.importers.programs.claude_code.test_reader import SESSION, Log
from tests.importers.programs.test_codex import ID, OTHER, THREAD, Rollout, texts

CHILD = f"codex:{OTHER}"


@pytest.fixture
def store(backend: str, tmp_path: Path) -> Iterator[clew.Store]:
    with store_of(backend, tmp_path) as opened:
        yield opened


def copying(home: Path) -> list[Rollout]:
    """A fork of the old kind: all lines again, with the time of the copy."""
    base = Rollout(home).user("one").model("1").user("two").model("2")
    born = {"timestamp": "2025-09-01T10:00:01.000Z"}
    fork = Rollout(home, OTHER, forked_from_id=THREAD)
    fork.put("session_meta", {"id": THREAD}, **born).user("one", **born).model("1", **born)
    fork.user("mine").model("3")
    return [base, fork]


def naming(home: Path) -> list[Rollout]:
    """A fork that names how much of its base it continues."""
    base = Rollout(home).user("one").model("1")
    size = base.path.stat().st_size
    base.user("two").model("2")
    reference = {"thread_id": THREAD, "end_byte_offset": size}
    fork = Rollout(home, OTHER, forked_from_id=THREAD, history_base=reference).user("mine").model("3")
    return [base, fork]


def entries_stored(store: clew.Store) -> int:
    """In the trees of all sessions, each once."""
    trees = [store.get(info.id).tree() for info in store.list()]
    return sum(
        {branch.id: branch.last - branch.first + 1 for tree in trees for branch in tree.branches}.values()
    )


@pytest.mark.parametrize("make", [copying, naming])
@pytest.mark.parametrize("order", ["base first", "fork first", "together"])
def test_a_fork_of_codex_shares_the_entries_of_its_base(
    store: clew.Store, tmp_path: Path, order: str, make: Callable[[Path], list[Rollout]]
) -> None:
    files = [rollout.path for rollout in make(tmp_path)]
    if order == "together":
        store.import_path(tmp_path / "sessions")
    else:
        for path in files if order == "base first" else files[::-1]:
            store.import_path(path)
    assert texts(store.get(ID)) == ["one", "1", "two", "2"]
    assert texts(store.get(CHILD)) == ["one", "1", "mine", "3"]
    assert entries_stored(store) == 6
    point = store.get(CHILD).info.forked_from
    assert point is not None
    assert (point.session, point.head.position) == (ID, 1)
    assert store.get(ID).info.forked_from is None
    assert store.get(CHILD).info.metadata["copied_from"] == ID
    assert [store.get(id).info.title for id in (ID, CHILD)] == ["one", "one"]
    again = [store.import_path(path, again=True) for path in files]
    assert [(report.unchanged, report.entries) for report in again] == [(1, 0), (1, 0)]
    assert store.verify().ok


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_both_go_on_by_themselves_after_that(store: clew.Store, tmp_path: Path, order: list[int]) -> None:
    rollouts = copying(tmp_path)
    for number in order:
        store.import_path(rollouts[number].path)
    for rollout, text in zip(rollouts, ("base goes on", "fork goes on"), strict=True):
        assert store.import_path(rollout.user(text).path).entries == 1
    assert texts(store.get(ID)) == ["one", "1", "two", "2", "base goes on"]
    assert texts(store.get(CHILD)) == ["one", "1", "mine", "3", "fork goes on"]
    assert entries_stored(store) == 8
    assert store.verify().ok


def test_a_fork_lives_on_when_its_base_is_purged(store: clew.Store, tmp_path: Path) -> None:
    for rollout in copying(tmp_path):
        store.import_path(rollout.path)
    store.delete(ID, purge=True)
    assert texts(store.get(CHILD)) == ["one", "1", "mine", "3"]
    assert store.verify().ok


def test_a_base_that_is_in_the_trash_is_not_shared(store: clew.Store, tmp_path: Path) -> None:
    base, fork = copying(tmp_path)
    store.import_path(base.path)
    store.delete(ID)
    store.import_path(fork.path)
    assert store.get(CHILD).info.forked_from is None
    assert texts(store.get(CHILD)) == ["one", "1", "mine", "3"]


def test_a_copy_that_says_something_else_from_the_start_shares_nothing(
    store: clew.Store, tmp_path: Path
) -> None:
    base = Rollout(tmp_path).user("one")
    fork = Rollout(tmp_path, OTHER, forked_from_id=THREAD).user("something else")
    for path in (base.path, fork.path):
        store.import_path(path)
    assert store.get(CHILD).info.forked_from is None
    assert entries_stored(store) == 2


def session(id: str, *names: str, base: str | None = None, **notes: str) -> SourceSession:
    entries = [
        SourceEntry(
            uid=f"{id}-{name}",
            parent=f"{id}-{names[at - 1]}" if at else None,
            message={"role": "user", "content": name},
            notes=notes,
        )
        for at, name in enumerate(names)
    ]
    return SourceSession(id=id, entries=entries, parent=base, is_copy=base is not None)


def test_a_fork_of_claude_code_shares_the_entries_of_its_base(store: clew.Store, tmp_path: Path) -> None:
    base = Log(tmp_path / f"{SESSION}.jsonl").user("u1").model("a1", "m").user("u2")
    other = "99999999-1111-4222-8333-444455556666"
    fork = Log(tmp_path / f"{other}.jsonl", sessionId=other)
    for line in base.path.read_text().splitlines()[:2]:
        record = json.loads(line)
        origin = {"sessionId": SESSION, "messageUuid": record["uuid"]}
        uuid, parent = f"f{record['uuid']}", record["parentUuid"] and f"f{record['parentUuid']}"
        fork.raw({**record, "sessionId": other, "uuid": uuid, "parentUuid": parent, "forkedFrom": origin})
    content = fork.path.read_bytes()
    store.import_path(tmp_path)
    child = store.get(other)
    assert child.info.forked_from is not None
    assert (child.info.forked_from.session, child.info.forked_from.head.position) == (
        f"claude-code:{SESSION}",
        1,
    )
    assert entries_stored(store) == 3
    assert store.export(child.id, "claude-code").encode() == content
    assert store.verify().ok


def test_what_a_copy_notes_otherwise_is_not_lost(store: clew.Store) -> None:
    store.load(session("base", "a", "b", by="x"))
    store.load(session("copy", "a", "b", "c", base="base", by="y"))
    assert [entry.annotations["by"] for entry in store.get("copy").entries()] == ["y", "y", "y"]


def test_a_fork_is_made_where_the_base_was_abandoned(store: clew.Store) -> None:
    store.load(session("base", "a", "b", "c"))
    store.get("base").rewind(0)
    store.get("base").append({"role": "user", "content": "here"})
    store.load(session("copy", "a", "b", "d", base="base"))
    assert [message["content"] for message in store.get("copy").messages()] == ["a", "b", "d"]
    assert entries_stored(store) == 5
    assert store.verify().ok


def test_the_tree_of_a_session_knows_its_subagents_and_theirs(store: clew.Store) -> None:
    store.load(session("main", "a"))
    store.load(msgspec.structs.replace(session("main/1", "b"), parent="main"))
    store.load(msgspec.structs.replace(session("main/1/2", "c"), parent="main/1"))
    store.load(msgspec.structs.replace(session("ring", "d"), parent="ring"))
    assert dict(store.get("main").tree().children) == {"main/1": "main", "main/1/2": "main/1"}
    assert dict(store.get("main/1/2").tree().children) == {}
    assert dict(store.get("ring").tree().children) == {}
