"""Search beyond the conformance suite: what it costs others, what it leaves behind, what it survives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.backends.jsonl import JsonlBackend
from clew.backends.sqlite import SqliteBackend
from clew.backends.sqlite.sql import finding
from clew.core.messages.search_text import TextQuery
from clew.core.messages.words import parse
from clew.core.search import index
from clew.model.search import SearchPage
from clew.store import Store


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def found(store: Store, query: str = "word", **filters: Any) -> list[tuple[str, int]]:
    return [(hit.session, hit.position) for hit in store.search(query, limit=1000, **filters)]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with closing(SqliteBackend(tmp_path / "a.db", durability="process")) as backend:
        yield backend


@pytest.fixture
def store(backend: SqliteBackend) -> Iterator[Store]:
    with Store(backend) as store:
        yield store


def traced(backend: SqliteBackend, act: Callable[[], object]) -> list[str]:
    """The statements that the writing connection ran meanwhile."""
    statements: list[str] = []
    writer = backend._connections.writer
    assert writer is not None
    writer.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))
    act()
    writer.trace_v2(0)
    return statements


# An append waits for no index


def test_an_append_runs_the_same_statements_whether_anybody_searches_or_not(
    store: Store, backend: SqliteBackend
) -> None:
    s = store.session("s")
    s.append(user("word"))
    s.append(user("word"))
    before = traced(backend, lambda: s.append(user("word two")))
    store.search("word")
    s.append(user("word"))

    after = traced(backend, lambda: s.append(user("word two")))

    assert after == before
    assert not any("search" in statement for statement in after)


def test_an_append_writes_as_many_bytes_as_without_search(tmp_path: Path) -> None:
    def log_after_appends(name: str, *, searched: bool) -> int:
        with clew.open(tmp_path / name, durability="process") as store:
            s = store.session("s")
            s.append(user("word"))
            if searched:
                store.search("word")
            log = tmp_path / f"{name}-wal"
            with closing(apsw.Connection(str(tmp_path / name))) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for _ in range(20):
                s.append(user("word " * 10))
            return log.stat().st_size

    assert log_after_appends("a.db", searched=True) == log_after_appends("b.db", searched=False)


def test_a_search_over_much_that_is_new_lets_writers_in_between(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small transactions: each ends before the next is prepared."""
    monkeypatch.setattr(index, "ENTRIES", 10)
    sizes: list[int] = []
    put = index.Parcel.put

    def counted(parcel: index.Parcel, tx: Any) -> bool:
        sizes.append(len(parcel.rows))
        return put(parcel, tx)

    monkeypatch.setattr(index.Parcel, "put", counted)
    store.session("s").append(*(user("word") for _ in range(95)))
    for number in range(7):
        store.session(f"small-{number}").append(user("word"))

    assert len(found(store)) == 102
    assert max(sizes) <= 10
    assert len(sizes) >= 10


def test_a_store_in_which_nobody_has_written_is_not_gone_through_again(
    store: Store, backend: SqliteBackend
) -> None:
    store.session("s").append(user("word"))
    store.search("word")
    store.search("word")

    assert not traced(backend, lambda: store.search("word"))


# The newest are not sorted out of all


@pytest.mark.parametrize(
    "filters",
    [
        {}, {"role": 0}, {"since": 5}, {"until": 5},
        {"branches": frozenset({1})}, {"branches": frozenset(range(200))},
    ],
    ids=["all", "role", "since", "until", "a branch", "many branches"],
)  # fmt: skip
def test_hits_come_in_the_order_of_time_without_a_sort(
    backend: SqliteBackend, filters: dict[str, Any]
) -> None:
    sql, bindings = finding(TextQuery(query=parse("word"), limit=20, **filters), None)
    assert backend._connections.writer is not None
    plan = [row[3] for row in backend._connections.writer.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]

    assert plan[0].startswith("SCAN search_words VIRTUAL TABLE INDEX")
    walked = {step.split()[1] for step in plan if step.startswith("SCAN ")}
    assert walked <= {"search_words", "json_each"}
    assert not any("TEMP B-TREE" in step for step in plan)


