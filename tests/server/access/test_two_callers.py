"""Two callers of one store, each bound to its own sessions: neither ever sees a word of the other.

Every route is tried, with everything that it takes, and with the ids, names, keys and leases of the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import clew
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token
from clew.server.call import Call
from clew.server.routing import Route
from tests.server.access.requests import (
    Caller,
    Told,
    answer_with,
    bodies,
    name_of,
    path_of,
    queries,
    routes,
    send,
)
from tests.server.conftest import TOKEN, Running

Serve = Callable[..., Running]
MARK = "marker7Q4Z"
"""In everything that belongs to the other one, and nowhere else."""


class World(NamedTuple):
    server: Running
    a: clew.Session
    b: clew.Session
    values: dict[str, str]
    """What is known of the other's session, by the names of parameters."""
    tokens: dict[str, str]


@pytest.fixture
def world(serve: Serve, tmp_path: Path) -> Iterator[World]:
    place, files = tmp_path / "a", tmp_path / "files"
    place.mkdir()
    files.mkdir()
    (files / f"{MARK}.txt").write_text(f"{MARK} in a file")
    with clew.open(tmp_path / "two.db") as store:
        a = store.create("session-of-a", title=f"{MARK} title", workspace=place, tags=["a", f"{MARK}-tag"],
                         metadata={"secret": f"{MARK} metadata"}, model=f"{MARK}-model")  # fmt: skip
        a.append({"role": "user", "content": f"{MARK} says hello"}, key="key-of-a")
        first = next(a.entries())
        a.append({"role": "assistant", "content": f"{MARK} answers"})
        a.add_alias("alias-of-a")
        a.set_var("var", f"{MARK} variable")
        a.set_document("doc", f"{MARK} document".encode())
        a.add_event("log", {"text": f"{MARK} event"})
        a.add_usage(model=f"{MARK}-model", input_tokens=87654321, output_tokens=7, cost="77.77")
        a.annotate(first, note=f"{MARK} note", label=f"{MARK}-label")
        a.checkpoint("point", state={"text": f"{MARK} state"})
        snapshot = store.snapshot(files)
        a.rewind(first)
        fork = a.fork("fork-of-a")
        fork.append({"role": "user", "content": f"{MARK} in a fork"})
        gone = store.create("gone-of-a", title=f"{MARK} gone", workspace=place)
        gone.append({"role": "user", "content": f"{MARK} in the trash"})
        store.delete("gone-of-a")
        b = store.create("session-of-b", workspace=tmp_path / "b", tags=["b"])
        b.append({"role": "user", "content": "this is of b"})
        store.search("says")  # the index is made
        tokens = {
            "workspace": add_token(store, "b1", scopes=["admin", "files"], workspace=str(tmp_path / "b"))[1],
            "tags": add_token(store, "b2", scopes=["admin", "files"], tags=["b"])[1],
            "share": add_share(store, b, at=None, redact=False)[1],
            "share at": add_share(store, b, at=b.head, redact=False)[1],
        }
        cursor = store.list(limit=1).cursor or ""
        values = {
            "id": a.id, "other": first.id, "entry": first.id, "item_id": first.id, "name": "doc",
            "session": a.id, "conversation_id": a.id, "parent": a.id, "at": first.id, "before": first.id,
            "after": first.id, "alias": "alias-of-a", "path": f"{MARK}.txt", "snapshot": snapshot.id,
            "workspace": str(place), "tag": "a", "cursor": cursor, "q": "says", "text": "mine",
            "hash": first.hash, "epoch": "1", "label": "x", "key": "key-of-a", "a": a.id, "b": a.id,
        }  # fmt: skip
        yield World(serve(store, threads=4, heartbeat=0.001), a, b, values, tokens)


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
OTHERS = ("session-of-a", "fork-of-a", "gone-of-a", "alias-of-a")
ALIKE = rb"(session|fork|gone|alias)-of-a|never-was-a"


