"""Which index answers which question: a store of a hundred thousand sessions must not be walked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import apsw
import pytest

from clew.backends.sqlite import SqliteBackend
from clew.backends.sqlite import sql as statements
from clew.core.log.rows import CLOSED, COMPLETED, PENDING, RUNNING, Details, SessionQuery, UsageColumn
from clew.testing.backend.base import a_session
from tests.support.rows import each_row

KEYS = "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with closing(SqliteBackend(tmp_path / "a.db")) as backend:
        yield backend


def plan(backend: SqliteBackend, sql: str, bindings: list[Any]) -> str:
    writer = backend._connections.writer
    assert writer is not None
    return "\n".join(row[3] for row in writer.execute(f"EXPLAIN QUERY PLAN {sql}", bindings))


def listing_plan(backend: SqliteBackend, **filters: Any) -> str:
    return plan(backend, *statements.listing(SessionQuery(limit=5, **filters)))


def test_what_is_not_due_is_not_touched(backend: SqliteBackend) -> None:
    """The plan looks the same when the index is walked to its end; the steps do not."""
    steps: list[int] = []
    with backend.write() as tx:
        for number in range(500):
            tx.set_due(tx.add_session(a_session(f"s{number}"), Details()), 1000 + number)
        tx.connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        assert tx.due_sessions(999, 10) == []
        assert [row.due for row in tx.due_sessions(1001, 10)] == [1000, 1001]

    assert max(steps[:2]) < 500


FINISHED = range(COMPLETED, CLOSED + 1)
ACTIVITY = "SCAN sessions USING INDEX sessions_activity"
OF_STATUS = "SEARCH sessions USING INDEX sessions_status (status=?"
STREAM = "events USING INDEX events_stream (<expr>=? AND stream=? AND rowid>?)"
FACET = ("agent", '"x"')


@each_row(
    ("filters", "expected"),
    [
        ({"since": 1, "until": 2}, "sessions_activity (updated>? AND updated<?)"),
        ({"oldest": True, "after": (1, "a")}, "SEARCH sessions USING INDEX sessions_activity (updated>?)"),
        ({"status": PENDING}, ACTIVITY),
        *[({"status": status}, f"{OF_STATUS})") for status in FINISHED],
        *[({"status": status, "after": (1, "a")}, f"{OF_STATUS} AND updated<?)") for status in FINISHED],
    ],
)
def test_a_page_of_the_list_is_read_in_the_order_of_an_index(
    backend: SqliteBackend, filters: dict[str, Any], expected: str
) -> None:
    """By activity, or by status and activity: nothing is sorted."""
    found = listing_plan(backend, **filters)

    assert expected in found
    assert "TEMP B-TREE" not in found


@each_row("filters", [{}, {"after": (1, "a")}])
def test_running_sessions_are_found_without_looking_at_others(
    backend: SqliteBackend, filters: dict[str, Any]
) -> None:
    found = listing_plan(backend, status=RUNNING, **filters)

    assert "SCAN sessions USING INDEX sessions_running" in found
    assert "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)" in found
    assert "sessions_activity" not in found


def test_an_append_to_a_running_session_maintains_no_more_indexes_than_before_runs(
    backend: SqliteBackend,
) -> None:
    """Every index that holds a column which `set_head` writes is one of schema 1, or leaves it out."""
    connection = backend._connections.writer
    assert connection is not None
    written = {
        piece.split(" = ")[0].split()[-1] for piece in statements.SET_HEAD.split(" WHERE ")[0].split(",")
    }
    assert {"updated", "branch", "preview"} <= written
    touched = set()
    for name, sql in connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'sessions'"
    ).fetchall():
        columns = {row[2] for row in connection.execute(f"PRAGMA index_info({name})")}
        if columns & written and not str(sql).endswith("WHERE deleted IS NULL AND status > 1"):
            touched.add(name)

    assert touched == {"sessions_activity", "sessions_workspace"}


@each_row(
    ("statement", "bindings", "expected"),
    [
        (statements.FIND_EVENT, [1, "a"], "events USING INDEX events_id (<expr>=? AND id=?)"),
        (statements.READ_STREAM, [1, "a", 3, 4], STREAM),
        (statements.READ_EVENTS, [1, 2, 3], f"events USING {KEYS}"),
        (statements.FIND_USAGE, [1, "a"], "usage USING INDEX usage_id (<expr>=? AND id=?)"),
        (statements.LAST_USAGE, [1, 2], f"usage USING {KEYS}"),
        (statements.DUE_SESSIONS, [1, 2, 3, 4], "sessions USING INDEX sessions_due (due>? AND due<?)"),
        (statements.IDS[0], ["a", 5], "sessions USING INDEX sessions_id (id>?)"),
        (statements.IDS[1], ["a", 5], "sessions USING INDEX sessions_trashed_id (id>?)"),
        (statements.OWN_IDS, ["a", 5], "sessions USING INDEX sessions_own (<expr>>?)"),
    ],
)
def test_rows_come_out_of_their_index_in_order(
    backend: SqliteBackend, statement: str, bindings: list[Any], expected: str
) -> None:
    assert plan(backend, statement, bindings) == f"SEARCH {expected}"


@each_row(
    ("statement", "bindings", "expected"),
    [
        (statements.COUNT_WORKSPACES[False], [], "USING INDEX sessions_workspace"),
        (statements.COUNT_FACETS, ["agent"], "USING PRIMARY KEY (name=?)"),
        (statements.COUNT_FINISHED, [], "USING INDEX sessions_status"),
        (statements.COUNT_RUNNING, [], "USING INDEX sessions_running"),
        (statements.COUNT_TRASHED_FACETS, ["agent"], "INDEX sessions_trash"),
        (statements.COUNT_TRASHED_FACETS, ["agent"], "USING COVERING INDEX facets_sid (sid=? AND name=?)"),
        (statements.FIND_SUBAGENTS, ['["p"]', "parent"], "facets USING PRIMARY KEY (name=? AND value=?)"),
        (statements.FIND_SUBAGENTS, ['["p"]', "parent"], "sessions USING INTEGER PRIMARY KEY (rowid=?)"),
    ],
)
def test_what_is_counted_for_filters_is_counted_by_indices_alone(
    backend: SqliteBackend, statement: str, bindings: list[Any], expected: str
) -> None:
    assert expected in plan(backend, statement, bindings)


@each_row("by", [(), *((column,) for column in get_args(UsageColumn)), ("session", "model")])
def test_the_sums_of_a_session_read_its_calls_only(
    backend: SqliteBackend, by: tuple[UsageColumn, ...]
) -> None:
    assert plan(backend, statements.sum_usage(by), [1, 2, 3, 4]).startswith(f"SEARCH usage USING {KEYS}")


# -- by facets, and what counts them


def test_a_facet_that_many_have_is_asked_of_each_session_in_order(backend: SqliteBackend) -> None:
    found = plan(backend, *statements.listing(SessionQuery(limit=5, where=(FACET,)), [FACET]))

    assert found.startswith(ACTIVITY)
    assert "TEMP B-TREE" not in found


def test_of_a_facet_that_few_have_only_these_are_sorted_and_only_a_page_is_read(
    backend: SqliteBackend,
) -> None:
    found = listing_plan(backend, where=(FACET,)).splitlines()

    assert found[0].startswith("CO-ROUTINE")
    assert found[1] == "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)"
    assert found.index("USE TEMP B-TREE FOR ORDER BY") < min(
        number for number, line in enumerate(found) if "details" in line
    )


def test_lists_by_frequent_and_rare_facets_are_in_one_order(backend: SqliteBackend) -> None:
    """Whichever way they are found: pages too."""
    many = statements.FREQUENT + 100
    with backend.write() as tx:
        for number in range(many):
            tags = ("many", "few") if number % 500 == 0 else ("many",)
            tx.add_session(a_session(f"s{number:04}", updated=number), Details(tags=tags))

    def ids(*tags: str, **more: Any) -> list[str]:
        with backend.read() as reader:
            query = SessionQuery(**{"limit": 9, "tags": tags, **more})
            return [one.row.id for one in reader.list_sessions(query)]

    assert ids("many", limit=2) == [f"s{many - 1}", f"s{many - 2}"]
    assert ids("many", limit=2, after=(5, "s0005")) == ["s0004", "s0003"]
    few = ["s2000", "s1500", "s1000", "s0500", "s0000"]
    assert ids("few") == ids("few", "many") == few
    assert ids("few", limit=2, after=(1500, "s1500")) == ["s1000", "s0500"]
    assert ids("few", limit=2, oldest=True) == ["s0000", "s0500"]


def test_what_was_counted_is_remembered_until_any_process_writes(tmp_path: Path) -> None:
    with (
        closing(SqliteBackend(tmp_path / "b.db")) as backend,
        closing(SqliteBackend(tmp_path / "b.db")) as other,
    ):
        statements: list[str] = []

        def counted() -> dict[str, int]:
            with backend.read() as reader:
                reader.connection.trace_v2(
                    apsw.SQLITE_TRACE_PROFILE, lambda event: statements.append(event["sql"])
                )
                found = reader.count_by("tag")
                found["not"] = 5  # an answer is the caller's own
                return reader.count_by("tag")

        assert counted() == {}
        for number, writer in enumerate((other, backend, other), 1):
            with writer.write() as tx:
                tx.add_session(a_session(f"s{number}"), Details(tags=("t",)))
            assert counted() == {"t": number}
        before = len([one for one in statements if "facets" in one])
        assert counted() == {"t": 3}
        assert len([one for one in statements if "facets" in one]) == before


def test_from_one_workspace_to_the_next_no_session_is_walked(backend: SqliteBackend) -> None:
    found = plan(backend, statements.WORKSPACES, [])

    assert found.count("SEARCH sessions USING INDEX sessions_workspace (workspace>?)") == 2
