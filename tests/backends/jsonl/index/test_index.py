"""The index is a cache: deleted, damaged or stale, it comes back complete, also under a living process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.backends.jsonl.layout import encoded
from clew.core.conversation import sessions
from clew.core.conversation.sessions import Changes
from clew.core.engine.commit import Pending
from clew.core.log.rows import SessionRow
from clew.testing.backend.base import user
from clew.testing.chain import check_store
from tests.backends.jsonl.stores import drop_variable, said, without_index
from tests.support.effort import usually


def fill(store: clew.Store) -> None:
    session = store.session("s", tags=["t"])
    session.append(user("one"), user("two"), key="k")
    session.checkpoint("c")
    session.add_alias("alias")
    session.fork("f").append(user("three"))
    session.annotate(0, label="l")
    session.set_var("v", 1)
    store.session("trashed").append(user("gone"))
    store.delete("trashed")
    store.session("trashed").append(user("again"))


def picture(store: clew.Store) -> list[object]:
    """Everything that a user sees of the store that `fill` made."""
    check_store(store)
    session = store.get("alias")
    return [
        store.list(), store.list(deleted=True), said(store), said(store, "f"), session.checkpoints(),
        session.get_var("v"), list(session.entries(label="l")), store.list(tag="t"), session.tree(),
    ]  # fmt: skip


def garble(place: Path) -> None:
    (place / "index.db").write_bytes(b"this is no database" * 1000)
    for end in ("-wal", "-shm"):
        (place / f"index.db{end}").unlink(missing_ok=True)


def cut(place: Path) -> None:
    content = (place / "index.db").read_bytes()
    (place / "index.db").write_bytes(content[: len(content) // 2 // 4096 * 4096])


def zero_the_middle(place: Path) -> None:
    content = bytearray((place / "index.db").read_bytes())
    content[4096 : 4096 * 20] = bytes(4096 * 19)
    (place / "index.db").write_bytes(content)


@pytest.mark.parametrize("harm", [without_index, garble, cut, zero_the_middle])
def test_an_index_that_is_gone_or_damaged_comes_back_complete(
    fast_path: Path, harm: Callable[[Path], None]
) -> None:
    """P6, F-12, F-13: it is never the truth."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        fill(store)
        before = picture(store)
    harm(place)
    for _ in range(2):
        try:
            with clew.open(f"jsonl:///{place}") as store:
                assert picture(store) == before
        except clew.errors.CorruptError:
            continue  # found while in use: the next to open it makes a new one
        break
    else:
        pytest.fail("a damaged index was found, but not replaced")


def test_an_index_deleted_under_a_living_process_comes_back(fast_path: Path) -> None:
    """Handles go on; those who wrote, write; nothing is missed."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        fill(store)
        session = store.get("s")
        before = picture(store)
        without_index(place)
        assert picture(store) == before
        session.append(user("more"))
        without_index(place)
        session.append(user("and more"))
        assert said(store) == ["one", "two", "more", "and more"]
        with clew.open(f"jsonl:///{place}") as other:
            assert said(other) == said(store)


def test_an_older_index_catches_up(fast_path: Path) -> None:
    """What a power cut leaves: whole, but not the newest."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("s").append(user("one"))
    shutil.copy(place / "index.db", fast_path / "old.db")
    with clew.open(f"jsonl:///{place}") as store:
        fill(store)
        before = picture(store)
    shutil.copy(fast_path / "old.db", place / "index.db")
    with clew.open(f"jsonl:///{place}") as store:
        assert picture(store) == before


def test_an_older_log_is_read_as_it_is(fast_path: Path) -> None:
    """F-13: a file put back from a backup."""
    place = fast_path / "store"
    log = place / "sessions" / "s.jsonl"
    with clew.open(f"jsonl:///{place}") as store:
        session = store.session("s")
        session.append(user("one"))
        old = log.read_bytes()
        session.append(user("two"))
    log.write_bytes(old)
    with clew.open(f"jsonl:///{place}") as store:
        assert said(store) == ["one"]
        store.get("s").append(user("three"))
        assert said(store) == ["one", "three"]


