"""P21: a store of an older schema loses nothing, and a killed migration leaves the old schema or the new."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from importlib import resources
from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.sqlite import SqliteBackend
from clew.backends.sqlite.schema import MIGRATIONS
from clew.core.rows import MESSAGE, PENDING, EventRow, SessionQuery, SessionRow
from clew.files.objects import ObjectReader, ObjectWriter
from clew.testing.faults import call
from tests.crash.helper import chain_of, message, texts
from tests.crash.root import needs_strace
from tests.sqlite.failing import kill_migrations
from tests.sqlite.old_stores import TEXTS, store_of_schema_1


@pytest.fixture(params=[1, 2], ids=["schema 1", "schema 2"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    store_of_schema_1(tmp_path / "old.db")
    if request.param == 2:
        to_schema_2(tmp_path / "old.db")
    return tmp_path / "old.db"


def to_schema_2(path: Path) -> None:
    """As the version of Clew did whose newest schema that was; with an event in it."""
    step = resources.files("clew.backends.sqlite").joinpath("migrations", MIGRATIONS[1]).read_text("utf-8")
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.execute(step)
        connection.execute("INSERT INTO events VALUES (2 << 32 | 1, 5, '', 'kept', NULL, x'7b7d')")
        connection.execute("PRAGMA user_version = 2")


def version(path: Path) -> int:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return int(connection.execute("PRAGMA user_version").get)


@pytest.mark.parametrize("read_only", [False, True], ids=["migrated", "read-only"])
def test_p21_all_of_an_older_store_is_there(path: Path, read_only: bool) -> None:
    with closing(SqliteBackend(path, read_only=read_only)) as backend, backend.read() as reader:
        listed = reader.list_sessions(SessionQuery(limit=9))
        trash = reader.list_sessions(SessionQuery(limit=9, deleted=True))

        assert [(found.row.id, found.details.tags, found.run) for found in listed] == [
            ("a", ("t",), None),
            ("f", ("t",), None),
        ]
        assert [found.row.id for found in trash] == ["gone"]
        for row in (found.row for found in (*listed, *trash)):
            assert new_fields(row) == (PENDING, 0, 0, 0)
            assert reader.get_tip(row.head.branch, row.head.position) == row.head
        entries = [
            *reader.read_entries(1, 0, 3),
            *reader.read_entries(2, 3, 3),
            *reader.read_entries(3, 0, 0),
        ]
        assert [(entry.position, entry.kind, entry.epoch) for entry in entries] == [
            (position, MESSAGE, 0) for position in (0, 1, 2, 3, 3, 0)
        ]
        assert reader.read_messages(2, 3, 3) == [(3, message("forked"))]
        assert reader.get_record(1, "var", "v") == b"[1]"


@pytest.mark.parametrize("read_only", [False, True], ids=["migrated", "read-only"])
def test_p21_an_older_store_has_what_is_new_and_nothing_in_it(path: Path, read_only: bool) -> None:
    was = version(path)
    with closing(SqliteBackend(path, read_only=read_only)) as backend, backend.read() as reader:
        totals = reader.totals(1_750_000_000_006_000)

        assert (totals.sessions, totals.deleted, totals.messages, totals.entries) == (2, 1, 6, 6)
        assert (totals.by_status, totals.active, totals.created) == ({PENDING: 2}, {PENDING: 1}, 1)
        assert [row.sid for row in reader.due_sessions(0, 9)] == [1, 2, 3]
        assert [row.id for row in reader.idle_sessions(9)] == ["f", "a"]
        assert [len(reader.list_sessions(SessionQuery(limit=9, status=n))) for n in range(7)] == [2] + [0] * 6
        assert reader.event_bounds(1) == (1, 0)
        assert reader.read_events(1, 0, 9) == reader.read_events(1, 0, 9, "x") == []
        assert (reader.find_event(1, "x"), reader.find_usage(1, "x")) == (None, None)
        assert (reader.last_usage(1), reader.sum_usage(None, "workspace")) == (None, [])
        assert reader.count_entries(1, 0, 9, MESSAGE) == 4
        assert (reader.find_objects([b"x"] * 200), reader.find_objects([b"x"])) == ({}, {})
        assert (reader.scan_objects(b"", 9), reader.list_packs(0, 9)) == ([], [])
        with pytest.raises(KeyError):
            reader.get_pack(1)
        kept = [] if was == 1 else [EventRow(1, 5, "", "kept", None, b"{}")]
        assert reader.read_events(2, 0, 9) == kept


def test_p21_only_a_writer_changes_the_schema(path: Path) -> None:
    before = version(path), hashlib.sha256(path.read_bytes()).digest()
    SqliteBackend(path, read_only=True).close()
    assert (version(path), hashlib.sha256(path.read_bytes()).digest()) == before
    SqliteBackend(path).close()
    assert version(path) == len(MIGRATIONS) == 4


def test_p21_work_goes_on_in_an_older_store(path: Path) -> None:
    with clew.open(path) as store:
        assert {info.id: texts(store.get(info.id)) for info in store.list()} == TEXTS
        session = store.get("alias")
        session.undo()
        assert texts(session) == [*TEXTS["a"], "four"]
        session.append(message("five"))
        store.restore_deleted("gone")
        assert texts(store.get("gone")) == ["trashed"]
        store.create("new").append(message("new"))
    with clew.open(path) as store:
        content = bytes(range(256)) * 100
        writer = ObjectWriter(store._engine)
        name = writer.put(content)
        writer.flush()
        assert ObjectReader(store._engine.read).get(name) == content
        assert texts(store.get("a")) == [*TEXTS["a"], "four", "five"]
        assert [line for info in store.list() for line in chain_of(store.get(info.id))] == []


@needs_strace
@pytest.mark.parametrize("kind", ["new", "step", "schema 1"])
@pytest.mark.parametrize(("syscall", "every"), [("fdatasync", 1), ("pwrite64", 4)])
def test_p21_a_killed_migration_leaves_the_old_or_the_new_schema_and_can_be_finished(
    tmp_path: Path, kind: str, syscall: str, every: int
) -> None:
    result = call(kill_migrations, str(tmp_path), kind, syscall, every, timeout=100)

    assert result["wrong"] == {}
    assert result["old"] > 0


def new_fields(row: SessionRow) -> tuple[int, int, int, int]:
    return row.status, row.epoch, row.fence, row.due


@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "jsonl, its index"])
def test_p21_a_process_that_is_open_stops_writing_when_a_newer_clew_migrates_the_store(
    tmp_path: Path, kind: str
) -> None:
    """It notices with its next transaction, whatever that is. What is there can be read."""
    place = tmp_path / "store"
    address = str(place) if kind == "sqlite" else f"jsonl:///{place}"
    with clew.open(address) as store:
        session = store.session("s")
        session.append(message("before"))
        if kind == "jsonl":
            about = place / "clew.json"
            newer = json.loads(about.read_text()) | {"format": 99}
            about.with_name("clew.json.new").write_text(json.dumps(newer))
            about.with_name("clew.json.new").replace(about)
        else:
            with closing(apsw.Connection(str(place if kind == "sqlite" else place / "index.db"))) as other:
                other.execute("CREATE TABLE of_a_newer_clew (x)")
                other.execute("PRAGMA user_version = 99")
        for write in (
            lambda: session.append(message("never")),
            lambda: session.set_var("v", 1),
            lambda: store.create("never"),
            lambda: store.transact(lambda tx: tx.session("never")),
            lambda: store.delete("s"),
        ):
            with pytest.raises(clew.SchemaTooNewError, match="99"):
                write()
        session.append_nowait(message("never"))
        with pytest.raises(clew.SchemaTooNewError):
            store.flush()

        assert texts(session) == ["before"]
        assert [info.id for info in store.list()] == ["s"]
