"""S-04: an older store that somebody else made is migrated and read by the rules of every other one."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.core.log.digest import checksum
from tests.backends.sqlite.schema.next_schema import TEXTS, plan_step, store_of_today
from tests.faults.crash.common import texts


class Exploit:
    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return open, (self.mark, "w")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store_of_today(tmp_path / "old.db")
    plan_step(tmp_path, monkeypatch)
    return tmp_path / "old.db"


def sql(path: Path, statement: str, *values: Any) -> list[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        return list(connection.execute(statement, values))


def use(path: Path) -> list[clew.ClewError]:
    """Everything that reads, of a store that is migrated on the way; what came out of it."""
    raised: list[clew.ClewError] = []
    with clew.open(path) as store:
        found = store.verify()
        for id in [info.id for info in store.list()]:
            session = store.get(id)
            reads: list[Callable[[], Any]] = [session.messages, session.context]
            reads += [
                partial(store.export, id, format, redact=redact)
                for format in ("json", "jsonl", "markdown", "html")
                for redact in (False, True)
            ]
            for read in reads:
                try:
                    read()
                except clew.ClewError as exc:
                    raised.append(exc)
        assert not found.ok or not raised
    return raised


def test_s04_a_pickle_in_the_place_of_a_message_is_damage(path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pickled = pickle.dumps(Exploit(mark))
    key = 1 << 32 | 1
    [(time, kind, flags)] = sql(path, "SELECT time, kind, flags FROM entries WHERE key = ?", key)
    right = checksum(pickled, 1, time, kind, 0, flags)
    sql(path, "UPDATE entries SET codec = 0, body = ?, checksum = ? WHERE key = ?", pickled, right, key)

    raised = use(path)

    assert raised
    assert all(isinstance(one, clew.CorruptError) for one in raised)
    assert not mark.exists()


def test_s04_a_pickle_in_the_place_of_a_record_is_damage(path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    sql(path, "UPDATE records SET value = ?", pickle.dumps(Exploit(mark)))
    use(path)
    with clew.open(path) as store:
        assert {info.id: texts(store.get(info.id)) for info in store.list()} == TEXTS
    assert not mark.exists()


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TRIGGER t AFTER UPDATE ON sessions BEGIN DELETE FROM entries; END",
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM sessions; END",
        "CREATE VIEW palette AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
    ],
)
def test_s04_s57_an_older_store_with_a_schema_of_somebody_else_is_not_migrated(
    path: Path, planted: str
) -> None:
    sql(path, planted)
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(clew.ClewError), clew.open(path) as store:
        store.create("new").append({"role": "user", "content": "x"})
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert sql(path, "PRAGMA user_version") == [(10,)]
