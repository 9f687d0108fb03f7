"""Work of many transactions keeps each of them small, and lets others write in between.

Rows and pages are counted, not seconds: on SQLite others wait for the pages that a commit adds to the log.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.backends.contract import Transaction
from clew.backends.sqlite import SqliteBackend
from clew.core.engine import engine
from clew.core.retention import erase, sweep
from clew.model.retention import SweepAction

MOST_PAGES = 1000
"""4 MB: what a slow disk takes in 50 ms."""
WORDS = [f"{first}{last}" for first in ("bake", "corn", "file", "dust", "land") for last in range(150)]


@contextmanager
def commits(store: clew.Store) -> Iterator[list[int]]:
    """Of each commit of this store, how many pages it adds to the log."""
    found: list[int] = []
    before = 0

    def note(connection: apsw.Connection, name: str, pages: int) -> int:
        nonlocal before
        found.append(pages - before if pages > before else pages)
        before = pages
        return apsw.SQLITE_OK

    backend = store._engine.backend
    assert isinstance(backend, SqliteBackend)
    writer = backend._connections.writer
    assert writer is not None
    writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    writer.set_wal_hook(note)
    yield found
    writer.wal_autocheckpoint(1000)


def message(words: int) -> dict[str, str]:
    return {"role": "user", "content": " ".join(random.choices(WORDS, k=words))}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    random.seed(3)
    with clew.open(tmp_path / "a.db", durability="process") as opened:
        yield opened


def fill(store: clew.Store, sessions: int, messages: int, words: int = 60) -> None:
    for number in range(sessions):
        store.create(f"s{number:03}").append(*(message(words) for _ in range(messages)))


def test_a_sweep_that_purges_what_was_searched_writes_little_at_once(store: clew.Store) -> None:
    """The index of words was merged within the transaction that dropped a few hundred of its entries."""
    for first in range(8):
        for number in range(30):
            store.create(f"s{first}-{number}").append(*(message(60) for _ in range(100)))
        store.search("bake1")
    for info in list(store.list(limit=200)):
        store.delete(info.id)

    with commits(store) as pages:
        report = store.sweep(rules=clew.Retention(purge_after=timedelta(microseconds=1)))

    assert sum(action.verb == "purge" for action in report.actions) >= 100
    assert max(pages) < MOST_PAGES


def test_a_sweep_changes_few_sessions_in_a_transaction(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 120, 1, 3)
    together: list[int] = []
    apply_all = sweep.Sweep._apply_all

    def counted(self: sweep.Sweep, tx: Transaction, found: Sequence[sweep.Found]) -> list[SweepAction]:
        together.append(len(found))
        return apply_all(self, tx, found)

    monkeypatch.setattr(sweep.Sweep, "_apply_all", counted)

    store.sweep(rules=clew.Retention(max_sessions=1))

    assert sum(together) >= 119
    assert max(together) == sweep.AT_ONCE == 50


def test_a_search_indexes_little_in_a_transaction(store: clew.Store) -> None:
    fill(store, 30, 100, 150)

    with commits(store) as pages:
        store.search("bake1")

    assert len(pages) > 10
    assert max(pages) < MOST_PAGES
    with store._engine.read() as reader:
        assert reader.unsearched_trees() == []


def test_the_index_of_words_does_not_fall_behind_its_merges(store: clew.Store) -> None:
    """Else FTS5 merges sixteen parts of it at once, whatever that costs."""
    for first in range(40):
        store.create(f"s{first}").append(*(message(60) for _ in range(60)))
        store.search("bake1")

    backend = store._engine.backend
    assert isinstance(backend, SqliteBackend)
    assert backend._connections.writer is not None
    parts = backend._connections.writer.execute("SELECT count(DISTINCT segid) FROM search_words_idx").get
    assert parts < 16


def test_a_collection_drops_few_bytes_in_a_transaction(store: clew.Store, tmp_path: Path) -> None:
    """SQLite writes over what it drops: thirty packs at once were 8 MB in the log."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(60):
        (tree / f"{number}").write_bytes(os.urandom(200_000))
    session = store.create("s")
    session.checkpoint("c", files=tree)
    session.delete_checkpoint("c")

    with commits(store) as pages:
        report = store.gc()

    assert report.bytes > 10_000_000
    assert max(pages) < MOST_PAGES


def test_the_merge_of_a_collection_writes_few_bytes_in_a_transaction(
    store: clew.Store, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    session = store.create("s")
    for number in range(60):
        (tree / f"{number}").write_bytes(os.urandom(90_000))
        session.checkpoint(f"c{number}", files=tree)

    with commits(store) as pages:
        store.gc(merge=True)

    assert len(pages) > 5
    assert max(pages) < MOST_PAGES
    assert store.verify(full=True).problems == ()


def test_a_rule_for_messages_takes_few_away_in_a_transaction(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 1, 1500, 3)
    counts: list[int] = []
    take_away = erase.erase

    def counted(*args: Any) -> int | None:
        count = take_away(*args)
        counts.append(count or 0)
        return count

    monkeypatch.setattr(erase, "erase", counted)
    store.sweep(rules=clew.Retention(max_messages=100))

    assert sum(counts) >= 1300
    assert max(counts) <= 500


def test_others_can_write_while_long_work_makes_its_pause(
    store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause comes when no lock is held, and is longer than the others' between two looks."""
    fill(store, 20, 50)
    written = 0

    def another(seconds: float) -> None:
        nonlocal written
        assert seconds == engine.GAP
        with closing(apsw.Connection(str(tmp_path / "a.db"))) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        written += 1

    monkeypatch.setattr(engine, "TURN", 0.0)
    monkeypatch.setattr(time, "sleep", another)
    store.search("bake1")
    for info in list(store.list(limit=20)):
        store.delete(info.id)
    store.sweep(rules=clew.Retention(purge_after=timedelta(microseconds=1)))

    assert written > 20


def test_nobody_makes_a_pause_inside_a_transaction(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep all others out for as long."""
    fill(store, 3, 20)
    monkeypatch.setattr(engine, "TURN", 0.0)

    def never(seconds: float) -> None:
        raise AssertionError("a pause inside a transaction")

    monkeypatch.setattr(time, "sleep", never)
    found = store.transact(lambda tx: len(tx.search("bake1").hits))

    assert found > 0


def test_a_backup_folds_the_log_that_grew_meanwhile(store: clew.Store, tmp_path: Path) -> None:
    """Else the next append of whatever process would wait until all of it is in the file."""
    fill(store, 3, 20)

    store.backup(tmp_path / "b.db")

    name = f"file:{tmp_path / 'a.db'}?immutable=1"  # without the log
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(name, flags=flags)) as database:
        assert database.execute("SELECT count(*) FROM sessions").get == 3
