"""What is asked about the whole store, and who may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

import clew
from clew.model import Retention
from clew.server.access.tokens import add_token
from tests.server.conftest import Running
from tests.server.routes.asking import API, plain, refusal, user
from tests.support.rows import each_row


def test_totals(server: Running, client: httpx.Client) -> None:
    server.store.create("a").append(user("hello"))
    assert client.get(f"{API}/stats").json() == plain(server.store.stats())


def test_the_caller_is_told_who_it_is(
    client: httpx.Client, limited: Callable[..., httpx.Client], server: Running
) -> None:
    assert client.get(f"{API}/me").json() == {
        "name": "owner", "kind": "owner", "scopes": ["read", "write", "files", "admin", "store"],
        "workspace": None, "tags": [], "session": None, "restores": False, "read_only": False,
    }  # fmt: skip
    told = limited("write", workspace="/w", tags=["x"]).get(f"{API}/me").json()
    assert (told["kind"], told["scopes"], told["workspace"], told["tags"]) == (
        "token",
        ["read", "write"],
        "/w",
        ["x"],
    )


def test_the_caller_is_told_whether_files_can_be_restored(serve: Callable[..., Running]) -> None:
    """A page shows what can be done, and nothing that would be refused."""
    running = serve(allow_files=True)
    with running.client() as client:
        assert client.get(f"{API}/me").json()["restores"] is True
        far = client.get(f"{API}/me", headers={"x-forwarded-for": "10.0.0.1"})
        assert far.json()["restores"] is False
    _, token = add_token(running.store, "t", scopes=["admin"])
    with running.client(token) as client:
        assert client.get(f"{API}/me").json()["restores"] is False
    with serve(running.store, allow_files=True, read_only=True).client() as client:
        told = client.get(f"{API}/me").json()
        assert (told["restores"], told["read_only"]) == (False, True)


def test_the_latest_session(
    server: Running, client: httpx.Client, limited: Callable[..., httpx.Client]
) -> None:
    assert client.get(f"{API}/latest").json()["code"] == "session_not_found"
    for id, tags in (("a", ["x"]), ("b", []), ("c", ["x"])):
        session = server.store.create(id, workspace=f"/w/{id}", tags=tags)
        if id != "c":
            session.append(user(id))
    latest = server.store.latest()
    assert latest is not None
    assert client.get(f"{API}/latest").json() == plain(latest.info)
    assert client.get(f"{API}/latest", params={"workspace": "/w/a"}).json()["id"] == "a"
    assert client.get(f"{API}/latest", params={"workspace": "/w/c"}).status_code == 404
    assert limited("read", tags=["x"]).get(f"{API}/latest").json()["id"] == "a"
    bound = limited("read", workspace="/w/a")
    assert bound.get(f"{API}/latest").json()["id"] == "a"
    fork = server.store.get("b").fork("fork")
    fork.update(workspace="/w/a")
    fork.append(user("newest"))
    assert bound.get(f"{API}/latest").json()["forked_from"] is None
    assert client.get(f"{API}/latest").json()["forked_from"]["session"] == "b"
    server.store.delete("fork")
    assert bound.get(f"{API}/latest", params={"workspace": "/w/b"}).status_code == 404


def test_interrupted_sessions(serve_timed: Callable[..., Running]) -> None:
    """Their workers said nothing until the time of their leases was over."""
    silent, server = serve_timed(read_only=True), serve_timed()
    store = server.store
    _, text = add_token(store, "bound", tags=["a"])
    with server.client() as client, server.client(text) as bound, silent.client() as reader:
        for id in "ab":
            store.create(id, tags=[id])
            client.post(f"{API}/sessions/{id}/runs", json={"lease": 30}).raise_for_status()
        assert reader.get(f"{API}/interrupted").json()["data"] == []
        server.wait(31)
        found = reader.get(f"{API}/interrupted").json()["data"]
        assert {(one["id"], one["status"]) for one in found} == {("a", "running"), ("b", "running")}
        found = client.get(f"{API}/interrupted").json()["data"]
        assert found == plain([one.info for one in store.interrupted()])
        assert [one["status"] for one in found] == ["interrupted", "interrupted"]
        assert [one["id"] for one in bound.get(f"{API}/interrupted").json()["data"]] == ["a"]
        assert len(client.get(f"{API}/interrupted?limit=1").json()["data"]) == 1


# -- rules and upkeep


def test_rules_of_retention_are_set_and_applied(server: Running, client: httpx.Client) -> None:
    assert client.get(f"{API}/retention").json() == plain(Retention())
    server.store.create("a").append(user("old"))
    server.store.create("b").append(user("new"))
    rules = {"max_sessions": 1, "purge_after": "P30D", "keep_tags": ["keep"]}
    answer = client.put(f"{API}/retention", json=rules)
    assert answer.status_code == 200, answer.text
    assert server.store.retention == Retention(
        max_sessions=1, purge_after=timedelta(days=30), keep_tags=("keep",)
    )
    assert answer.json() == client.get(f"{API}/retention").json() == plain(server.store.retention)

    would = client.post(f"{API}/sweep", json={"dry_run": True}).json()
    assert [(one["verb"], one["session"]) for one in would["actions"]] == [("trash", "a")]
    assert server.store.find("a") is not None
    did = client.post(f"{API}/sweep", json={}).json()
    assert (did["dry_run"], did["actions"]) == (False, would["actions"])
    assert server.store.find("a") is None
    assert client.get(f"{API}/removals").json() == {"data": plain(server.store.removals())}

    assert client.put(f"{API}/retention", json={}).json() == plain(Retention())


@each_row(
    ("rules", "word"),
    [
        ({"max_session": 1}, "max_session"),
        ({"max_sessions": 0}, "max_sessions"),
        ({"purge_after": "soon"}, "purge_after"),
        ({"purge_after": "-P1D"}, "purge_after"),
        ({"keep_tags": "x"}, "keep_tags"),
    ],
)
def test_rules_that_are_none_change_nothing(
    server: Running, client: httpx.Client, rules: dict[str, Any], word: str
) -> None:
    answer = client.put(f"{API}/retention", json=rules)
    assert answer.status_code == 422
    assert word in answer.json()["detail"]
    assert server.store.retention == Retention()


def test_where_secrets_are_replaced(server: Running, client: httpx.Client) -> None:
    assert client.get(f"{API}/redaction").json() == {"policy": server.store.redaction}
    assert client.put(f"{API}/redaction", json={"policy": "all"}).json() == {"policy": "all"}
    assert server.store.redaction == "all"
    assert client.put(f"{API}/redaction", json={"policy": "some"}).status_code == 422


def test_garbage_is_collected(server: Running, client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_bytes(b"content")
    server.store.delete_snapshot(server.store.snapshot(tmp_path / "files").id)
    would = client.post(f"{API}/gc", json={"dry_run": True}).json()
    assert would == plain(server.store.gc(dry_run=True))
    assert would["objects"] > 0
    assert client.post(f"{API}/gc", json={}).json()["objects"] == would["objects"]
    assert server.store.gc(dry_run=True).objects == 0


def test_the_doctor(server: Running, client: httpx.Client) -> None:
    server.store.create("a").append(user("hello"))
    report = server.store.verify(full=True)
    answer = client.get(f"{API}/doctor", params={"full": "true"}).json()
    assert answer == {
        "ok": True, "complete": True, "problems": [], "sessions": report.sessions, "entries": report.entries,
        "objects": report.objects, "bytes": report.bytes,
    }  # fmt: skip
    assert client.get(f"{API}/doctor", params={"time_limit": "601"}).status_code == 422


def test_the_doctor_names_what_is_damaged(server: Running, client: httpx.Client) -> None:
    server.store.create("a").append(user("hello"))
    path = Path(str(server.store.location).removeprefix("sqlite:///"))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE entries SET body = ?", (b'{"role":"user","content":"jello"}',))
    connection.close()
    answer = client.get(f"{API}/doctor", params={"full": "true"}).json()
    assert answer["ok"] is False
    assert answer["problems"] == plain(server.store.verify().details)


def test_what_takes_long_does_not_hold_up_other_requests(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def examine(*_: Any, **__: Any) -> Any:
        is_over.wait()
        raise clew.errors.StoreBusyError("it took too long")

    with clew.open("memory:") as store:
        monkeypatch.setattr(clew.Store, "verify", examine)
        server = serve(store, threads=1, slow_threads=2)
        with server.client() as client, server.client() as other, ThreadPoolExecutor(3) as callers:
            asked = [callers.submit(other.get, f"{API}/doctor") for _ in range(3)]
            assert client.get(f"{API}/stats").status_code == 200
            is_over.set()
            assert [one.result().status_code for one in asked] == [503, 503, 503]


# -- who may


WHOLE = [
    ("GET", "/stats", None), ("GET", "/removals", None), ("GET", "/retention", None),
    ("GET", "/redaction", None), ("GET", "/doctor", None), ("PUT", "/retention", {}),
    ("PUT", "/redaction", {"policy": "off"}), ("POST", "/sweep", {}), ("POST", "/gc", {}),
]  # fmt: skip


@each_row(("method", "path", "body"), WHOLE)
def test_a_bound_token_is_told_nothing_of_the_whole_store(
    limited: Callable[..., httpx.Client], method: str, path: str, body: Any
) -> None:
    assert refusal(limited("admin", tags=["x"]).request(method, API + path, json=body)) == (403, "bound")
