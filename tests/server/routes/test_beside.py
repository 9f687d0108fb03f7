"""Checkpoints, variables, documents and status over HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

import clew
from clew.server.routes import beside
from tests.server.routes.asking import JSON, A, pages, plain, refusal, rows
from tests.support.rows import each_row

# -- checkpoints


def test_checkpoints(session: clew.Session, client: httpx.Client) -> None:
    session.append({"role": "user", "content": "x"})
    made = client.put(f"{A}/checkpoints/a%2Fb", json={"state": {"n": 1}})
    assert made.json() == plain(session.get_checkpoint("a/b"))
    assert client.get(f"{A}/checkpoints/a%2Fb").json() == made.json()
    session.append({"role": "user", "content": "y"})
    moved = client.put(f"{A}/checkpoints/a%2Fb")
    assert moved.json()["head"]["position"] == 1
    session.checkpoint("c")
    assert client.get(f"{A}/checkpoints").json() == {"data": plain(session.checkpoints())}
    old = client.put(f"{A}/checkpoints/d", json={}, headers={"if-match": '"start"'})
    assert refusal(old) == (412, "head_moved")
    assert client.delete(f"{A}/checkpoints/a%2Fb").status_code == 204
    for method in ("GET", "DELETE"):
        gone = client.request(method, f"{A}/checkpoints/a%2Fb")
        assert refusal(gone) == (404, "checkpoint_not_found")
        assert gone.json()["checkpoint"] == "a/b"


# -- variables


@each_row("value", [None, False, 0, 1.5, "x", [1, [2]], {"a": {"b": None}}, 2**70])
def test_a_variable_is_any_json_value(session: clew.Session, client: httpx.Client, value: Any) -> None:
    kept = client.put(f"{A}/vars/v%20%2F", content=json.dumps({"value": value}), headers=JSON)
    assert kept.json() == {"name": "v /", "value": value}
    assert client.get(f"{A}/vars/v%20%2F").json() == {"name": "v /", "value": value}
    assert session.vars() == {"v /": value}
    assert client.get(f"{A}/vars").json() == {"data": {"v /": value}}
    assert client.delete(f"{A}/vars/v%20%2F").status_code == 204
    for method in ("GET", "DELETE"):
        assert refusal(client.request(method, f"{A}/vars/v%20%2F")) == (404, "variable_not_found")


def test_a_variable_needs_a_value(session: clew.Session, client: httpx.Client) -> None:
    assert client.put(f"{A}/vars/v", json={}).status_code == 422
    assert client.put(f"{A}/vars/v", json=1).status_code == 422
    assert session.vars() == {}


# -- documents


def test_a_document_is_bytes_to_be_saved(session: clew.Session, client: httpx.Client) -> None:
    content = b"<script>alert(1)</script>\x00\xff"
    html = {"content-type": "text/html"}
    kept = client.put(f"{A}/documents/x%2Fpage.html", content=content, headers=html)
    assert kept.json() == {"name": "x/page.html", "bytes": len(content)}
    assert session.get_document("x/page.html") == content
    answer = client.get(f"{A}/documents/x%2Fpage.html")
    assert answer.content == content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.delete(f"{A}/documents/x%2Fpage.html").status_code == 204
    for method in ("GET", "DELETE"):
        assert refusal(client.request(method, f"{A}/documents/x%2Fpage.html")) == (404, "document_not_found")


def test_an_empty_document(session: clew.Session, client: httpx.Client) -> None:
    client.put(f"{A}/documents/e", content=b"").raise_for_status()
    answer = client.get(f"{A}/documents/e")
    assert (answer.status_code, answer.content) == (200, b"")


def test_documents_are_listed_by_name(session: clew.Session, client: httpx.Client) -> None:
    names = [f"{letter}/{number}" for letter in "ab" for number in range(7)]
    for name in names:
        session.set_document(name, name.encode())

    def listed(**query: Any) -> list[str]:
        return [one["name"] for one in rows(client, f"{A}/documents", **query)]

    for limit in (1, 3, 200):
        assert listed(limit=limit) == names
        assert listed(limit=limit, prefix="b/") == names[7:]
        assert listed(limit=limit, newest_first="true", prefix="a/") == names[6::-1]


def test_contents_come_when_they_are_asked_for(
    session: clew.Session, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "PAGE_BYTES", 25_000)
    monkeypatch.setattr(beside, "READ_BYTES", 15_000)
    for number in range(6):
        session.set_document(f"{number}", bytes([number]) * 10_000)
    first = client.get(f"{A}/documents").json()["data"]
    assert first == [{"name": f"{number}", "bytes": 10_000} for number in range(6)]
    assert [len(page["data"]) for page in pages(client, f"{A}/documents", contents="true")] == [3, 3]
    given = client.get(f"{A}/documents", params={"contents": "true", "limit": 1}).json()["data"][0]
    assert base64.b64decode(given["content"]) == bytes(10_000)


# -- status


def test_the_status_of_work_without_a_lease(session: clew.Session, client: httpx.Client) -> None:
    def post(what: str, body: Any = None) -> Any:
        answer = client.post(f"{A}/{what}", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == plain(session.info)
        return answer.json()

    assert post("start", {"request": {"do": "it"}, "task": "t"})["status"] == "running"
    assert session.info.run is not None
    assert (session.info.run.request, session.info.run.task) == ({"do": "it"}, "t")
    assert post("complete", {"response": [1]})["status"] == "completed"
    assert post("start")["status"] == "running"
    assert post("fail", {"error": "it broke"})["run"]["error"] == "it broke"
    assert post("close")["status"] == "closed"
    assert refusal(client.post(f"{A}/start", json={})) == (409, "invalid_transition")
    assert post("reopen")["status"] == "pending"
    changes = client.get(f"{A}/status-changes").json()
    assert changes == {"data": plain(session.status_changes())}
    assert [one["status"] for one in changes["data"]] == [
        "running", "completed", "running", "failed", "closed", "pending"
    ]  # fmt: skip
