"""What a share and a bound token reach of outlines, comparisons, plans and commands: nothing of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import clew
from clew.server.access.principal import Principal
from clew.server.access.shared import SharedStore
from clew.server.access.shares import REACHED, add_share
from clew.server.access.tokens import add_token
from clew.server.problems import Problem
from tests.server.conftest import Running
from tests.support.rows import each_row

S = "/api/v1/sessions"
HIDDEN = "hidden7QZ4"


class World(NamedTuple):
    server: Running
    own: clew.Session
    left: clew.Head
    """The end of a branch that `own` has left."""
    other: clew.Session
    """A fork of it that is another's."""


@pytest.fixture
def world(server: Running, tmp_path: Path) -> World:
    own = server.store.create("own", tags=["mine"])
    own.append({"role": "user", "content": "shared"}, {"role": "assistant", "content": "answer"})
    own.checkpoint("point")
    own.append({"role": "user", "content": f"{HIDDEN} on a branch that was left"})
    left = own.head
    own.rewind("point")
    other = own.fork("other")
    other.update(tags=["theirs"], title=f"{HIDDEN} title", workspace=tmp_path / HIDDEN)
    other.append({"role": "user", "content": f"{HIDDEN} words"})
    other.checkpoint(f"{HIDDEN} checkpoint")
    return World(server, own, left, other)


@pytest.fixture
def bound(world: World) -> Iterator[httpx.Client]:
    _, token = add_token(world.server.store, "bound", scopes=["admin", "files"], tags=["mine"])
    with world.server.client(token) as client:
        yield client


def asked(client: httpx.Client, world: World, id: str, at: str) -> Iterator[httpx.Response]:
    """All that is new, about one session and a point."""
    yield client.get(f"{S}/{id}/outline", params={"at": at})
    yield client.get(f"{S}/{id}/resume-command", params={"at": at})
    for query in ({"a": "own", "b": id, "b_at": at}, {"b": "own", "a": id, "a_at": at}):
        yield client.get("/api/v1/compare", params=query)
    for files in (False, True):
        yield client.post(f"{S}/{id}/rewind", json={"to": at, "files": files, "dry_run": True})
    yield client.post("/api/v1/shares", json={"session": id, "at": at, "redact": False})


def test_s19_a_bound_token_is_told_nothing_of_what_is_anothers(world: World, bound: httpx.Client) -> None:
    theirs = str(world.other.head)
    for id, at in (("other", theirs), ("other", "0"), ("own", theirs), ("own", f"{HIDDEN} checkpoint")):
        for answer in asked(bound, world, id, at):
            assert answer.status_code in (403, 404), (answer.request.url, answer.text)
            assert HIDDEN not in answer.text.replace(at, ""), answer.request.url


def test_s19_what_is_not_there_and_what_is_anothers_are_told_alike(world: World, bound: httpx.Client) -> None:
    def told(id: str) -> list[Any]:
        return [
            (answer.status_code, answer.text.replace(id, "ID")) for answer in asked(bound, world, id, "0")
        ]

    assert told("other") == told("nobody")


def test_a_bound_token_reaches_its_own(world: World, bound: httpx.Client) -> None:
    left = str(world.left)
    assert [one["text"] for one in bound.get(f"{S}/own/outline").json()["data"]] == ["shared", "point"]
    assert len(bound.get(f"{S}/own/outline", params={"at": left}).json()["data"]) == 3
    found = bound.get("/api/v1/compare", params={"a": "own", "b": "own", "b_at": left}).json()
    assert (found["common"]["position"], found["b"]["entries_after"]) == (1, 1)
    assert bound.post(f"{S}/own/rewind", json={"to": 0, "dry_run": True}).status_code == 200


@each_row("live", [True, False])
def test_s40_a_share_reaches_none_of_it(world: World, live: bool) -> None:
    head = world.own.head
    _, token = add_share(world.server.store, world.own, at=None if live else head, redact=False)
    with world.server.client(token) as client:
        for id in ("own", "other"):
            for at in ("0", str(world.left), "point"):
                for answer in asked(client, world, id, at):
                    assert answer.status_code == 403, (answer.request.url, answer.text)
                    assert HIDDEN not in answer.text
    new = ("/outline", "/resume-command", "/compare", "/shares", "/rewind")
    assert not [path for path in REACHED if path.endswith(new)]


def test_s40_a_route_that_asked_by_mistake_would_get_nothing(world: World) -> None:
    """The store of a share does not offer it, whatever a route does."""
    principal = Principal(id="s", name="share", kind="share", session="own")
    store = SharedStore(world.server.store, principal)
    with pytest.raises(Problem):
        store.get("own").outline()
    with pytest.raises(Problem):
        store.compare("own", "own")
    with pytest.raises(Problem):
        store.get("own").rewind(0)
