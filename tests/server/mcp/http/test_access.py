"""Who is let in at `/mcp`, and what each caller sees and may do there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

import clew
from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token
from clew.server.mcp.resources.uris import session_uri
from clew.server.mcp.tools import TOOLS
from tests.server.conftest import TOKEN, Running, running
from tests.server.mcp.http.rpc import ask, call, headers_of, message, tools
from tests.server.mcp.safety.asking import HERE
from tests.server.mcp.safety.elsewhere import MARK, TAG, fill, secret_names
from tests.support.rows import each_row

Serve = Callable[..., Running]
EVERYWHERE = {"workspace": "all", "include_current": True}
READING = [tool.name for tool in TOOLS if tool.needs == "read"]


IN_BOTH = each_row("modern", [False, True], ids=["2025-11-25", "2026-07-28"])


def refused(answer: Any, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code


# -- who is let in: what holds for every route is in tests/server/access


def test_a_cookie_is_not_enough(server: Running) -> None:
    """Not even on a request of our own page: a browser sends it whoever asks."""
    with server.client(None) as client:
        client.post("/api/v1/login", json={"token": TOKEN})
        assert client.get("/api/v1/me").status_code == 200
        refused(ask(client), 403, "foreign_request")
        refused(ask(client, headers={"origin": server.url}), 401, "unauthorized")


def test_a_page_that_the_settings_name_can_call_it_with_a_token(serve: Serve) -> None:
    page = "https://inspector.example"
    server = serve(cors=(page,))
    asked = {"origin": page, "access-control-request-method": "POST"}
    with server.client(None) as client:
        allowed = client.options("/mcp", headers=asked).headers["access-control-allow-headers"].split(", ")
        assert {"authorization", "mcp-method", "mcp-name", "mcp-protocol-version"} <= set(allowed)
        refused(ask(client, headers={"origin": page}), 401, "unauthorized")
    with server.client() as client:
        answer = ask(client, headers={"origin": page})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page)


def test_a_share_reaches_no_tool(server: Running) -> None:
    session = server.store.create("a")
    _, token = add_share(server.store, session, at=None)
    with server.client(token) as client:
        refused(ask(client), 403, "shared_only")


# -- what is sent


@IN_BOTH
def test_a_body_that_is_too_large_is_refused(client: httpx.Client, modern: bool) -> None:
    sent = message("tools/call", {"name": "search_sessions", "arguments": {"query": "x" * 2**20}})
    answer = client.post("/mcp", json=sent, headers=headers_of(sent, modern=modern))
    refused(answer, 413, "too_large")


def test_a_body_that_is_too_large_when_it_is_unpacked_is_refused(client: httpx.Client) -> None:
    packed = gzip.compress(json.dumps(message("tools/list", {"x": "x" * 2**24})).encode())
    headers = {**headers_of(message("tools/list")), "content-encoding": "gzip"}
    refused(client.post("/mcp", content=packed, headers=headers), 413, "too_large")


@each_row("depth", [100, 100_000])
@IN_BOTH
def test_a_body_that_is_nested_deep_harms_nothing(client: httpx.Client, modern: bool, depth: int) -> None:
    sent = message("tools/call", {"name": "list_sessions", "arguments": {}}, modern=modern)
    nested = json.dumps(sent).replace(
        '"arguments": {}', '"arguments": {"a": ' + "[" * depth + "]" * depth + "}"
    )
    answer = client.post("/mcp", content=nested, headers=headers_of(sent, modern=modern))
    assert answer.status_code in (200, 400), answer.text
    told = answer.json()
    assert "error" in told or told["result"]["isError"]
    assert tools(client, modern=modern)


@IN_BOTH
def test_what_is_not_json_is_refused(client: httpx.Client, modern: bool) -> None:
    headers = headers_of(message("tools/list"), modern=modern)
    broken = client.post("/mcp", content=b"{", headers=headers)
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, -32700)
    form = {**headers, "content-type": "application/x-www-form-urlencoded"}
    refused(client.post("/mcp", content=b"a=b", headers=form), 415, "unsupported_media_type")


@IN_BOTH
def test_a_client_has_to_take_json(client: httpx.Client, modern: bool) -> None:
    assert ask(client, modern=modern, headers={"accept": "text/html"}).status_code == 406
    assert ask(client, modern=modern, headers={"accept": "*/*"}).status_code == 200


def test_there_is_nothing_to_get_or_to_delete(client: httpx.Client) -> None:
    """No stream without a request, and no session of the protocol: the revisions allow that."""
    for method in ("GET", "DELETE", "PUT"):
        for headers in ({}, {"accept": "text/event-stream"}, {"mcp-session-id": "x"}):
            answer = client.request(method, "/mcp", headers=headers)
            refused(answer, 405, "method_not_allowed")
            assert answer.headers["allow"] == "POST"


def test_a_header_of_the_protocol_may_be_there_once_only(client: httpx.Client) -> None:
    sent = message("tools/list", modern=True)
    headers = [*headers_of(sent, modern=True).items(), ("mcp-method", "tools/call")]
    refused(client.post("/mcp", json=sent, headers=headers), 400, "invalid_header")


def test_the_address_takes_two_parameters(client: httpx.Client) -> None:
    refused(ask(client, path="/mcp?all=1"), 422, "invalid")
    refused(ask(client, path="/mcp?workspace="), 422, "invalid")


# -- what each caller may do


def test_a_token_that_only_reads_is_offered_no_tool_that_writes(server: Running) -> None:
    server.store.create("a").append({"role": "user", "content": "hello"})
    _, token = add_token(server.store, "reader", scopes=["read"])
    with server.client(token) as client:
        for modern in (False, True):
            assert tools(client, modern=modern) == READING
            for name, arguments in {
                "checkpoint": {"name": "x", "session": "a"},
                "remember": {"note": "x", "place": "a"},
                "diff_files": {"a": "a"},
            }.items():
                answer = ask(client, "tools/call", {"name": name, "arguments": arguments}, modern=modern)
                assert answer.json()["error"]["code"] == -32602
    assert server.store.get("a").checkpoints() == []


def test_a_server_that_only_reads_offers_nobody_a_tool_that_writes(serve: Serve) -> None:
    with serve(read_only=True).client() as client:
        assert {"checkpoint", "remember"}.isdisjoint(tools(client))


def test_a_note_says_who_left_it(server: Running) -> None:
    _, token = add_token(server.store, "robot", scopes=["write"])
    for id, modern, who in (("a", False, "mcp:robot"), ("b", True, "mcp:test")):
        server.store.create(id).append({"role": "user", "content": "hello"})
        with server.client(token) as client:
            assert not call(client, "remember", {"note": "seen", "place": id}, modern=modern)["isError"]
        (entry,) = server.store.get(id).entries()
        assert (entry.annotations["note"], entry.annotations["noted_by"]) == ("seen", who)


# -- what each caller sees


@IN_BOTH
def test_a_bound_token_sees_its_own_sessions_alone(tmp_path: Path, modern: bool) -> None:
    """What else such a token could ask for is in tests/server/mcp/safety."""
    with clew.open(tmp_path / "store.db") as store, running(store) as server:
        fill(store, tmp_path / "files")
        _, token = add_token(store, "bound", scopes=["write", "files"], workspace=HERE, tags=[TAG])
        with server.client(token) as client:
            found = call(client, "search_sessions", {"query": "shared", **EVERYWHERE}, modern=modern)
            listed = call(client, "list_sessions", {"workspace": "all"}, modern=modern)
            own = {one["id"]: one["cost"] for one in listed["structuredContent"]["sessions"]}
            assert own == {"here": 1, "back": None}, "the cost of a subagent that is elsewhere does not count"
            answer = ask(client, "resources/list", modern=modern).json()["result"]
            assert {one["name"] for one in answer["resources"]} == {"here", "back"}
            away = ask(client, "resources/read", {"uri": session_uri(f"{MARK}-away")}, modern=modern).json()
            assert away["error"]["code"] == (-32602 if modern else -32002)
            told = json.dumps([found, listed, answer])
            assert "a shared beginning" in told
            assert MARK not in told.replace(f"{MARK} shared words", "")
            for name in secret_names(store)[::5]:
                assert call(client, "read_session", {"place": name}, modern=modern)["isError"]


def test_here_is_the_workspace_of_the_address(server: Running, client: httpx.Client, tmp_path: Path) -> None:
    for name in ("a", "b"):
        server.store.create(name, workspace=tmp_path / name)

    def listed(path: str, **arguments: str) -> set[str]:
        found = call(client, "list_sessions", arguments, path=path)["structuredContent"]["sessions"]
        return {one["id"] for one in found}

    assert listed("/mcp") == {"a", "b"}
    assert listed(f"/mcp?workspace={tmp_path}/a") == {"a"}
    assert listed(f"/mcp?workspace={tmp_path}/a", workspace="all") == {"a", "b"}


def test_a_session_that_the_address_names_does_not_find_itself(server: Running, client: httpx.Client) -> None:
    for name in ("a", "b"):
        server.store.create(name).append({"role": "user", "content": "needle"})

    def found(path: str) -> dict[str, Any]:
        result: dict[str, Any] = call(client, "search_sessions", {"query": "needle"}, path=path)
        return dict(result["structuredContent"])

    assert [hit["place"].partition("@")[0] for hit in found("/mcp?session=a")["hits"]] == ["b"]
    assert found("/mcp")["excluded_current"] == 2
