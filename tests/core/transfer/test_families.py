"""Session files of whole families: a session, its forks and theirs, exported one by one and imported in any
order, are what they were."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.model import Head
from tests.core.transfer.kinds import KINDS, Open
from tests.support.effort import usually
from tests.support.stores import wander


def say(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def family(store: clew.Store, files: Path) -> None:
    """A session, forks at its beginning, in its middle and at its end, forks of forks, and a subagent."""
    files.mkdir(exist_ok=True)
    (files / "note.txt").write_text("a file\n")
    base = store.session("base", title="first", tags=["t"], metadata={"is": 1}, workspace="/w")
    base.add_alias("the-base")
    for number in range(6):
        base.append(say(f"question {number}"), say(f"answer {number}", "assistant"))
    base.annotate(2, note="of the base", label="good")
    base.checkpoint("half", state={"n": 1}, files=files)
    middle = base.fork("middle", at=5)
    middle.add_alias("in-the-middle")
    middle.append(say("another way"), say("well", "assistant"))
    middle.annotate(6, label="good", note="mine")
    early = base.fork("early", at=1)
    early.append(say("right away"))
    of_fork = middle.fork("of-fork", at=6)
    of_fork.append(say("deeper"))
    of_fork.fork("deepest").append(say("deepest"))
    base.fork("silent")  # it has nothing of its own
    base.rewind(8)
    base.append(say("instead"), say("so be it", "assistant"))
    left = base.fork("from-left-behind", at=9)
    left.rewind(3)
    left.append(say("back"))
    base.add_event("step", {"n": 1}, id="e1")
    base.add_usage(model="m", input_tokens=3, output_tokens=4, cost="0.01", entry=3)
    early.set_var("v", [1])
    early.set_summary("short")
    child = store.create("child", metadata={"parent": "middle"})
    child.append(say("do it"))
    child.fork("child-fork").append(say("again"))


def state(store: clew.Store) -> dict[str, Any]:
    """All that public methods tell, without the names of snapshots, which files of sessions do not hold."""
    found: dict[str, Any] = {}
    for info in store.list(limit=1000, subagents=True):
        session = store.get(info.id)
        entries = {}
        for branch in session.tree().branches:
            if branch.last >= branch.first:
                for one in session.entries(at=Head(branch.id, branch.last)):
                    entries[one.id] = one.hash, one.raw, one.kind, dict(one.annotations), one.stamp
        tree = session.tree()
        found[info.id] = {
            "info": info,
            "entries": dict(sorted(entries.items())),
            "path": [one.id for one in session.entries()],
            "branches": sorted(
                (one.id, one.session, one.parent, one.first, one.last) for one in tree.branches
            ),
            "heads": tree.heads,
            "forks": tree.forks,
            "children": tree.children,
            "vars": session.vars(),
            "checkpoints": sorted((one.name, one.head, one.created_at) for one in session.checkpoints()),
            "events": [(one.id, one.type, one.data, one.at) for one in session.events(limit=10_000)],
            "usage": [(one.input_tokens, one.cost, one.entry) for one in session.usage_records()],
            "labels": sorted(entry for entry, row in entries.items() if "label" in row[3]),
        }
    return found


def export_all(store: clew.Store, folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = []
    for number, info in enumerate(store.list(limit=1000, subagents=True)):
        path = folder / f"{number}.jsonl"
        store.export(info.id, "jsonl", path=path)
        paths.append(path)
    return paths


def is_in_trash(store: clew.Store) -> bool:
    """Whether something is that cannot come out again: its id has another session now."""
    for info in store.list(limit=1000, deleted=True, subagents=True):
        with suppress(clew.ConflictError):
            store.restore_deleted(info.id)
    return bool(list(store.list(limit=1, deleted=True, subagents=True)))


def lines_of(path: Path) -> list[bytes]:
    """Without those of checkpoints, which name snapshots, and without the checksums around."""
    lines = (line.partition(b'"kind"')[2] for line in path.read_bytes().splitlines())
    return [line for line in lines if b'"type":"checkpoint"' not in line]


def check_orders(stores: Open, kind: str, wanted: dict[str, Any], orders: list[list[Path]]) -> None:
    for order in orders:
        store = stores(kind)
        for path in order:
            report = store.import_path(path, format="jsonl")
            assert report.left_out == ()
        assert state(store) == wanted
        for path in order:
            assert [one.state for one in store.import_path(path).sessions] == ["unchanged"]
        assert state(store) == wanted
        assert store.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_comes_back_whole_in_any_order(stores: Open, tmp_path: Path, kind: str) -> None:
    source = stores(kind)
    family(source, tmp_path / "files")
    paths = export_all(source, tmp_path / "out")
    chance = random.Random(1)
    orders = [paths, paths[::-1]]
    orders += [chance.sample(paths, len(paths)) for _ in range(usually(3, quick=1, thorough=40))]
    check_orders(stores, kind, state(source), orders)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_a_family_comes_back_whole_and_twice_changes_nothing(
    stores: Open, tmp_path: Path, kind: str
) -> None:
    source, store = stores(kind), stores(kind)
    family(source, tmp_path / "files")
    paths = export_all(source, tmp_path / "out")
    assert store.import_path(tmp_path / "out").new == len(paths)
    assert state(store) == state(source)
    assert store.import_path(tmp_path / "out").unchanged == len(paths)
    assert source.import_path(tmp_path / "out").unchanged == len(paths)
    assert state(store) == state(source)
    again = export_all(store, tmp_path / "again")
    assert sorted(map(lines_of, again)) == sorted(map(lines_of, paths))


@pytest.mark.parametrize("order", [1, -1])
def test_a_family_without_its_secrets_comes_back_too(stores: Open, tmp_path: Path, order: int) -> None:
    source, store = stores("memory"), stores("memory")
    family(source, tmp_path / "files")
    source.get("base").append(say("the key is ghp_" + "a1B2" * 9))
    source.get("base").fork("with-a-secret").append(say("and again ghp_" + "a1B2" * 9))
    for number, info in enumerate(list(source.list(limit=1000, subagents=True))[::order]):
        path = tmp_path / f"{number}.jsonl"
        source.export(info.id, "jsonl", path=path, redact=True)
        assert b"a1B2a1B2" not in path.read_bytes()
        assert store.import_path(path).ok
    assert len(state(store)) == len(state(source))
    assert state(store)["with-a-secret"]["path"] == state(source)["with-a-secret"]["path"]
    assert store.verify().ok


def test_what_was_written_here_since_is_not_replaced(stores: Open, tmp_path: Path) -> None:
    source, store = stores("memory"), stores("memory")
    base = source.session("base")
    base.append(say("1"), say("2"))
    fork = base.fork("fork")
    fork.append(say("3"))
    paths = export_all(source, tmp_path / "out")
    for path in paths:
        store.import_path(path)
    store.get("base").append(say("here"))
    store.get("fork").append(say("here too"))
    store.get("base").annotate(0, note="mine")
    before = state(store)
    for path in paths:
        assert store.import_path(path).unchanged == 1
    assert state(store) == before


def test_every_order_of_a_session_and_its_forks(stores: Open, tmp_path: Path) -> None:
    source = stores("memory")
    base = source.session("base")
    base.append(*(say(f"m{number}") for number in range(6)))
    fork = base.fork("fork", at=3)
    fork.append(say("f"))
    fork.fork("of-fork", at=4).append(say("ff"))
    base.fork("other", at=3).append(say("o"))
    paths = export_all(source, tmp_path / "out")
    check_orders(stores, "memory", state(source), [list(one) for one in itertools.permutations(paths)])


def test_a_folder_is_read_with_bases_before_their_forks(stores: Open, tmp_path: Path) -> None:
    """Forks of a session that began anew may share no entry, and the base has entries with each of them."""
    source, store = stores("memory"), stores("memory")
    base = source.session("base")
    base.append(say("1"), say("2"))
    base.fork("x", at=1).append(say("x"))
    base.rewind(Head("", -1))
    base.append(say("new 1"), say("new 2"))
    base.fork("y", at=1).append(say("y"))
    for name, id in (("a", "x"), ("b", "y"), ("c", "base")):
        source.export(id, "jsonl", path=tmp_path / f"{name}.jsonl")
    assert store.import_path(tmp_path).new == 3
    assert state(store) == state(source)
    one_by_one = stores("memory")
    one_by_one.import_path(tmp_path / "a.jsonl")
    one_by_one.import_path(tmp_path / "b.jsonl")
    with pytest.raises(clew.ConflictError, match="into a new store together"):
        one_by_one.import_path(tmp_path / "c.jsonl")


def test_families_by_chance(stores: Open, tmp_path: Path) -> None:
    for seed in range(usually(16, quick=4, thorough=100)):
        source = stores("memory")
        wander(source, seed, 60)
        if is_in_trash(source):
            continue  # what is not exported is not there
        paths = export_all(source, tmp_path / f"out{seed}")
        wanted = state(source)
        chance = random.Random(seed)
        check_orders(stores, "memory", wanted, [chance.sample(paths, len(paths)) for _ in range(3)])


def test_a_session_that_went_on_after_its_fork_was_imported_is_brought_up_to_date(
    stores: Open, tmp_path: Path
) -> None:
    source, store = stores("memory"), stores("memory")
    base = source.session("base")
    base.append(say("1"), say("2"))
    store.import_path(export_all(source, tmp_path / "first")[0])
    base.append(say("3"), say("4"))
    fork = base.fork("fork")
    fork.append(say("5"))
    paths = export_all(source, tmp_path / "second")
    for path in paths:
        assert store.import_path(path).ok
    assert state(store) == state(source)


def test_a_file_brings_nothing_into_a_session_that_was_written_here(stores: Open, tmp_path: Path) -> None:
    source, store = stores("memory"), stores("memory")
    base = source.session("base")
    base.append(say("1"), say("2"))
    clew.copy(source, store)
    before = state(store)
    base.append(say("3"))
    base.annotate(0, note="planted", label="planted")
    base.fork("late").append(say("4"))
    base.fork("early", at=1).append(say("5"))
    late, early = tmp_path / "late.jsonl", tmp_path / "early.jsonl"
    source.export("late", "jsonl", path=late)
    source.export("early", "jsonl", path=early)
    with pytest.raises(clew.ConflictError, match="more of session 'base' than is there"):
        store.import_path(late)
    assert state(store) == before
    assert store.import_path(early).new == 1
    after = state(store)
    entries = after["base"]["entries"]
    assert {id: entries[id] for id in before["base"]["entries"]} == before["base"]["entries"]
    assert after["base"]["path"] == before["base"]["path"]
    assert after["base"]["info"] == before["base"]["info"]


def test_another_history_under_the_same_names_is_refused(stores: Open, tmp_path: Path) -> None:
    source, store = stores("memory"), stores("memory")
    base = source.session("base")
    base.append(say("1"), say("2"))
    paths = export_all(source, tmp_path / "first")
    store.import_path(paths[0])
    store.get("base").append(say("here"))
    base.append(say("there"))
    base.fork("fork").append(say("more"))
    before = state(store)
    for path in export_all(source, tmp_path / "second"):
        with pytest.raises(clew.ConflictError):
            store.import_path(path)
    assert state(store) == before
