"""A share shows one session, on one path, without secrets, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import clew
from clew.errors import NotFoundError
from clew.server.access.principal import Principal
from clew.server.access.shared import SharedStore
from clew.server.access.shares import REACHED, add_share, list_shares, remove_share
from clew.server.problems import Problem
from tests.server.access.requests import Caller, bodies, name_of, path_of, queries, routes, send
from tests.server.conftest import Running
from tests.support.rows import each_row, named

KEY = "sk-ant-api03-" + "a7Bc9" * 18 + "AA"
LATER, BESIDE, FORK, OTHER = "later7QZ4", "beside7QZ4", "fork7QZ4", "other7QZ4"
HIDDEN = (LATER, BESIDE, FORK, OTHER)


class World(NamedTuple):
    server: Running
    session: clew.Session
    at: clew.Head
    """Where the share ends."""
    later: clew.Entry
    left: clew.Entry
    """On a branch that the session has left."""


@pytest.fixture
def world(serve_timed: Callable[..., Running], tmp_path: Path) -> World:
    server = serve_timed(heartbeat=0.001)
    store = server.store
    session = store.create(
        "login", workspace=tmp_path / BESIDE, tags=[f"{BESIDE}-tag"], metadata={"note": f"{BESIDE} metadata"}
    )
    session.append({"role": "user", "content": "Please fix the login"})
    session.append({"role": "assistant", "content": f"The key is {KEY}"})
    at = session.head
    left = session.append({"role": "user", "content": f"{LATER} on an abandoned branch"})[0]
    session.rewind(at)
    session.append({"role": "user", "content": f"{LATER} on the path"})
    later = list(session.entries())[-1]
    session.add_alias("alias")
    session.checkpoint("point", state={"text": f"{BESIDE} state"})
    session.set_var("var", f"{BESIDE} variable")
    session.set_document("doc", f"{BESIDE} document".encode())
    session.add_event("log", {"text": f"{BESIDE} event"})
    session.add_usage(model=f"{BESIDE}-model", input_tokens=87654321, output_tokens=1, cost="12.5")
    session.annotate(next(session.entries()), note=f"{BESIDE} note", label="label")
    fork = session.fork("forked")
    fork.append({"role": "user", "content": f"{FORK} in a fork"})
    child = store.create("child", title=f"{OTHER} child", metadata={"parent": "login"})
    child.append({"role": "user", "content": f"{OTHER} subagent"})
    store.create("other", title=f"{OTHER} title").append({"role": "user", "content": f"{OTHER} session"})
    return World(server, session, at, later, left)


def new_share(world: World, **options: Any) -> str:
    return add_share(world.server.store, world.session, **{"at": world.at, **options})[1]


def shared(world: World, **options: Any) -> httpx.Client:
    return world.server.client(new_share(world, **options))


def values(world: World) -> dict[str, str]:
    first = next(world.session.entries())
    return {
        "id": "login", "entry": first.id, "other": first.id, "session": "login", "name": "doc", "q": "login",
        "path": "x", "snapshot": "x", "cursor": first.id, "at": world.later.id, "before": world.later.id,
        "after": first.id, "text": "x", "number": "0", "format": "markdown", "label": "label",
        "conversation_id": "login", "item_id": first.id,
    }  # fmt: skip


def everything(world: World, **options: Any) -> Iterator[tuple[str, int, bytes]]:
    """Every route, in many ways, with the token of a share: some hundred requests, which take a second."""
    client = Caller(world.server, new_share(world, **options))
    for route in routes():
        for id in ("login", "forked", "child", "other", "alias"):
            if id != "login" and "{id}" not in route.path:
                continue
            places = [values(world)["entry"], world.later.id] + [world.left.id] * (id == "login")
            for entry in places:
                known = {**values(world), "id": id, "entry": entry, "other": entry, "at": entry}
                for query in queries(route, known):
                    body = next(iter(bodies(route, known)))
                    told = send(client, route, path_of(route, known), query=query, body=body)
                    yield f"{name_of(route)} {id} {query}", told.status, told.body


def test_s40_a_share_shows_nothing_but_what_it_names(world: World) -> None:
    before = world.server.store.export("login", "jsonl")
    wrong, reached = [], set()
    for what, status, body in everything(world):
        if status >= 500 or any(word.encode() in body for word in (*HIDDEN, "87654321")):
            wrong.append((what, status, body[-400:]))
        if status < 300:
            reached.add(what.split(" ")[1])
    assert wrong == []
    needs_none = {route.path for route in routes() if route.scope is None}
    assert reached - needs_none <= REACHED
    beside = ("/outline", "/resume-command", "/compare", "/shares", "/rewind")
    assert not [path for path in REACHED if path.endswith(beside)]
    assert world.server.store.export("login", "jsonl") == before


def test_s40_a_live_share_shows_the_path_and_nothing_beside_it(world: World) -> None:
    wrong = []
    seen = False
    for what, status, body in everything(world, at=None):
        seen = seen or f"{LATER} on the path".encode() in body
        if any(word.encode() in body for word in (f"{LATER} on an", BESIDE, FORK, OTHER, "87654321")):
            wrong.append((what, status, body[-400:]))
    assert wrong == []
    assert seen


def texts(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text


def test_what_is_shared_can_be_read(world: World) -> None:
    with shared(world) as client:
        page = client.get("/api/v1/sessions/login/entries").json()
        assert [entry["message"]["role"] for entry in page["data"]] == ["user", "assistant"]
        info = client.get("/api/v1/sessions/login").json()
        assert (info["id"], info["messages"], info["title"]) == ("login", 2, "Please fix the login")
        assert info["head"]["position"] == 1
        assert info["workspace"] is None
        assert client.get("/api/v1/me").json()["session"] == "login"
        for view in ("blocks", "html", "line"):
            assert "fix the login" in texts(client.get(f"/api/v1/sessions/login/entries?view={view}"))
        assert len(client.get("/api/v1/sessions/login/context").json()["data"]) == 2
        one = client.get(f"/api/v1/sessions/login/entries/{page['data'][0]['id']}")
        assert "fix the login" in texts(one)
        assert client.get(f"/api/v1/sessions/login/entries/{world.later.id}").status_code == 404


@each_row("redact", [True, False])
def test_secrets_are_replaced_unless_that_was_switched_off(world: World, redact: bool) -> None:
    world.session.update(title=f"about {KEY}")
    paths = ["", "/entries", "/entries?view=blocks", "/entries?view=html", "/entries?view=line", "/context"]
    with shared(world, redact=redact, at=world.session.head) as client:
        for path in paths:
            told = texts(client.get(f"/api/v1/sessions/login{path}"))
            assert (KEY in told) != redact, path
            assert ("REDACTED:anthropic-key" in told) == redact, path
            if redact:
                assert '"hash"' not in told, "by a hash a short secret could be guessed"


def test_what_a_route_gets_of_a_share_has_no_secrets_already(world: World) -> None:
    """Whatever it makes of it: a secret that is cut in pieces by markup would not be found any more."""
    share = Principal(id="s", name="s", kind="share", session="login", redact=True)
    found = SharedStore(world.server.store, share).get("login")
    told = [*(entry.raw.decode() for entry in found.entries()), str(found.context()), str(found.messages())]
    assert not [text for text in told if KEY in text]
    assert any("REDACTED:anthropic-key" in text for text in told)
    for name in ("append", "clear", "documents", "events", "fork", "moves", "outline", "rewind", "vars"):
        with named(name), pytest.raises(Problem):
            getattr(found, name)()
    for name in ("compare", "stats"):
        with named(name), pytest.raises(Problem):
            getattr(SharedStore(world.server.store, share), name)


def test_an_export_of_a_share(world: World) -> None:
    with shared(world) as client:
        for format in ("markdown", "html", "json"):
            told = texts(client.get(f"/api/v1/sessions/login/export?format={format}"))
            assert "fix the login" in told
            assert not [word for word in (*HIDDEN, KEY, "87654321") if word in told]
        for format in ("jsonl", "claude-code", "codex"):
            assert client.get(f"/api/v1/sessions/login/export?format={format}").status_code == 422


def test_a_share_of_a_session_that_was_purged_does_not_show_a_new_one_of_its_id(world: World) -> None:
    with shared(world, at=None) as client:
        assert client.get("/api/v1/sessions/login/entries").status_code == 200
        world.server.store.delete("login", purge=True)
        world.server.store.create("login").append({"role": "user", "content": "a new one"})
        world.server.wait(1)
        assert client.get("/api/v1/sessions/login/entries").status_code == 401


def test_a_share_ends_when_it_is_over(world: World) -> None:
    with shared(world, lasts=timedelta(seconds=3)) as client:
        world.server.wait(2.9)
        assert client.get("/api/v1/sessions/login").status_code == 200
        world.server.wait(0.1)
        assert client.get("/api/v1/sessions/login").status_code == 401


def test_s36_a_removed_share_is_refused_after_a_second(world: World) -> None:
    with shared(world) as client:
        assert client.get("/api/v1/sessions/login").status_code == 200
        (share,) = list_shares(world.server.store, "login")
        remove_share(world.server.store, share.id)
        world.server.wait(1)
        assert client.get("/api/v1/sessions/login").status_code == 401
    with pytest.raises(NotFoundError, match="there is no share"):
        remove_share(world.server.store, share.id)


LIVE = next(route for route in routes() if route.path == "/api/v1/sessions/{id}/live")


def test_s36_an_open_stream_ends_when_its_share_is_removed(world: World) -> None:
    path = f"{path_of(LIVE, {'id': 'login'})}?after=start"
    with shared(world, at=None) as client, client.stream("GET", path) as stream:
        assert stream.status_code == 200
        lines, told = stream.iter_lines(), ""
        while LATER not in told:
            told += next(lines)
        assert KEY not in told, "nor does a stream show secrets"
        assert "REDACTED:anthropic-key" in told
        world.session.append({"role": "user", "content": f"{KEY} is said while it is followed"})
        while "while it is followed" not in told:
            told += next(lines)
        assert KEY not in told
        (share,) = list_shares(world.server.store, "login")
        remove_share(world.server.store, share.id)
        world.server.wait(1)
        told = "".join(lines)
        assert '"reason":"revoked"' in told
        world.session.append({"role": "user", "content": f"{OTHER} too late"})
        assert OTHER not in told


def test_s36_an_id_of_another_stream_means_nothing(world: World) -> None:
    """Last-Event-ID of a place that the share does not show: nothing of that place is told."""
    with shared(world) as client:
        for id in (world.left.id, world.later.id, "0" * 32 + ".7", "junk"):
            told = send(client, LIVE, path_of(LIVE, {"id": "login"}), headers={"last-event-id": id})
            assert LATER.encode() not in told.body, id
            assert told.status == (422 if id == "junk" else 200)


def test_a_share_cannot_be_made_a_cookie(world: World) -> None:
    """It would take the place of the cookie of the browser's own user."""
    _, token = add_share(world.server.store, world.session, at=None)
    with world.server.client(None) as client:
        answer = client.post("/api/v1/login", json={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_problem_says_what_a_share_can_show(world: World) -> None:
    with shared(world) as client:
        problem = client.get("/api/v1/sessions/login/tree").json()
    assert problem["code"] == "shared_only"
    assert problem["next"] == "GET /api/v1/sessions/login/entries shows it"
    assert json.dumps(problem)