def attempts(world: World, kind: str) -> Iterator[tuple[str, bytes]]:
    """Every route, in every way: what was answered. That are 2000 requests, which take a second."""
    client = Caller(world.server, world.tokens[kind])
    headers = {
        "idempotency-key": "key-of-a",
        "last-event-id": world.values["entry"],
        "clew-lease": "1.1",
    }
    for route in sorted(routes(), key=lambda one: METHODS.index(one.method)):
        ids = [*OTHERS, world.b.id] if "{" in route.path else [""]
        for id in ids:
            values = {**world.values, "id": id} if id else world.values
            values = {**values, "conversation_id": id or world.a.id}
            path = path_of(route, values)
            for query in queries(route, world.values):
                for body in bodies(route, world.values):
                    for sent in ({}, headers) if not query else ({},):
                        told = send(client, route, path, query=query, body=body, headers=sent)
                        yield f"{name_of(route)} {id} {query} {told.status}", told.whole


@pytest.mark.parametrize("kind", ["workspace", "tags", "share at"])
def test_s19_no_marker_of_one_is_ever_in_an_answer_to_the_other(world: World, kind: str) -> None:
    before = contents(world)
    leaks, failures = [], []
    for what, told in attempts(world, kind):
        if MARK.encode() in told or b"87654321" in told:
            leaks.append(f"{what}: {told[told.find(MARK.encode()) - 200 :][:400]!r}")
        if " 500" in what[-4:]:
            failures.append(f"{what}: {told[-300:]!r}")
    assert leaks == []
    assert failures == []
    assert contents(world) == before, "nor is anything of the other one changed"


def contents(world: World) -> list[str]:
    store = world.server.store
    kept = [store.export(id, "jsonl") for id in ("session-of-a", "fork-of-a")]
    trash = [info for info in store.list(deleted=True) if MARK in (info.title or "")]
    return [*kept, str(trash), str(len(store.snapshots()))]


def test_this_test_would_see_a_leak(world: World) -> None:
    """The same requests with the owner's token find the marker in many places."""
    found = set()
    client = Caller(world.server, TOKEN)
    for route in routes():
        if route.method == "GET":
            for query in queries(route, world.values):
                told = send(client, route, path_of(route, world.values), query=query)
                if MARK.encode() in told.whole:
                    found.add(name_of(route))
    assert {"GET /api/v1/sessions", "GET /api/v1/sessions/{id}", "GET /api/v1/search"} <= found


@pytest.mark.parametrize("kind", ["workspace", "tags"])
def test_s19_not_yours_and_not_there_are_told_alike(world: World, kind: str) -> None:
    """Status, headers and body: nothing tells whether a session of another one is there."""
    differences = []
    client = Caller(world.server, world.tokens[kind])
    for route in routes():
        if name_of(route) in TELLS or route.path.startswith("/api/v1/snapshots"):
            continue
        told = {alike(all_answers(client, route, world.values, id)) for id in ("never-was-a", *OTHERS)}
        if len(told) != 1:
            differences.append((name_of(route), told))
    assert differences == []


TELLS = ("POST /api/v1/sessions", "PUT /api/v1/sessions/{id}")
"""An id that is taken cannot be given again: that much is told."""


def all_answers(client: Caller, route: Route, values: dict[str, str], id: str) -> Iterator[Told]:
    """With a session of this id in the path and in each parameter that names a session."""
    known = {**values, **dict.fromkeys(("id", "conversation_id", "parent", "session", "a"), id)}
    body = next(iter(bodies(route, {**values, "session": id})))
    for query in queries(route, known):
        if "{" in route.path or id in str(query):
            yield send(client, route, path_of(route, known), query=query, body=body)


def alike(answers: Iterator[Told]) -> tuple[tuple[int, str, bytes], ...]:
    """Without the id that was asked for, and without what differs with its length and with the time."""
    found = []
    for one in answers:
        body = re.sub(ALIKE, b"ID", one.body)
        kept = [line for line in one.headers.split("\n") if not line.startswith(("date:", "content-length:"))]
        found.append((one.status, "\n".join(kept), body))
    return tuple(found)