# Completeness


def test_what_another_process_appended_is_found(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as one, clew.open(tmp_path / "a.db") as other:
        one.session("s").append(user("word"))
        for _ in range(3):  # the later ones find that nothing is new
            assert found(other) == [("s", 0)]
        one.get("s").append(user("word"))
        for _ in range(3):
            assert found(other) == [("s", 1), ("s", 0)]
        other.get("s").append(user("word"))
        assert found(one) == found(other) == [("s", 2), ("s", 1), ("s", 0)]


def test_an_indexing_that_was_cut_short_is_finished_by_the_next_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "ENTRIES", 10)
    put = index.Parcel.put
    left = [3]

    def failing(parcel: index.Parcel, tx: Any) -> bool:
        done = put(parcel, tx)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return done

    with clew.open(tmp_path / "a.db", durability="process") as store:
        store.session("s").append(*(user("word") for _ in range(55)))
        with monkeypatch.context() as patched:
            patched.setattr(index.Parcel, "put", failing)
            with pytest.raises(KeyboardInterrupt):
                store.search("word")

    with clew.open(tmp_path / "a.db") as store:
        assert len(found(store)) == 55


def parcels_of(store: Store) -> list[index.Parcel]:
    """What a search would index now."""
    parcels: list[index.Parcel] = []

    def keep(work: Callable[[Any], bool]) -> bool:
        parcels.append(work.__self__)  # type: ignore[attr-defined]
        return True

    index.catch_up(store._engine.read, keep)
    return parcels


def test_what_two_searches_index_at_once_is_found_once(store: Store) -> None:
    """The second finds that the first has done it, and does nothing."""
    store.session("s").append(user("word"), user("word"))
    parcels = parcels_of(store)
    assert found(store) == [("s", 1), ("s", 0)]

    assert [store._engine.run(parcel.put) for parcel in parcels] == [False]
    assert found(store) == [("s", 1), ("s", 0)]


def test_what_was_purged_while_it_was_indexed_is_not_found(store: Store, backend: SqliteBackend) -> None:
    store.session("s").append(user("word secretly"))
    parcels = parcels_of(store)
    store.delete("s", purge=True)

    assert [store._engine.run(parcel.put) for parcel in parcels] == [False]
    assert terms(backend) == set()


# What is left behind


def terms(backend: SqliteBackend) -> set[str]:
    """Every word in the index, those of deleted texts too if they are still there."""
    with closing(apsw.Connection(str(backend.path))) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search_words, row)")
        return {term for (term,) in connection.execute("SELECT term FROM terms")}


def test_p18_no_word_of_a_purged_session_is_left_in_the_index(store: Store, backend: SqliteBackend) -> None:
    for number in range(40):
        store.session("kept").append(user(f"plain text n{number}"))
        store.session("gone").append(user(f"Geheimnis xyzzy{number} getSecretValue{number}"))
        if number % 7 == 0:
            store.search("text")
    store.search("text")
    assert any(term.startswith("xyzzy") for term in terms(backend))

    store.delete("gone", purge=True)

    left = terms(backend)
    assert "n39" in left
    assert not [term for term in left if "xyzzy" in term or "secret" in term or "geheimnis" in term]
    content = b"".join(file.read_bytes() for file in backend.path.parent.iterdir())
    assert [word for word in (b"xyzzy", b"zzy1", b"ecretvalue", b"eheimnis") if word in content] == []
    assert len(found(store, "text")) == 40


def test_p18_no_word_of_a_message_that_a_rule_removed_is_left(store: Store, backend: SqliteBackend) -> None:
    s = store.session("s")
    s.append(user("xyzzy one"), user("two"), user("three"))
    store.search("two")
    store.set_retention(clew.Retention(max_messages=2))

    store.sweep(scrub=True)

    assert terms(backend) == {"two", "three", "r0", "b1"}


# Stores that cannot be written


