"""A fork tells a bound token nothing of what happens in its base, if that is hidden.

Two stores are the same, and in one of them the hidden base goes on in every way: their answers are equal,
byte for byte, with headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.server.access.tokens import add_token
from clew.server.mcp.tools import TOOLS
from clew.server.routing import Route
from tests.server.access.requests import Caller, name_of, path_of, queries, routes, send
from tests.server.access.twins import difference, each_once, open_twins
from tests.server.mcp.http.rpc import headers_of, message
from tests.server.routes.asking import assistant, user

DRY = {"dry_run": True}


class Known:
    """What whoever asks may know or guess."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.places: dict[str, str] = {}

    def by_session(self) -> Iterator[tuple[str, list[str]]]:
        """Sessions, and the places to try in each: all of them in one, which is enough to find one."""
        yield "fork", list(self.places.values())
        yield "second", [self.places["shared"], self.places["far"]]
        yield "base", [self.places["shared"]]


def begin(store: clew.Store, known: Known, mine: Path) -> None:
    base = store.create("base", workspace="/elsewhere", tags=["theirs"])
    base.append(user("this is shared"), assistant("so is this"))
    shared = base.head
    base.append(user("not shared any more"), assistant("nor this"))
    fork = base.fork("fork", at=shared)
    fork.update(workspace=mine, tags=["mine"])
    fork.checkpoint("on the shared path")
    own = fork.append(user("said in the fork"), assistant("answered in the fork"))
    fork.rewind(own[0])
    fork.append(user("said instead"))
    second = fork.fork("second", at=own[1])
    second.append(user("in a second fork"))
    head = store.get("base").head
    known.places = {
        "shared": str(shared), "own": own[0].id, "left": own[1].id, "hidden": str(head),
        "not yet": f"{head.branch}.{head.position + 1}", "far": f"{head.branch}.{head.position + 40}",
        "start": "start", "a position": "1", "a later position": "5", "a point": "a later point",
    }  # fmt: skip
    for name, binding in (("workspace", {"workspace": str(mine)}), ("tags", {"tags": ["mine"]})):
        known.tokens[name] = add_token(store, name, scopes=["admin"], **binding)[1]


def go_on(store: clew.Store, known: Known, tmp_path: Path) -> None:
    base = store.get("base")
    for number in range(40):
        base.append(user(f"shared word, later {number}"), assistant("later"))
    base.update(title="Renamed", tags=["renamed"], model="later", metadata={"agent": "later", "x": 1})
    base.add_alias("alias")
    base.set_var("var", "later")
    base.set_document("doc", b"later")
    base.add_event("log", {"text": "later"})
    base.add_usage(model="later-model", input_tokens=5, output_tokens=6, cost="7")
    base.set_summary("a later summary")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "later.txt").write_text("later")
    base.checkpoint("a later point", files=tmp_path / "files", state={"later": 1})
    base.compact("a later compaction")
    with base.run(request="later") as run:
        run.append(user("in a run"))
        run.complete("later")
    base.rewind(0)
    base.checkpoint("a later point on the shared path")
    known.places["on a branch of the base"] = base.append(user("on another branch"))[0].id
    base.fork("sibling", at=known.places["shared"]).append(user("hidden"))
    store.create("child", metadata={"parent": "base"}).append(user("in a subagent"))
    store.create("other", title="other", workspace="/elsewhere").append(user("in another session"))
    base.start("later")
    base.fail("later")


def go_on_and_end(store: clew.Store, known: Known, tmp_path: Path) -> None:
    go_on(store, known, tmp_path)
    store.delete("base")


def purge(store: clew.Store, known: Known, tmp_path: Path) -> None:
    store.delete("base", purge=True)


