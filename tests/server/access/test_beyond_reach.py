"""What a bound token makes stays in its own workspace and tags: others never meet it in theirs.

Else it could write into the view of another caller, whose agent takes what it finds there for its own past.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from clew.server.access.principal import OWNER
from clew.server.access.tokens import add_token
from clew.server.mcp.current import own_sessions
from clew.server.mcp.tools import TOOLS
from clew.server.mcp.view import View
from tests.server.access.requests import Caller, bodies, name_of, path_of, queries, routes, send
from tests.server.conftest import Running
from tests.server.mcp.http.rpc import call
from tests.server.routes.asking import S, refusal, user
from tests.support.rows import each_row

CONVERSATIONS = "/v1/conversations"


class World(NamedTuple):
    server: Running
    mine: str
    theirs: str
    """Directories."""
    clients: dict[str, httpx.Client]
    """Of bound tokens: by what they are bound to."""
    tokens: dict[str, str]


@pytest.fixture
def world(server: Running, tmp_path: Path) -> Iterator[World]:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    store = server.store
    store.create("victim", workspace=theirs, tags=["theirs"]).append(user("of the victim"))
    store.create("by-workspace", workspace=mine).append(user("x"))
    store.create("by-tag", tags=["mine"]).append(user("x"))
    # The owner has put this one where all of them see it.
    store.create("between", workspace=theirs, tags=["mine", "theirs"]).append(user("x"))
    store.create("among", workspace=mine, tags=["mine", "theirs"]).append(user("x"))
    bindings: dict[str, dict[str, Any]] = {
        "workspace": {"workspace": str(mine)},
        "tag": {"tags": ["mine"]},
        "their workspace": {"workspace": str(theirs)},
        "their tag": {"tags": ["theirs"]},
    }
    tokens = {name: add_token(store, name, scopes=["admin"], **one)[1] for name, one in bindings.items()}
    with ExitStack() as opened:
        clients = {name: opened.enter_context(server.client(token)) for name, token in tokens.items()}
        yield World(server, str(mine), str(theirs), clients, tokens)


def seen_by_victims(world: World) -> list[tuple[str, str]]:
    """Whatever those see who are bound to the other workspace and tag, in use and in the trash."""
    found = []
    for name in ("their workspace", "their tag"):
        for deleted in ("false", "true"):
            page = world.clients[name].get(S, params={"deleted": deleted, "limit": 200}).json()
            found += [(name, one["id"]) for one in page["data"]]
    return sorted(found)


OWN = {"workspace": "by-workspace", "tag": "by-tag"}


@each_row("kind", ["workspace", "tag"])
def test_no_session_gets_into_a_workspace_or_a_tag_of_others(world: World, kind: str) -> None:
    client, own = world.clients[kind], f"{S}/{OWN[kind]}"
    before = seen_by_victims(world)
    for beyond in ({"workspace": world.theirs}, {"tags": ["mine", "theirs"]}, {"tags": ["theirs"]}):
        for answer in (
            client.post(S, json=beyond),
            client.put(f"{S}/new", json=beyond),
            client.patch(own, json=beyond),
            client.patch(f"{S}/among", json={**beyond, "tags": ["mine", "theirs", "more"]}),
        ):
            assert refusal(answer) == (403, "bound"), (beyond, answer.text)
    assert refusal(client.post("/api/v1/import", content=b"{}")) == (403, "bound")
    assert seen_by_victims(world) == before
    assert world.server.store.find("new") is None


@each_row("kind", ["workspace", "tag"])
def test_what_the_owner_did_can_stay(world: World, kind: str) -> None:
    for patch in ({"title": "new"}, {"tags": ["theirs", "mine"], "metadata": {"x": 1}}):
        assert world.clients[kind].patch(f"{S}/among", json=patch).status_code == 200, patch
    same = {"workspace": world.theirs, "tags": ["mine", "theirs"]}
    assert world.clients["tag"].patch(f"{S}/between", json=same).status_code == 200


def test_a_fork_gets_the_workspace_and_the_tags_of_the_token_and_no_others(world: World) -> None:
    before = seen_by_victims(world)
    for kind, base in (("tag", "between"), ("tag", "among"), ("workspace", "among")):
        answer = world.clients[kind].post(f"{S}/{base}/fork", json={"id": f"{kind}-{base}"})
        assert answer.status_code == 201, answer.text
        info = world.server.store.get(f"{kind}-{base}").info
        is_tag = kind == "tag"
        assert (info.workspace, info.tags) == ((None, ("mine",)) if is_tag else (world.mine, ()))
        assert (answer.json()["workspace"], tuple(answer.json()["tags"])) == (info.workspace, info.tags)
    assert seen_by_victims(world) == before


@each_row("kind", ["workspace", "tag"])
def test_no_session_gets_into_a_family_of_others(world: World, kind: str) -> None:
    """As a subagent or a copy of a session that the token does not see, it would stand in its pages. Whether
    there is such a session is not told."""
    client, own, told = world.clients[kind], f"{S}/{OWN[kind]}", set()
    for name in ("parent", "copied_from"):
        for base in ("victim", "never-was"):
            metadata = {name: base}
            tries = [
                client.post(S, json={"metadata": metadata}),
                client.put(f"{S}/new", json={"metadata": metadata}),
                client.patch(own, json={"metadata": metadata}),
            ]
            told |= {(one.status_code, one.text.replace(base, "ID")) for one in tries}
            made = client.post(CONVERSATIONS, json={"metadata": metadata}).json()
            changed = client.post(f"{CONVERSATIONS}/{made['id']}", json={"metadata": metadata}).json()
            assert made["metadata"] == changed["metadata"] == metadata, (
                "to OpenAI it is a pair like any other"
            )
        assert client.post(S, json={"metadata": {name: OWN[kind]}}).status_code == 201
    assert {status for status, _ in told} == {403}
    assert len(told) == 2, "one for each of the two fields"
    for name in ("parent", "copied_from"):
        assert world.server.store.list(where={name: "victim"}).sessions == ()


@each_row("kind", ["workspace", "tag"])
def test_no_route_puts_a_session_before_others(world: World, kind: str) -> None:
    """Every route that changes something, with everything that it takes."""
    before, reached = seen_by_victims(world), set()
    caller = Caller(world.server, world.tokens[kind])
    values = {
        "id": OWN[kind], "workspace": world.theirs, "tags": "theirs", "tag": "theirs", "session": OWN[kind],
        "parent": "victim", "other": "new", "conversation_id": OWN[kind], "to": "0", "at": "0", "text": "x",
    }  # fmt: skip
    for route in routes():
        if route.method == "GET" or "/restores" in route.path:
            continue
        for id in (OWN[kind], "among", "between", "made"):
            known = {**values, "id": id, "conversation_id": id}
            for query in queries(route, known):
                for body in bodies(route, known):
                    told = send(caller, route, path_of(route, known), query=query, body=body)
                    if told.status < 300:
                        reached.add(name_of(route))
    assert "PUT /api/v1/sessions/{id}" in reached
    assert [one for one in seen_by_victims(world) if one not in before] == []


def test_no_tool_puts_a_session_before_others(world: World) -> None:
    before = seen_by_victims(world)
    for kind in ("workspace", "tag"):
        for tool in TOOLS:
            if tool.needs == "write":
                given = {"checkpoint": {"name": "n", "session": OWN[kind]}, "remember": {"note": "n"}}[
                    tool.name
                ]
                call(world.clients[kind], tool.name, {**given, "workspace": world.theirs})
                call(world.clients[kind], tool.name, given)
    assert seen_by_victims(world) == before


# -- the latest session


def latest(client: httpx.Client, **query: Any) -> str | None:
    answer = client.get("/api/v1/latest", params=query)
    assert answer.status_code in (200, 404), answer.text
    return answer.json().get("id") if answer.status_code == 200 else None


def test_the_latest_session_is_none_that_another_made(world: World) -> None:
    store, client = world.server.store, world.clients["workspace"]
    rival = add_token(store, "rival", scopes=["write"], workspace=world.mine)[1]
    made = [
        client.post(S, json={"id": "planted"}),
        client.put(f"{S}/put", json={}),
        client.post(f"{S}/by-workspace/fork", json={"id": "forked"}),
        client.post(CONVERSATIONS, json={"items": []}),
    ]
    planted = [one.json()["id"] for one in made]
    with world.server.client() as owner, world.server.client(rival) as other:
        for id in planted:
            store.get(id).append(user("go on with this"))
            assert latest(client) == id
            assert latest(client, workspace=world.mine) == id
            for one in (owner, other):
                assert latest(one, workspace=world.mine) == "among", id
            assert store.latest(workspace=world.mine) == store.get("among")
            assert store.latest() == store.get("among")
        store.get("planted").fork("taken over").append(user("the owner goes on with it"))
        assert latest(owner, workspace=world.mine) == "taken over"
        assert latest(other) == "taken over"


def test_the_mark_of_who_made_a_session_stays(world: World) -> None:
    store, client = world.server.store, world.clients["tag"]
    client.post(S, json={"id": "planted", "metadata": {"made_by": "own"}}).raise_for_status()
    conversation = client.post(CONVERSATIONS, json={"metadata": {"made_by": "own"}}).json()
    assert conversation["metadata"] == {"made_by": "own"}, "to OpenAI it is a pair like any other"
    for id in ("planted", conversation["id"]):
        by = store.get(id).info.metadata["made_by"]
        assert world.tokens["tag"].startswith(f"clew_{by}_")
        for metadata in ({"made_by": "own"}, {"made_by": None}, None, {"x": "y"}):
            client.patch(f"{S}/{id}", json={"metadata": metadata}).raise_for_status()
            assert store.get(id).info.metadata["made_by"] == by, metadata
        client.post(f"{CONVERSATIONS}/{id}", json={"metadata": {"made_by": "own"}}).raise_for_status()
        assert store.get(id).info.metadata["made_by"] == by
    client.patch(f"{S}/by-tag", json={"metadata": {"made_by": "own", "x": "y"}}).raise_for_status()
    assert store.get("by-tag").info.metadata == {"x": "y"}
    store.get("planted").update(metadata={})
    assert store.get("planted").info.metadata == {}, "the owner may take it away"


def test_the_latest_session_is_none_that_the_token_does_not_see(world: World) -> None:
    store = world.server.store
    store.get("victim").append(user("later"))
    assert latest(world.clients["workspace"]) == "among"
    assert latest(world.clients["tag"]) == "among"
    assert latest(world.clients["tag"], workspace=world.mine) == "among"
    assert latest(world.clients["workspace"], workspace=world.theirs) is None
    for id in ("among", "by-workspace"):
        store.delete(id)
    assert latest(world.clients["workspace"]) is None


def test_the_current_session_of_an_agent_is_none_that_another_made(world: World) -> None:
    world.clients["workspace"].post(S, json={"id": "planted"}).raise_for_status()
    world.server.store.get("planted").append(user("note it here"))
    view = View(store=world.server.store, principal=OWNER, workspace=world.mine)
    assert {one.id for one in own_sessions(view)} == {"among", "by-workspace"}