def test_a_store_that_is_open_for_reading_only_is_searched_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        store.session("s").append(user("word"))
        store.search("word")
        store.session("s").append(user("word, not in the index"))
    before = path.read_bytes()

    with clew.open(path, read_only=True) as store:
        assert found(store) == [("s", 1), ("s", 0)]
        assert found(store, order="best") == [("s", 0), ("s", 1)]
        first = store.search("word", limit=1)
        assert [hit.position for hit in store.search("word", cursor=first.cursor)] == [0]
    assert path.read_bytes() == before


def test_p23_a_full_disk_does_not_keep_anybody_from_searching(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.session("s").append(user("word"))
    store.search("word")
    store.session("s").append(user("word, not in the index"))

    def full(*given: Any) -> bool:
        raise clew.errors.DiskFullError("no space left")

    monkeypatch.setattr(index.Parcel, "put", full)

    assert found(store) == [("s", 1), ("s", 0)]


def test_a_damaged_index_does_not_keep_anybody_from_searching(tmp_path: Path) -> None:
    """It can be made again from the entries, and they are what counts."""
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        store.session("s").append(*(user(f"word n{number}") for number in range(50)))
        store.search("word")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE search_words_data SET block = x'ff00ff00ff' WHERE id > 10")

    with clew.open(path) as store:
        assert found(store, "n7") == [("s", 7)]


# JSONL: the index of words is a part of a cache


def test_jsonl_all_is_found_when_the_index_was_deleted(tmp_path: Path) -> None:
    with closing(JsonlBackend(tmp_path / "s")) as backend, Store(backend) as store:
        store.session("s").append(user("word"), user("word"))
        assert found(store) == [("s", 1), ("s", 0)]
    for file in (tmp_path / "s").glob("index.db*"):
        file.unlink()

    with clew.open(f"jsonl:///{tmp_path / 's'}") as store:
        assert found(store) == [("s", 1), ("s", 0)]


def test_jsonl_a_log_that_was_replaced_is_searched_anew(tmp_path: Path) -> None:
    """What it had is not found any more, what it has is."""
    for name in ("a", "other"):
        with clew.open(f"jsonl:///{tmp_path / name}") as store:
            store.session("s").append(user(f"word of {name}"), user("word"))
            assert found(store, name) == [("s", 0)]
    [log] = (tmp_path / "a" / "sessions").rglob("*.jsonl")
    [other] = (tmp_path / "other" / "sessions").rglob("*.jsonl")
    log.write_bytes(other.read_bytes())

    with clew.open(f"jsonl:///{tmp_path / 'a'}") as store:
        assert found(store, "other") == [("s", 0)]
        assert found(store, "a") == []
        assert found(store) == [("s", 1), ("s", 0)]


def test_jsonl_what_stays_is_found_after_a_purge_of_others(tmp_path: Path) -> None:
    """A purge writes logs anew: every place in them is another then."""
    with clew.open(f"jsonl:///{tmp_path / 's'}") as store:
        for id in ("a", "b", "c"):
            store.session(id).append(user("word"))
        store.get("b").fork("fork").append(user("word"))
        assert len(found(store)) == 4
        store.delete("b", purge=True)

        assert sorted(found(store)) == [("a", 0), ("c", 0), ("fork", 0), ("fork", 1)]


# The async face


def test_search_can_be_awaited() -> None:
    async def searched() -> SearchPage:
        async with clew.open_async("memory:") as store:
            session = await store.session("s")
            await session.append(user("a word"))
            return await store.search("word", limit=5)

    page = asyncio.run(searched())

    assert [(hit.session, hit.snippet, hit.marks) for hit in page] == [("s", "a word", ((2, 6),))]


# What is told of the indexing


def test_an_indexing_tells_how_far_it_has_come(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "ENTRIES", 10)
    store.session("s").append(*(user("word") for _ in range(25)))
    store.session("t").append(*(user("word") for _ in range(5)))
    told: list[tuple[int, int]] = []

    index.catch_up(store._engine.read, store._engine.run, lambda *at: told.append(at))

    assert {total for _, total in told} == {30}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (30, 30)
    store.get("t").append(user("word"))
    told.clear()
    index.catch_up(store._engine.read, store._engine.run, lambda *at: told.append(at))
    assert told[-1] == (1, 1)
