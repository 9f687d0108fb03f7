"""Every error of the library as a problem (RFC 9457), told to a real client."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

import clew
from clew import errors
from clew.errors import ClewError
from clew.model import Head
from tests.server.conftest import Running, running
from tests.server.routes.asking import S, refusal
from tests.support.rows import each_row

SOON = datetime.now(UTC) + timedelta(seconds=40)

KINDS = {
    403: "RootRefusedError RootNotNamedError ReadOnlyError",
    404: (
        "StoreNotFoundError SessionNotFoundError EntryNotFoundError CheckpointNotFoundError "
        "SnapshotNotFoundError ObjectMissingError NotFoundError"
    ),
    409: (
        "ConflictError SessionExistsError SessionTakenError AliasExistsError InvalidTransitionError "
        "OpenCallsError LeaseLostError RestoreConflictError NothingToUndoError"
    ),
    410: "SessionDeletedError",
    412: "HeadMovedError",
    422: "KeyReusedError InvalidError InvalidEntryError InvalidQueryError InvalidUrlError",
    423: "LeaseHeldError",
    500: (
        "CorruptError CorruptSessionError BranchMissingError CorruptEntryError UnreadableEntryError "
        "VersionError SchemaTooNewError SchemaTooOldError BackendError AccessDeniedError OutcomeUnknownError "
        "SnapshotFailedError RestoreFailedError"
    ),
    501: "UnsupportedError",
    503: "StoreBusyError BackendUnavailableError DiskFullError StoreClosedError",
    507: "QuotaExceededError",
}
STATUS: dict[type[ClewError], int] = {
    getattr(errors, name): status for status, names in KINDS.items() for name in names.split()
}
VALUES: dict[str, Any] = {
    "expected": Head("b7", 41), "actual": Head("b7", 42), "expires_at": SOON, "position": 3, "epoch": 1,
    "held": 2, "branch": 5, "found": 9, "known": 8, "calls": ["c1"], "paths": ["a/b"], "conflicts": ["a/b"],
}  # fmt: skip


def an(error: type[ClewError]) -> ClewError:
    """An instance, with a value for each argument that it needs."""
    parameters = inspect.signature(error.__init__).parameters.values()
    given = {}
    for one in list(parameters)[1:]:
        if one.kind is one.VAR_POSITIONAL:
            return error("what happened")
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD:
            given[one.name] = VALUES.get(one.name, f"some {one.name}")
    return error(**given)


def all_errors(of: type[ClewError] = ClewError) -> Iterator[type[ClewError]]:
    for one in of.__subclasses__():
        if one.__module__ == "clew.errors":
            yield one
            yield from all_errors(one)


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with clew.open("memory:") as store, running(store) as found:
        yield found


def test_the_table_is_whole() -> None:
    assert set(all_errors()) <= STATUS.keys()


@each_row("kind", STATUS, ids=lambda kind: kind.code)
def test_an_error_is_told_with_its_own_fields(
    served: Running, monkeypatch: pytest.MonkeyPatch, kind: type[ClewError]
) -> None:
    error = an(kind)

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(clew.Store, "list", refuse)
    with served.client() as client:
        answer = client.get(S)
    problem = answer.json()
    assert answer.status_code == problem["status"] == STATUS[kind]
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["code"] == kind.code
    assert problem["type"] == f"urn:clew:error:{kind.code}"
    assert problem["detail"] == str(error)
    assert problem["retryable"] == kind.retryable
    assert problem["title"]
    assert not problem["title"].endswith(".")
    assert {name for name in vars(error) if not name.startswith("_")} <= problem.keys()
    if STATUS[kind] in (423, 503):
        assert 1 <= int(answer.headers["retry-after"]) <= 60
    if kind is errors.HeadMovedError:
        assert problem["head"] == {"branch": "b7", "position": 42}


# -- as they happen


def test_a_store_that_another_process_holds_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with clew.open(path, timeout=0.2) as store, running(store) as server, server.client() as client:
        store.create("a")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        for answer in (
            client.post(f"{S}/a/entries", json={"messages": [{"role": "user"}]}),
            client.post(f"{S}/a/clear"),
        ):
            assert refusal(answer) == (503, "store_busy")
            assert answer.json()["retryable"] is True
            assert answer.headers["retry-after"] == "1"
        other.execute("ROLLBACK")
        other.close()
        assert client.post(f"{S}/a/entries", json={"messages": [{"role": "user"}]}).status_code == 201


def test_a_store_that_was_closed() -> None:
    with running(clew.open("memory:")) as server, server.client() as client:
        server.store.close()
        assert refusal(client.get(S)) == (503, "store_closed")


@each_row(
    "path",
    ["/", "/entries", "/context", "/tree", "/moves", "/vars", "/status-changes", "/export?format=json"],
)
def test_what_is_asked_of_a_session_that_is_not_there(served: Running, path: str) -> None:
    with served.client() as client:
        answer: httpx.Response = client.get(f"{S}/none{path.rstrip('/')}")
    assert refusal(answer) == (404, "session_not_found")


def test_a_method_that_a_path_does_not_take(served: Running) -> None:
    with served.client() as client:
        answer = client.delete(S)
    assert refusal(answer) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) >= {"GET", "POST"}


def test_a_store_that_is_open_for_reading_only(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with clew.open(path) as store:
        store.create("a")
    with clew.open(path, read_only=True) as store, running(store) as server, server.client() as client:
        assert client.get(f"{S}/a").status_code == 200
        for answer in (
            client.post(S, json={}),
            client.post(f"{S}/a/entries", json={"messages": [{"role": "user"}]}),
            client.patch(f"{S}/a", json={"title": "x"}),
            client.delete(f"{S}/a"),
            client.put(f"{S}/a/documents/d", content=b"x"),
        ):
            assert refusal(answer) == (403, "read_only"), answer.request.url
