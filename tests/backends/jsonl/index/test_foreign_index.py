"""S-34, S-57, S-06: an index that somebody else made is a cache like any other: it is made anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import clew
from clew.backends.jsonl.sql import INDEX
from clew.backends.sqlite.schema import expected_rows, fingerprint, newest
from tests.faults.crash.common import message, texts

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


def a_lost_table(index: Path) -> None:
    change(index, "DROP TABLE entries")


def an_endless_view(index: Path) -> None:
    change(index, "DROP TABLE logs", f"CREATE VIEW logs AS {ENDLESS}")


def an_endless_version(index: Path) -> None:
    change(index, "DROP TABLE index_version", f"CREATE VIEW index_version (version) AS {ENDLESS}")


def a_trigger(index: Path) -> None:
    change(index, "CREATE TRIGGER t AFTER INSERT ON logs BEGIN DELETE FROM details; END")


def a_link(index: Path) -> None:
    index.rename(index.parent.parent / "victim.db")
    index.symlink_to(index.parent.parent / "victim.db")


def a_fifo_for_its_log(index: Path) -> None:
    os.mkfifo(f"{index}-wal")


def change(index: Path, *statements: str) -> None:
    connection = apsw.Connection(str(index))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "harm", [a_lost_table, an_endless_view, an_endless_version, a_trigger, a_link, a_fifo_for_its_log]
)
@pytest.mark.parametrize("read_only", [False, True])
def test_s34_an_index_of_somebody_else_is_not_used(
    tmp_path: Path, harm: Callable[[Path], None], read_only: bool
) -> None:
    place = tmp_path / "store"
    with clew.open(f"jsonl:///{place}") as store:
        store.session("s").append(message("one"))
    harm(place / "index.db")
    victim = tmp_path / "victim.db"
    before = victim.read_bytes() if victim.exists() else b""

    with clew.open(f"jsonl:///{place}", read_only=read_only) as store:
        assert texts(store.get("s")) == ["one"]
        assert [info.id for info in store.list()] == ["s"]
        if not read_only:
            store.get("s").append(message("two"))

    assert (victim.read_bytes() if victim.exists() else b"") == before


def test_an_index_is_known_by_its_fingerprint() -> None:
    """One that is not would be compared word by word whenever a store is opened."""
    assert INDEX.fingerprints[newest()] == fingerprint(expected_rows(newest(), INDEX))
