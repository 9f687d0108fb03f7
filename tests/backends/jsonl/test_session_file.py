"""A session as a file: from any store, into any store, byte for byte the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing.backend.base import user
from clew.testing.chain import check_store

KINDS = ["memory", "sqlite", "jsonl"]
Opener = Callable[[str], clew.Store]


def brought(store: clew.Store, path: Path) -> clew.Session:
    (found,) = store.import_path(path).sessions
    return store.get(found.id)


@pytest.fixture
def opened(fast_path: Path) -> Any:
    stores: list[clew.Store] = []

    def open_one(kind: str) -> clew.Store:
        place = fast_path / f"store-{len(stores)}"
        url = {"memory": "memory:", "sqlite": f"sqlite:///{place}.db", "jsonl": f"jsonl:///{place}"}[kind]
        stores.append(clew.open(url))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def fill(store: clew.Store) -> None:
    store.session("elsewhere").append(user("so that numbers differ"))
    base = store.session("base")
    base.append(*(user(f"{number}") for number in range(5)))
    base.checkpoint("inherited", state={"n": 1})
    fork = base.fork("s")
    base.append(user("not for the fork"))
    fork.append(user("mine"), user("left behind"), key="k")
    fork.rewind(5)
    fork.append(user("at the end: ä \U0001f600"))
    fork.annotate(0, label="l", note="n")
    fork.annotate(5, label="l")
    fork.checkpoint("own")
    fork.add_alias("alias")
    fork.set_var("v", [1, {"a": None}])
    fork.update(title="t", tags=["x"], metadata={"m": 1})
    fork.add_event("step", {"n": 1})
    fork.add_usage(model="m", input_tokens=3, output_tokens=4)


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("origin", KINDS)
def test_export_import_export_is_the_same_file(
    fast_path: Path, opened: Opener, origin: str, target: str
) -> None:
    """P19: whatever the stores; the same file again adds nothing."""
    source, sink = opened(origin), opened(target)
    fill(source)
    sink.session("other").append(user("was here before"))
    first, second = fast_path / "first.jsonl", fast_path / "second.jsonl"
    source.export("s", "jsonl", path=first)
    for _ in range(2):
        session = brought(sink, first)
    sink.export("s", "jsonl", path=second)

    assert second.read_bytes() == first.read_bytes()
    assert session.messages() == source.get("s").messages()
    assert session.info.id == "s"
    assert [entry.id for entry in session.entries(label="l")] == [
        entry.id for entry in source.get("s").entries(label="l")
    ]
    assert [checkpoint.name for checkpoint in session.checkpoints()] == ["inherited", "own"]
    assert sink.get("alias").id == "s"
    assert sorted(info.id for info in sink.list()) == ["other", "s"]
    check_store(sink)
    session.undo()
    assert session.messages()[-1]["content"] == "left behind"
    session.append(user("goes on"))


@pytest.mark.parametrize("redact", [False, True])
def test_a_file_that_opens_as_a_store_finds_its_notes(fast_path: Path, opened: Opener, redact: bool) -> None:
    """Also one without secrets: what is found is the note as it stands beside the entry there."""
    source = opened("memory")
    source.session("elsewhere").append(user("so that numbers differ"))
    source.session("s").append(user("one"), user("two"))
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    source.get("s").annotate(1, note=f"word {secret}", label="l")
    file = fast_path / "new" / "sessions" / "whatever.jsonl"
    file.parent.mkdir(parents=True)
    source.export("s", "jsonl", path=file, redact=redact)
    with clew.open(f"jsonl:///{fast_path / 'new'}") as store:
        (hit,) = store.search("word")
        assert (hit.position, hit.snippet) == (1, next(store.get("s").entries(last=1)).annotations["note"])
        assert (secret in hit.snippet) is not redact
        assert (secret.encode() in file.read_bytes()) is not redact
        check_store(store)
        assert store.verify().ok


def test_an_exported_file_is_a_log_that_opens_as_a_store(fast_path: Path, opened: Opener) -> None:
    """Put it into an empty `sessions` directory."""
    source = opened("memory")
    fill(source)
    place = fast_path / "new"
    (place / "sessions").mkdir(parents=True)
    source.export("s", "jsonl", path=place / "sessions" / "whatever.jsonl")
    before = source.get("s").messages()
    with clew.open(f"jsonl:///{place}") as store:
        session = store.get("alias")
        assert session.messages() == before
        assert [checkpoint.name for checkpoint in session.checkpoints()] == ["inherited", "own"]
        session.append(user("next"))
        check_store(store)
        store.delete(store.create("other").id, purge=True)
        store.export("s", "jsonl", path=fast_path / "again.jsonl")
    shutil.copytree(place / "sessions", fast_path / "third" / "sessions")
    with clew.open(f"jsonl:///{fast_path / 'third'}") as store:
        assert store.get("s").messages() == [*before, user("next")]


def test_what_is_no_session_is_refused(fast_path: Path, opened: Opener) -> None:
    """And nothing of it is left in the store."""
    file = fast_path / "notes.jsonl"
    file.write_text('{"role":"user"}\n')
    store = opened("memory")
    with pytest.raises(clew.errors.InvalidError, match=r"notes\.jsonl"):
        brought(store, file)

    assert list(store.list()) == []
    assert file.read_text() == '{"role":"user"}\n'


def test_a_fork_without_a_word_of_its_own_is_exported_with_what_it_inherits(
    fast_path: Path, opened: Opener
) -> None:
    """Its head is on a branch of its base."""
    source, sink = opened("jsonl"), opened("memory")
    base = source.session("base")
    base.append(user("one"), user("two"), user("three"))
    fork = base.fork("f", at=1)
    source.export("f", "jsonl", path=fast_path / "f.jsonl")
    session = brought(sink, fast_path / "f.jsonl")

    assert session.messages() == fork.messages() == [user("one"), user("two")]
    assert b"three" not in (fast_path / "f.jsonl").read_bytes()
    session.append(user("on"))
    assert len(session.messages()) == 3
    check_store(sink)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_is_exported_with_all_that_it_may_come_back_to(
    fast_path: Path, opened: Opener, kind: str
) -> None:
    """Its checkpoints, undo and redo may lead to entries of its base that are behind its head."""
    source, sink = opened(kind), opened("memory")
    base = source.session("base")
    base.append(user("one"), user("two"), user("three"), user("four"))
    base.rewind(2)
    base.checkpoint("third")
    fork = base.fork("f")
    fork.rewind(0)
    source.export("f", "jsonl", path=fast_path / "f.jsonl")
    session = brought(sink, fast_path / "f.jsonl")

    assert session.messages() == fork.messages() == [user("one")]
    session.rewind("third")
    assert session.messages() == [user("one"), user("two"), user("three")]
    session.undo()
    session.undo()
    assert session.messages() == [user("one"), user("two"), user("three")]
    assert b"four" not in (fast_path / "f.jsonl").read_bytes()
    assert sink.verify(full=True).ok
    check_store(sink)