def test_a_store_that_can_not_be_written_is_read(fast_path: Path) -> None:
    """P23, F-15: also without an index, and nothing is left in it."""
    place = fast_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        fill(store)
        before = picture(store)
    for has_index in (True, False):
        if not has_index:
            without_index(place)
        with clew.open(f"jsonl:///{place}", read_only=True) as store:
            assert picture(store) == before
            with pytest.raises(clew.errors.ReadOnlyError):
                store.session("new")
    assert not (place / "index.db").exists()


def test_names_of_files_are_safe_and_never_the_same() -> None:
    """S-01, I-11: on disks that do not tell case, on Windows, for every id."""
    ids = [
        "a", "A", "con", "CON", "com1", "a.", "a ", "a/b", "a\\b", "..", ".", "a%2e", "ä", "Ä", "a~1", "é",
        "e\u0301", "x" * 512, "x" * 511 + "y", "X" * 512, "nul.txt", "a:b", "*", "\n",
    ]  # fmt: skip
    names = [encoded(id) for id in ids]

    assert len({name.casefold() for name in names}) == len(ids)
    for name in names:
        assert name == name.lower()
        assert len(name) < 200
        assert not set(name) & set('<>:"/\\|?*. \n')
        assert name not in ("con", "prn", "aux", "nul", "com1", "lpt1")


def test_ids_that_differ_in_case_are_different_sessions(fast_path: Path) -> None:
    with clew.open(f"jsonl:///{fast_path / 'store'}") as store:
        store.session("a").append(user("small"))
        store.session("A").append(user("large"))
        assert (said(store, "a"), said(store, "A")) == (["small"], ["large"])


def test_a_directory_is_opened_as_what_it_holds(fast_path: Path) -> None:
    """An empty one, or one that holds a store; another is refused."""
    empty, full = fast_path / "empty", fast_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    for _ in range(2):
        with clew.open(empty) as store:
            store.session("s")
    assert (empty / "clew.json").exists()
    for address in (full, str(full), f"jsonl:///{full}"):
        with pytest.raises(clew.errors.InvalidUrlError, match=r"notes\.txt|holds no JSONL store"):
            clew.open(address)
    assert [file.name for file in full.iterdir()] == ["notes.txt"]


def test_thousands_of_sessions_are_listed(fast_path: Path) -> None:
    """By the index; reopening looks at each log's size only."""
    many = usually(2_000, quick=400, thorough=2_000)
    place = fast_path / "store"
    backend = JsonlBackend(place, durability="process")
    with clew.Store(backend) as store:
        nothing = Changes()

        def creating(number: int) -> Pending[SessionRow]:
            now = 1_750_000_000_000_000 + number
            return Pending(lambda tx: sessions.create(tx, f"s{number:05}", nothing, now))

        store._engine.committer.run_all([creating(number) for number in range(many)])
        assert store.stats().sessions == many
        assert [info.id for info in store.list(limit=2)] == [f"s{many - 1:05}", f"s{many - 2:05}"]
    without_index(place)
    with clew.open(f"jsonl:///{place}") as store:
        assert store.stats().sessions == many
        assert [info.id for info in store.list(limit=2)] == [f"s{many - 1:05}", f"s{many - 2:05}"]


def test_a_log_written_anew_under_readers_is_read_right(fast_path: Path) -> None:
    """While logs are rewritten over and over, a reader sees whole histories only."""
    import threading

    backend = JsonlBackend(fast_path / "store", durability="process")
    with clew.Store(backend) as store:
        session = store.session("s")
        session.append(*(user(f"{number}" * 50) for number in range(50)))
        expected = session.messages()
        wrong: list[object] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                try:
                    if session.messages() != expected:
                        wrong.append("another history")
                except clew.ClewError as exc:
                    wrong.append(exc)

        thread = threading.Thread(target=read)
        thread.start()
        for _ in range(15):
            session.set_var("v", "x" * 300)
            drop_variable(backend, "v")
            try:
                backend.scrub()
            except clew.errors.StoreBusyError:
                continue  # the reader never paused
        stop.set()
        thread.join()

        assert wrong == []
