"""Any number of processes on one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

import clew
from tests.faults.campaign import campaign
from tests.faults.campaigns.together import start_together
from tests.faults.crash.processes import append_together, append_while_held, duel
from tests.faults.subjects import SqliteSubject
from tests.support.forks import call_in_fork


def test_f21_eight_processes_that_open_a_new_file_at_once_all_succeed(tmp_path: Path) -> None:
    """The schema is made once, the log is on, and nobody else may read the files."""
    result = campaign(start_together, SqliteSubject(tmp_path / "new"), rounds=3)

    assert result.wrong == []
    clew.open(tmp_path / "alone.db").close()
    files = sorted((tmp_path / "new").glob("*/below/db/a.db"))
    assert [shape(file) for file in files] == [shape(tmp_path / "alone.db")] * 3


def shape(path: Path) -> list[Any]:
    """The schema, how often it was changed, the journal mode, and whether all is well."""
    connection = apsw.Connection(str(path))
    try:
        statements = ("schema_version", "journal_mode", "integrity_check")
        found = [list(connection.execute(f"PRAGMA {statement}")) for statement in statements]
        return [*found, list(connection.execute("SELECT sql FROM sqlite_schema"))]
    finally:
        connection.close()


def test_f22_eight_processes_append_to_different_sessions_and_nothing_is_lost(tmp_path: Path) -> None:
    """No append fails while the deadline has not passed."""
    assert call_in_fork(append_together, str(tmp_path / "a.db"), 8, 20) == []


def test_f22_an_append_is_refused_as_busy_after_the_deadline_and_writes_nothing(tmp_path: Path) -> None:
    """Typed, retryable, with SQLite's own error as the cause; when the other is gone, all is well."""
    assert call_in_fork(append_while_held, str(tmp_path / "a.db")) == ["store_busy", True, True, False, 1]


def test_f23_of_two_processes_that_expect_the_same_head_exactly_one_wins(tmp_path: Path) -> None:
    """The loser hears where the head is now, and has written nothing."""
    assert call_in_fork(duel, str(tmp_path / "a.db"), 8) == []
