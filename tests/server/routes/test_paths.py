"""Paths as a whole over HTTP: the outline of one, and where two of them part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import httpx
import pytest

import clew
from tests.server.conftest import Running
from tests.server.routes.asking import S, assistant, refusal, user
from tests.support.rows import each_row


@pytest.fixture
def session(server: Running) -> clew.Session:
    made = server.store.create("a/b ü")
    made.append(user("fix it"), assistant("done"), user("again"))
    return made


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
    assert told(after=-1) == ["fix it", "otherwise"]
    assert told(after=0) == ["otherwise"]
    assert told(at=left.id, after=1) == ["again"]
    assert told(after=2**31) == []
    missing = client.get(f"{S}/a%2Fb%20%C3%BC/outline", params={"at": "nothing"})
    assert refusal(missing) == (404, "checkpoint_not_found")


@each_row(
    ("damage", "told"),
    [
        ("UPDATE entries SET body = zeroblob(5) WHERE (key & 4294967295) = 61", ["0", "2"]),
        ("DELETE FROM entries WHERE (key & 4294967295) = 121", ["0", "1", "2"]),
        ("UPDATE entries SET last_user_turn = 999 WHERE (key & 4294967295) = 121", ["0", "1", "2"]),
    ],
)
def test_an_entry_that_is_damaged_costs_no_more_than_its_line(
    server: Running, client: httpx.Client, damage: str, told: list[str]
) -> None:
    server.store.delete("long", purge=True)
    long = server.store.create("long")
    for number in range(3):
        long.append(user(f"{number}"), *(assistant("step " * 50) for _ in range(60)))
    connection = apsw.Connection(server.store.location)
    connection.execute(damage)
    connection.close()
    answer = client.get(f"{S}/long/outline")
    assert answer.status_code == 200, answer.text
    assert [one["text"] for one in answer.json()["data"]] == told


# -- compare


def compared(client: httpx.Client, **query: str) -> Any:
    answer = client.get("/api/v1/compare", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def read(client: httpx.Client, side: Any, common: Any) -> list[str]:
    """What a path has behind the common part, as a page reads it."""
    head = side["head"]
    query = {"at": f"{head['branch']}.{head['position']}"}
    if common["position"] >= 0:
        query["after"] = str(common["position"])
    answer = client.get(f"{S}/{side['session']}/entries", params=query)
    return [one["message"]["content"] for one in answer.json()["data"]]


def test_two_sessions_are_compared(server: Running, client: httpx.Client) -> None:
    a = server.store.create("a", title="one")
    a.append(user("0"), assistant("1"), user("2"))
    b = a.fork("b", at=1)
    b.append(user("x"), user("y"))
    found = compared(client, a="a", b="b")
    shared = list(a.entries())[1]
    assert found["common"] == {"position": 1, "id": shared.id, "entries": 2}
    assert found["same"] is False
    assert (found["a"]["session"], found["a"]["title"], found["a"]["entries_after"]) == ("a", "one", 1)
    assert (found["b"]["session"], found["b"]["entries_after"]) == ("b", 2)
    assert found["a"]["shared"] == found["b"]["shared"] == shared.id
    assert read(client, found["a"], found["common"]) == ["2"]
    assert read(client, found["b"], found["common"]) == ["x", "y"]


def test_two_branches_of_one_session_are_compared(session: clew.Session, client: httpx.Client) -> None:
    session.update(title="t")
    left = session.head
    session.rewind(0)
    session.append(user("other"))
    found = compared(client, a=session.id, b=session.id, b_at=str(left))
    assert found["common"]["position"] == 0
    assert (found["a"]["entries_after"], found["b"]["entries_after"]) == (1, 2)
    assert compared(client, a=session.id, b=session.id)["same"] is True
    nothing = compared(client, a=session.id, b=session.id, b_at="start")
    assert nothing["common"] == {"position": -1, "id": None, "entries": 0}
    assert nothing["b"]["head"] == {"branch": "", "position": -1}


def test_what_cannot_be_compared_is_refused(session: clew.Session, client: httpx.Client) -> None:
    for query, code in (
        ({"a": session.id}, "invalid"),
        ({"a": session.id, "b": "nobody"}, "session_not_found"),
        ({"a": session.id, "b": session.id, "b_at": "nowhere"}, "checkpoint_not_found"),
    ):
        answer = client.get("/api/v1/compare", params=query)
        assert answer.json()["code"] == code, answer.text


def test_a_bound_token_compares_only_what_it_may_see(
    server: Running, limited: Callable[..., httpx.Client]
) -> None:
    bound = limited("admin", tags=["mine"])
    own = server.store.create("own", tags=["mine"])
    own.append(user("shared"))
    other = own.fork("other")
    other.update(tags=[], title="hidden title")
    other.append(user("hidden words"))
    for query in (
        {"a": "own", "b": "other"},
        {"a": "other", "b": "own"},
        {"a": "own", "b": "own", "b_at": str(other.head)},
        {"a": "own", "b": "own", "a_at": str(other.head)},
    ):
        answer = bound.get("/api/v1/compare", params=query)
        assert answer.status_code == 404, query
        assert "hidden" not in answer.text
    unknown = bound.get("/api/v1/compare", params={"a": "own", "b": "nobody"})
    hidden = bound.get("/api/v1/compare", params={"a": "own", "b": "other"})
    assert unknown.json()["code"] == hidden.json()["code"] == "session_not_found"
    fork = own.fork("second")
    fork.update(tags=["mine"])
    assert compared(bound, a="own", b="second")["same"] is True
