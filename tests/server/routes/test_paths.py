"""Paths as a whole over HTTP: the outline of one, and where two of them part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import Running

S = "/api/v1/sessions"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def session(server: Running) -> clew.Session:
    made = server.store.create("a/b ü")
    made.append(user("fix it"), assistant("done"), user("again"))
    return made


@pytest.fixture
def bound(server: Running, tmp_path: Path) -> Iterator[httpx.Client]:
    """The client of a token that sees the sessions with one tag."""
    _, token = add_token(server.store, "bound", scopes=["admin"], tags=["mine"])
    with server.client(token) as client:
        yield client


# -- outline


def test_the_outline_of_a_session(session: clew.Session, client: httpx.Client) -> None:
    session.checkpoint("plan", state={"private": 1})
    answer = client.get(f"{S}/a%2Fb%20%C3%BC/outline")
    assert answer.status_code == 200, answer.text
    first, second, third = answer.json()["data"]
    entries = list(session.entries())
    assert (first["id"], first["position"], first["kind"]) == (entries[0].id, 0, "prompt")
    assert first["text"] == "fix it"
    assert second["text"] == "again"
    assert third == {**third, "kind": "checkpoint", "text": "plan", "id": entries[2].id, "position": 2}
    assert set(third) == {"kind", "text", "id", "position", "at"}
    assert answer.json()["entries"] == 3
    assert answer.json()["head"]["position"] == 2


def test_the_outline_of_another_branch(session: clew.Session, client: httpx.Client) -> None:
    left = list(session.entries())[-1]
    session.rewind(0)
    session.append(user("otherwise"))

    def told(**query: Any) -> list[str]:
        answer = client.get(f"{S}/a%2Fb%20%C3%BC/outline", params=query)
        return [one["text"] for one in answer.json()["data"]]

    assert told() == ["fix it", "otherwise"]
    assert told(at=left.id) == ["fix it", "again"]
    assert told(at="0") == ["fix it"]
    assert told(at="start") == []
    missing = client.get(f"{S}/a%2Fb%20%C3%BC/outline", params={"at": "nothing"})
    assert (missing.status_code, missing.json()["code"]) == (404, "checkpoint_not_found")


def test_a_bound_token_reads_no_outline_of_another_one(server: Running, bound: httpx.Client) -> None:
    own = server.store.create("own", tags=["mine"])
    own.append(user("shared"))
    other = own.fork("other")
    other.update(tags=[])
    other.append(user("hidden words"))
    assert bound.get(f"{S}/other/outline").status_code == 404
    for at in (str(other.head), "1"):
        answer = bound.get(f"{S}/own/outline", params={"at": at})
        assert answer.status_code == 404, answer.text
        assert "hidden" not in answer.text
    assert [one["text"] for one in bound.get(f"{S}/own/outline").json()["data"]] == ["shared"]