def requests(route: Route, known: Known) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    for id, places in known.by_session():
        for place in places:
            values = {
                "id": id, "entry": place, "other": place, "at": place, "before": place, "after": place,
                "cursor": place, "label": "later", "format": "markdown", "number": "0", "text": id,
                "session": id, "a": id, "b": "second", "a_at": place, "q": "shared", "name": place,
                "conversation_id": id, "item_id": place, "workspace": "/elsewhere", "parent": id,
            }  # fmt: skip
            for query in queries(route, values):
                yield path_of(route, values), query, {}
            if route.path.endswith("/live"):
                yield path_of(route, values), {}, {"last-event-id": place}
        for extra in (
            {"format": "json", "whole": "true"}, {"format": "html", "whole": "true"}, {"usage": "true"},
            {"format": "jsonl"}, {"view": "blocks", "last": 3},
        ):  # fmt: skip
            yield path_of(route, {**values, "entry": known.places["shared"]}), extra, {}
        if "{id}" not in route.path and "{conversation_id}" not in route.path:
            break


@pytest.mark.parametrize(
    ("happens", "kind"), [(go_on, "workspace"), (go_on_and_end, "tags"), (purge, "workspace")]
)
def test_a_fork_tells_nothing_of_its_hidden_base(happens: Any, kind: str, tmp_path: Path) -> None:
    known, mine = Known(), tmp_path / "mine"
    mine.mkdir()
    told, fine = [], set()
    with open_twins(
        tmp_path, lambda store: begin(store, known, mine), lambda store: happens(store, known, tmp_path)
    ) as twins:
        plain, later = twins.callers(known.tokens[kind])
        for route in routes():
            if route.method != "GET" or not route.path.startswith(("/api/v1", "/v1")):
                continue
            for path, query, headers in each_once(requests(route, known)):
                answers = [send(one, route, path, query=query, headers=headers) for one in (plain, later)]
                found = difference(f"{name_of(route)} {path} {query} {headers}", *answers)
                told += [found] if found is not None else []
                if answers[0].status == 200:
                    fine.add(route.path)
        told += by_moves(known, (plain, later))
        told += by_tools(known, (plain, later))
    assert {"/api/v1/sessions/{id}/tree", "/api/v1/search", "/api/v1/live", "/api/v1/compare"} <= fine
    assert told == [], f"{len(told)} answers tell of it\n" + "\n".join(told[:20])


def by_moves(known: Known, twins: tuple[Caller, Caller]) -> Iterator[str]:
    """What a move would do, without doing it."""
    rewind = next(route for route in routes() if route.path.endswith("/rewind"))
    for id, places in known.by_session():
        for place in places:
            body = {"to": place, **DRY}
            answers = [send(one, rewind, path_of(rewind, {"id": id}), body=body) for one in twins]
            found = difference(f"rewind {id} {place}", *answers)
            if found is not None:
                yield found


def by_tools(known: Known, twins: tuple[Caller, Caller]) -> Iterator[str]:
    endpoint = next(route for route in routes() if route.path == "/mcp" and route.method == "POST")
    for tool in TOOLS:
        if tool.needs != "read":
            continue
        for arguments in arguments_of(tool.name, known):
            sent = message("tools/call", {"name": tool.name, "arguments": arguments})
            answers = [
                send(one, endpoint, "/mcp", body=msgspec.json.encode(sent), headers=headers_of(sent))
                for one in twins
            ]
            found = difference(f"{tool.name} {arguments}", *answers)
            if found is not None:
                yield found


def arguments_of(tool: str, known: Known) -> Iterator[dict[str, Any]]:
    for id, places in known.by_session():
        for place in ("", *(f"@{place}" for place in places)):
            by_tool: dict[str, dict[str, Any]] = {
                "session_overview": {"session": id},
                "read_session": {"place": f"{id}{place}", "roles": ["user", "assistant"]},
                "search_sessions": {"query": "shared", "workspace": "all", "include_current": True},
                "list_sessions": {"workspace": "all"},
                "diff_session": {"a": f"{id}{place}", "b": "second"},
            }
            yield by_tool.get(tool, {"session": id, "workspace": "all"})