def test_s19_a_fork_that_crosses_the_border_shows_what_it_shares_and_no_more(world: World) -> None:
    """The owner gives one caller a fork of the other's session: both are of one tree then."""
    store = world.server.store
    base = store.create(f"{MARK}-base", workspace=world.values["workspace"], tags=["a"])
    base.append({"role": "user", "content": "this is shared"})
    shared = next(base.entries())
    base.append({"role": "user", "content": f"{MARK} is not shared"})
    later = list(base.entries())[-1]
    base.checkpoint(f"{MARK}-point", state=f"{MARK} state")
    base.annotate(later, note=f"{MARK} note", label="label-of-a")
    fork = base.fork("fork-for-b", at=shared)
    fork.update(workspace=world.b.info.workspace, tags=["b"])
    own = fork.append({"role": "user", "content": "said by b"})[-1]
    sessions = dict.fromkeys(("id", "conversation_id", "session", "a", "b"), fork.id)
    known = {**world.values, **sessions, "label": "label-of-a"}
    leaks, seen = [], False
    for kind in ("workspace", "tags"):
        client = Caller(world.server, world.tokens[kind])
        for route in routes():
            if not any(part in route.path for part in ("{id}", "conversation", "compare")):
                continue
            if route.method == "DELETE":
                continue
            for entry in (later.id, shared.id, own.id, f"{MARK}-point"):
                names = ("entry", "other", "at", "a_at", "b_at", "before", "after", "item_id", "to", "head")
                values = {**known, **dict.fromkeys(names, entry)}
                for query in queries(route, values) if route.method == "GET" else [{}]:
                    body = list(bodies(route, values))[-1]
                    told = send(client, route, path_of(route, values), query=query, body=body)
                    seen = seen or b"this is shared" in told.body
                    plain = told.whole.replace(f"{MARK}-point".encode(), b"")
                    if MARK.encode() in plain:
                        leaks.append((name_of(route), entry, query, told.status, told.body[-300:]))
    assert seen
    assert leaks == []


def test_s19_a_route_that_forgets_to_ask_is_covered(world: World) -> None:
    """The session of a path is looked at before any function of ours runs."""

    def forgetful(call: Call, id: str, **_: object) -> dict[str, str]:
        return {"title": call.server.store.get(id).info.title or ""}

    answer_with(world.server, "GET /api/v1/sessions/{id}/tree", forgetful)
    with world.server.client() as owner:
        assert MARK in owner.get("/api/v1/sessions/session-of-a/tree").text
    for kind in ("workspace", "tags", "share"):
        with world.server.client(world.tokens[kind]) as client:
            told = client.get("/api/v1/sessions/session-of-a/tree")
            assert told.status_code in (403, 404)
            assert MARK not in told.text


def test_s39_a_key_of_another_caller_tells_nothing(world: World) -> None:
    """Two callers who may both write to a session: the keys of one are not those of the other."""
    tokens = [add_token(world.server.store, name, scopes=["write"])[1] for name in ("one", "two")]
    path = f"/api/v1/sessions/{world.b.id}/entries"
    answers = []
    for token, text in zip(tokens, ("first", "second"), strict=True):
        with world.server.client(token) as client:
            body = {"messages": [{"role": "user", "content": text}]}
            answers.append(client.post(path, json=body, headers={"idempotency-key": "turn-1"}))
    assert [answer.status_code for answer in answers] == [201, 201], [answer.text for answer in answers]
    assert [entry["content"] for entry in world.b.messages()][-2:] == ["first", "second"]
    with world.server.client(tokens[0]) as client:
        body = {"messages": [{"role": "user", "content": "first"}]}
        assert client.post(path, json=body, headers={"idempotency-key": "turn-1"}).status_code in (200, 201)
    assert [entry["content"] for entry in world.b.messages()].count("first") == 1
