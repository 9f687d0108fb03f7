"""P21: a migration loses nothing, and one that is killed leaves the old schema or the new."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.sqlite import SqliteBackend
from clew.core.log.rows import MESSAGE, SessionQuery
from clew.files.objects.store import ObjectReader, ObjectWriter
from tests.backends.sqlite.failing_calls import kill_migrations
from tests.backends.sqlite.schema.next_schema import TEXTS, plan_step, store_of_today, version_of
from tests.faults.crash.common import chain_of, message, texts
from tests.support.children import call


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a store that lacks the newest migration."""
    store_of_today(tmp_path / "old.db")
    plan_step(tmp_path, monkeypatch)
    return tmp_path / "old.db"


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
        assert [event.type for event in reader.read_events(1, 0, 9)] == ["kept"]
        assert [used.input for used in reader.read_usage(1, 0, 9)] == [3]


def test_p21_only_a_writer_changes_the_schema(path: Path) -> None:
    before = version_of(path), hashlib.sha256(path.read_bytes()).digest()
    SqliteBackend(path, read_only=True).close()
    assert (version_of(path), hashlib.sha256(path.read_bytes()).digest()) == before
    SqliteBackend(path).close()
    assert (before[0], version_of(path)) == (10, 11)


def test_p21_work_goes_on_in_a_migrated_store(path: Path) -> None:
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


@pytest.mark.needs("strace")
@pytest.mark.parametrize("kind", ["new", "step", "0.1-dev"])
@pytest.mark.parametrize(("syscall", "every"), [("fdatasync", 1), ("pwrite64", 4)])
def test_p21_a_killed_migration_leaves_the_old_or_the_new_schema_and_can_be_finished(
    tmp_path: Path, kind: str, syscall: str, every: int
) -> None:
    result = call(kill_migrations, str(tmp_path), kind, syscall, every)

    assert result["wrong"] == {}
    assert result["old"] > 0


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
            with pytest.raises(clew.errors.SchemaTooNewError, match="99"):
                write()
        session.append_nowait(message("never"))
        with pytest.raises(clew.errors.SchemaTooNewError):
            store.flush()

        assert texts(session) == ["before"]
        assert [info.id for info in store.list()] == ["s"]
