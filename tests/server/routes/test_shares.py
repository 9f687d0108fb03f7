"""Shares over HTTP: made, listed and removed by whoever has the scope admin, and by nobody else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

import clew
from clew.server.access.shares import list_shares
from clew.server.access.tokens import add_token
from tests.server.conftest import Running
from tests.server.routes.asking import S, user

SHARES = "/api/v1/shares"
KEY = "sk-ant-api03-" + "a7Bc9" * 18 + "AA"


@pytest.fixture
def session(server: Running) -> clew.Session:
    made = server.store.create("a/b ü")
    made.append(user("0"), user(f"my key is {KEY}"), user("2"))
    return made


def make(client: httpx.Client, **body: Any) -> tuple[Any, str]:
    """The share, and its token, as a browser gets it out of the address."""
    answer = client.post(SHARES, json=body)
    assert answer.status_code == 201, answer.text
    address, _, token = answer.json()["url"].partition("/#share=")
    assert address == str(client.base_url).rstrip("/")
    assert answer.headers["location"] == f"{SHARES}/{answer.json()['share']['id']}"
    return answer.json()["share"], unquote(token)


def said(server: Running, token: str) -> list[str]:
    with server.client(token) as reader:
        answer = reader.get(f"{S}/a%2Fb%20%C3%BC/entries")
        assert answer.status_code == 200, answer.text
        return [one["message"]["content"] for one in answer.json()["data"]]


def test_a_share_ends_where_the_session_stands(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    share, token = make(client, session=session.id)
    session.append(user("later"))
    assert (share["session"], share["live"], share["redact"]) == (session.id, False, True)
    assert share["head"] == list(session.entries())[2].id
    ends = datetime.fromisoformat(share["expires_at"]) - datetime.fromisoformat(share["created_at"])
    assert ends == timedelta(days=7)
    shown = said(server, token)
    assert (shown[0], shown[2], len(shown)) == ("0", "2", 3)
    assert KEY not in str(shown)


def test_a_place_a_live_one_and_one_with_secrets(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    _, place = make(client, session=session.id, at="0", expires_in=None)
    live, token = make(client, session=session.id, live=True, redact=False, expires_in=60)
    session.append(user("later"))
    assert said(server, place) == ["0"]
    assert said(server, token) == ["0", f"my key is {KEY}", "2", "later"]
    assert (live["head"], live["live"]) == (None, True)


def test_shares_are_listed_without_their_secrets(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    server.store.create("other").append(user("x"))
    session.add_alias("alias")
    first, token = make(client, session=session.id)
    second, _ = make(client, session="other", live=True)
    listed = client.get(SHARES)
    assert listed.json()["data"] == [first, second]
    assert token.partition("_")[2] not in listed.text
    assert client.get(SHARES, params={"session": "alias"}).json()["data"] == [first]
    assert client.get(SHARES, params={"session": "nobody"}).json()["data"] == []


def test_a_share_that_was_removed_shows_nothing_at_once(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    share, token = make(client, session=session.id)
    assert said(server, token)
    assert client.delete(f"{SHARES}/{share['id']}").status_code == 204
    with server.client(token) as reader:
        assert reader.get(f"{S}/a%2Fb%20%C3%BC/entries").status_code == 401
    assert client.delete(f"{SHARES}/{share['id']}").status_code == 404
    assert client.get(SHARES).json()["data"] == []


def test_what_cannot_be_shared_is_refused(session: clew.Session, client: httpx.Client) -> None:
    for body, status in (
        ({"session": session.id, "live": True, "at": "0"}, 422),
        ({"session": session.id, "expires_in": 0}, 422),
        ({"session": session.id, "expires_in": 10**18}, 422),
        ({"session": session.id, "at": "nowhere"}, 404),
        ({"session": "nobody"}, 404),
        ({}, 422),
    ):
        answer = client.post(SHARES, json=body)
        assert answer.status_code == status, answer.text
    assert client.get(SHARES).json()["data"] == []


def test_only_the_scope_admin_makes_lists_and_removes_shares(
    server: Running, session: clew.Session, client: httpx.Client
) -> None:
    share, token = make(client, session=session.id)
    _, writer = add_token(server.store, "writer", scopes=["write", "files"])
    _, bound = add_token(server.store, "bound", scopes=["admin"], tags=["mine"])
    server.store.create("own", tags=["mine"])
    for other, codes in ((writer, {"forbidden"}), (bound, {"bound"}), (token, {"forbidden", "shared_only"})):
        with server.client(other) as caller:
            for answer in (
                caller.get(SHARES),
                caller.get(SHARES, params={"session": "own"}),
                caller.post(SHARES, json={"session": session.id, "redact": False}),
                caller.post(SHARES, json={"session": "own"}),
                caller.delete(f"{SHARES}/{share['id']}"),
            ):
                assert answer.status_code == 403, answer.text
                assert answer.json()["code"] in codes
    assert [one.id for one in list_shares(server.store)] == [share["id"]]


def test_the_address_is_the_one_by_which_people_come(serve: Callable[..., Running]) -> None:
    running = serve(public_url="https://clew.example.org/team", root_path="/team")
    running.store.create("a").append(user("x"))
    with running.client() as client:
        answer = client.post(SHARES, json={"session": "a"})
        assert answer.json()["url"].startswith("https://clew.example.org/team/#share=")
