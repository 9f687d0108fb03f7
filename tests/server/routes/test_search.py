"""Search over HTTP: what the library finds, and nothing that the caller may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from clew.model.search import Hit
from tests.server.conftest import Running
from tests.server.routes.asking import assistant, pages, refusal, user
from tests.support.rows import each_row

SEARCH = "/api/v1/search"


@pytest.fixture(autouse=True)
def _sessions(server: Running) -> None:
    for id, workspace, tags, text in (
        ("mine", "/w/mine", ["team"], "the login is broken"),
        ("theirs", "/w/theirs", [], "their login works"),
        ("both", "/w/mine", ["team", "x"], "no such word here"),
    ):
        session = server.store.create(id, workspace=workspace, tags=tags)
        if id == "theirs":
            session.update(model="m", metadata={"agent": "codex"})
        session.append(user(text), assistant(f"about {text}"))


def found(client: httpx.Client, **query: Any) -> list[Hit]:
    answer = client.get(SEARCH, params=query)
    assert answer.status_code == 200, answer.text
    return msgspec.convert(answer.json()["data"], list[Hit])


@each_row(
    ("query", "options"),
    [
        ({"q": "login"}, {}),
        ({"q": "LOGIN -works"}, {}),
        ({"q": '"login is"', "order": "best"}, {"order": "best"}),
        ({"q": "log*", "role": "user"}, {"role": "user"}),
        ({"q": "login", "session": ["mine", "both"]}, {"session": ["mine", "both"]}),
        ({"q": "login", "workspace": "/w/theirs"}, {"workspace": "/w/theirs"}),
        ({"q": "login", "project": "mine"}, {"project": "mine"}),
        ({"q": "login", "agent": "codex"}, {"agent": "codex"}),
        ({"q": "login", "model": "m"}, {"model": "m"}),
        ({"q": "word", "tag": ["team", "x"]}, {"tag": ["team", "x"]}),
        ({"q": "login", "since": "1h", "tools": "true"}, {"tools": True}),
    ],
)
def test_it_finds_what_the_library_finds(
    server: Running, client: httpx.Client, query: dict[str, Any], options: dict[str, Any]
) -> None:
    hits = found(client, **query)
    assert hits
    assert hits == list(server.store.search(query["q"], **options))


def test_nothing_is_found_in_other_times(client: httpx.Client) -> None:
    assert found(client, q="login", until="1h") == []
    assert found(client, q="login", since="2100-01-01") == []


def test_hits_are_text_with_the_places_of_the_words(server: Running, client: httpx.Client) -> None:
    server.store.get("mine").append(user("🙂 <b>needle</b> & thread"))
    (hit,) = client.get(SEARCH, params={"q": "needle"}).json()["data"]
    assert hit["snippet"] == "🙂 <b>needle</b> & thread"
    assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["needle"]


def test_a_note_is_found_as_soon_as_it_is_written(server: Running, client: httpx.Client) -> None:
    entry = next(server.store.get("mine").entries()).id
    client.patch(f"/api/v1/sessions/mine/entries/{entry}/annotations", json={"note": "see the needle"})
    (hit,) = client.get(SEARCH, params={"q": "needle"}).json()["data"]
    assert (hit["entry_id"], hit["role"], hit["snippet"]) == (entry, "user", "see the needle")
    assert (hit["in_note"], hit["in_tool"]) == (True, False)
    assert not any(each.in_note for each in found(client, q="login"))


def test_pages_lead_to_each_other_and_keep_the_question(server: Running, client: httpx.Client) -> None:
    for number in range(7):
        server.store.get("mine").append(user(f"needle {number}"))
    for order in ("newest", "best"):
        found = [
            [hit["entry_id"] for hit in page["data"]]
            for page in pages(client, SEARCH, q="needle", limit=3, workspace="/w/mine", order=order)
        ]
        assert [len(page) for page in found] == [3, 3, 1]
        assert len({id for page in found for id in page}) == 7


@each_row(
    ("query", "code"),
    [
        ({}, "invalid"),
        ({"q": ""}, "invalid_query"),
        ({"q": "x", "role": "robot"}, "invalid"),
        ({"q": "x", "limit": "201"}, "invalid"),
        ({"q": "x", "cursor": "AAAA"}, "invalid_query"),
        ({"q": "x", "since": "then"}, "invalid_query"),
        ({"q": "x" * 5000}, "invalid"),
        ({"q": "x", "where": "{}"}, "invalid"),
    ],
)
def test_a_question_that_is_none(client: httpx.Client, query: dict[str, str], code: str) -> None:
    assert refusal(client.get(SEARCH, params=query)) == (422, code)


# -- tokens that are bound


@pytest.fixture(params=[{"workspace": "/w/mine"}, {"tags": ["team"]}], ids=["workspace", "tags"])
def bound(request: pytest.FixtureRequest, limited: Callable[..., httpx.Client]) -> httpx.Client:
    return limited("read", **request.param)


def test_s19_a_bound_token_finds_what_is_in_its_sessions(server: Running, bound: httpx.Client) -> None:
    assert {hit.session for hit in found(bound, q="login")} == {"mine"}
    assert {hit.session for hit in found(bound, q="login", order="best")} == {"mine"}
    assert found(bound, q="login", workspace="/w/theirs") == []
    assert found(bound, q="word", tag="x")[0].session == "both"
    assert found(bound, q="works") == []


def test_s19_a_bound_token_finds_the_notes_of_its_sessions(server: Running, bound: httpx.Client) -> None:
    for id in ("mine", "theirs"):
        server.store.get(id).annotate(0, note="needle")
    assert [hit.session for hit in found(bound, q="needle")] == ["mine"]
    assert found(bound, q="needle", role="assistant") == []


def test_s19_the_cursor_of_another_caller_shows_nothing_of_others(
    server: Running, client: httpx.Client, bound: httpx.Client
) -> None:
    for number in range(5):
        server.store.get("theirs").append(user(f"login {number}"))
    cursor = client.get(SEARCH, params={"q": "login", "limit": 2}).json()["cursor"]
    assert {hit.session for hit in found(bound, q="login", cursor=cursor)} <= {"mine"}


def test_a_message_that_a_session_of_others_shares_is_found_in_the_own_one(
    server: Running, bound: httpx.Client
) -> None:
    """The fork is the caller's, its base is not: what only the base has is not found."""
    base = server.store.get("theirs")
    fork = base.fork("fork")
    fork.update(workspace="/w/mine", tags=["team"])
    base.append(user("only the base has this login"))
    hits = found(bound, q="login")
    assert {hit.session for hit in hits} == {"mine", "fork"}
    assert not any("only the base" in hit.snippet for hit in hits)


def test_sums_of_usage_are_those_of_the_own_sessions(server: Running, bound: httpx.Client) -> None:
    for number, id in enumerate(("mine", "theirs", "both")):
        server.store.get(id).add_usage(model="m", input_tokens=10**number, cost="1")
    assert bound.get("/api/v1/usage").json()["totals"]["input_tokens"] == 101
    by = bound.get("/api/v1/usage", params={"by": "session"}).json()
    assert [one["group"] for one in by["groups"]] == ["both", "mine"]
    server.store.get("theirs").update(metadata={"parent": "mine"})
    server.store.get("both").update(metadata={"parent": "theirs"})
    for path in ("/api/v1/usage?by=session&subagents=true", "/api/v1/sessions/mine/usage?subagents=true"):
        assert refusal(bound.get(path)) == (403, "bound")
    elsewhere = bound.get("/api/v1/usage", params={"workspace": "/w/theirs"}).json()
    assert elsewhere["totals"]["calls"] == 0
