"""`/mcp` of a real server: clients of both revisions, streams, limits, and the end of the server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.client import Client
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

import clew
from clew.server.access.tokens import add_token, remove_token
from clew.server.live import hub
from clew.server.mcp import factory
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.view import View
from tests.server.conftest import TOKEN, Running
from tests.server.mcp.http.rpc import MODES, ask, call, headers_of, http_client, message, sdk_client, tools
from tests.server.process.commands import Serving, serving
from tests.support.waiting import until

Serve = Callable[..., Running]
MANY = 30


def fill(store: clew.Store) -> None:
    store.create("a", title="Haystack").append({"role": "user", "content": "where is the needle?"})


# -- clients


def test_many_calls_at_once_are_answered_each_to_its_caller(server: Running) -> None:
    for number in range(MANY):
        server.store.create(f"s{number}").append({"role": "user", "content": f"word{number}"})

    async def use() -> None:
        async with http_client(TOKEN) as http:

            async def read(number: int) -> None:
                sent = message("tools/call", {"name": "read_session", "arguments": {"place": f"s{number}"}})
                sent["id"] = number
                answer = await http.post(f"{server.url}/mcp", json=sent, headers=headers_of(sent))
                told = answer.json()
                assert told["id"] == number
                (entry,) = told["result"]["structuredContent"]["entries"]
                assert entry["text"] == f"word{number}"

            await asyncio.gather(*(read(number) for number in range(MANY)))

    asyncio.run(use())


def test_nothing_is_kept_between_two_requests(serve: Serve, tmp_path: Path) -> None:
    """So any process that serves the store answers."""
    with clew.open(tmp_path / "store.db") as store:
        fill(store)
        first, second = serve(store), serve(store)
        with first.client() as client:
            agreed = {"protocolVersion": "2025-11-25", "capabilities": {}}
            begin = {**agreed, "clientInfo": {"name": "test", "version": "1"}}
            begun = ask(client, "initialize", begin)
            assert begun.json()["result"]["protocolVersion"] == "2025-11-25"
            assert "mcp-session-id" not in begun.headers
        with second.client() as client:
            headers = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "of-another-server"}
            assert "needle" in str(call(client, "read_session", {"place": "a"}, headers=headers))


def test_clients_go_on_when_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    with clew.open(tmp_path / "agents.db") as store:
        fill(store)

    async def listed(client: Client) -> list[str]:
        told = await client.call_tool("list_sessions", {})
        assert told.structured_content is not None
        return [one["id"] for one in told.structured_content["sessions"]]

    async def use(server: Serving) -> None:
        async with AsyncExitStack() as opened:
            http = await opened.enter_async_context(http_client(server.token))
            clients = [await opened.enter_async_context(sdk_client(server.url, http, mode)) for mode in MODES]
            assert [await listed(client) for client in clients] == [["a"], ["a"]]
            server.end(signal.SIGKILL)
            opened.enter_context(serving(tmp_path, port=server.url.rpartition(":")[2]))
            assert [await listed(client) for client in clients] == [["a"], ["a"]]

    with serving(tmp_path) as server:
        anyio.run(use, server)


# -- streams


@contextmanager
def listening(client: httpx.Client) -> Iterator[Iterator[str]]:
    """The lines of a stream behind the first event, which says that it has begun."""
    sent = message("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, modern=True)
    with client.stream("POST", "/mcp", json=sent, headers=headers_of(sent, modern=True)) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.iter_lines()
        assert "subscriptions/acknowledged" in next(line for line in lines if line.startswith("data:"))
        yield lines


def ends(lines: Iterator[str]) -> bool:
    """Whether a stream says that it ends, and does."""
    (last,) = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
    return bool(last["id"] == 1 and last["result"]["resultType"] == "complete")


class TestStreams:
    def test_a_stream_ends_when_the_server_stops(self, server: Running, client: httpx.Client) -> None:
        with listening(client) as lines:
            assert server.app.hub.streams == 1
            server.app.stop_streams()
            assert ends(lines)
        until(lambda: server.app.in_flight == 0)

    def test_a_stream_ends_when_its_token_is_revoked(self, timed: Running) -> None:
        _, token = add_token(timed.store, "listener", scopes=["read"])
        with timed.client(token) as client, listening(client) as lines:
            remove_token(timed.store, "listener")
            timed.wait(hub.CHECK)
            assert ends(lines)
            assert ask(client).status_code == 401

    def test_a_client_that_leaves_makes_room(self, serve: Serve) -> None:
        server = serve(streams=1)
        sent = message("subscriptions/listen", {"notifications": {}}, modern=True)
        with server.client() as first, server.client() as second:
            with listening(first):
                full = second.post("/mcp", json=sent, headers=headers_of(sent, modern=True))
                assert "too_many_streams" in full.json()["error"]["message"]
                assert tools(second)
            until(lambda: server.app.hub.streams == 0)
            with listening(second):
                pass

    def test_a_stream_says_nothing_of_how_long_an_answer_takes(self, server: Running) -> None:
        with server.client() as client, listening(client):
            pass
        until(lambda: server.app.in_flight == 0)
        assert "/mcp" not in server.app.metrics.numbers.durations
        with server.client() as client:
            tools(client)
        until(lambda: "/mcp" in server.app.metrics.numbers.durations)


def test_a_server_that_is_told_to_stop_does_not_wait_for_who_listens(tmp_path: Path) -> None:
    async def use(server: Serving) -> list[Any]:
        async with (
            http_client(server.token) as http,
            sdk_client(server.url, http, "auto") as client,
            client.listen(resources_list_changed=True) as stream,
        ):
            server.send(signal.SIGTERM)
            return [event async for event in stream]

    with serving(tmp_path, "--grace", "3600") as server:
        assert anyio.run(use, server) == []
        assert server.process.wait() == 0


# -- the server around it


def test_the_sdk_sees_neither_token_nor_cookie(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    handle = StreamableHTTPSessionManager.handle_request

    async def look(self: Any, scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope))
        await handle(self, scope, receive, send)

    monkeypatch.setattr(StreamableHTTPSessionManager, "handle_request", look)
    answer = ask(client, headers={"cookie": "clew=abc", "x-forwarded-for": "1.2.3.4"}, path="/mcp?session=a")
    assert answer.status_code == 200
    (scope,) = seen
    assert [name for name, _ in scope["headers"]] == [b"accept", b"content-type"]
    assert (scope["query_string"], scope["client"]) == (b"", None)


def test_a_request_that_takes_too_long_is_answered(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def wait(view: View, args: Arguments) -> Answer:
        go_on.wait()
        return Answer()

    slow = Tool(name="slow", description="", arguments=Arguments, answer=Answer, run=wait)
    monkeypatch.setattr(factory, "tools_for", lambda view: {"slow": slow})
    try:
        with serve(timeout=0.2).client() as client:
            for modern in (False, True):
                answer = ask(client, "tools/call", {"name": "slow", "arguments": {}}, modern=modern)
                assert (answer.status_code, answer.json()["code"]) == (503, "timeout")
            until(lambda: ask(client).status_code == 200)  # a busy machine may need more time, too
    finally:
        go_on.set()


@pytest.mark.parametrize("modern", [False, True])
def test_what_fails_in_the_sdk_is_told_and_logged(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, modern: bool
) -> None:
    async def fail(self: Any, *_: Any) -> None:
        raise ValueError("a secret of the server")

    monkeypatch.setattr(StreamableHTTPSessionManager, "handle_request", fail)
    answer = ask(client, modern=modern)
    assert (answer.status_code, answer.json()["code"]) == (500, "unexpected")
    assert "secret" not in answer.text
    assert answer.json()["error"] in caplog.text


def test_it_can_be_switched_off(serve: Serve) -> None:
    with serve(mcp=False).client() as client:
        assert ask(client).json()["code"] == "no_such_route"


def test_without_the_sdk_the_answer_says_what_to_install(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "clew.server.mcp.http.exchange")
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    answer = ask(client)
    assert (answer.status_code, answer.json()["code"]) == (501, "not_installed")
    assert "pip install 'mcp>=2.1,<3'" in answer.json()["next"]
    monkeypatch.undo()
    assert tools(client)


def test_the_sdk_is_loaded_by_the_first_request_only(tmp_path: Path) -> None:
    code = (
        "import sys, clew; from clew.server import app\n"
        "app(clew.open('memory:'), token='x').router\n"
        "print([name for name in ('mcp', 'anyio', 'pydantic', 'starlette') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == []
