"""Notices of changes: who hears of what, in both revisions, in this process and over HTTP.

That a client is not told of something is seen by what it hears next: changes are told in their order.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated

import clew
from clew import Store
from clew.core.streams.watch import Watcher
from clew.server.access.tokens import add_token
from clew.server.live import hub
from clew.server.mcp.resources import changes
from clew.server.mcp.resources.uris import entry_uri, session_uri, tree_uri
from clew.server.mcp.view import View
from tests.server.conftest import TOKEN, Running
from tests.server.mcp.connected import Heard, connected, refused
from tests.server.mcp.http.rpc import http_client, sdk_client
from tests.support.rows import each_row
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

SAID = {"role": "user", "content": "Where is the thread?"}
DEMO = session_uri("demo")
LISTS = ResourcesListChanged()


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every second whether what a client follows is still there."""
    monkeypatch.setattr(hub, "CHECK", 0)
    monkeypatch.setattr(hub, "SLICE", 0.01)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with clew.open(tmp_path / "agents.db") as store:
        store.create("demo", workspace=tmp_path).append(SAID)
        yield store


@pytest.fixture
def view(store: Store, tmp_path: Path) -> View:
    return View(store=store, workspace=str(tmp_path))


@asynccontextmanager
async def listening(client: Client, *uris: str, lists: bool = True) -> AsyncIterator[Any]:
    async with client.listen(resources_list_changed=lists, resource_subscriptions=uris) as stream:
        yield stream


def heard(view: View, work: Any, *uris: str, lists: bool = True) -> list[object]:
    """What a client hears while something is done, up to the change of a session that it also follows."""
    view.store.session("last", workspace=view.workspace)
    last = ResourceUpdated(session_uri("last"))

    async def use(client: Client) -> list[object]:
        found: list[object] = []
        async with listening(client, *uris, last.uri, lists=lists) as stream:
            await anyio.to_thread.run_sync(work)
            view.store.get("last").append(SAID)
            async for event in stream:
                if event == last:
                    return found
                found.append(event)
        raise AssertionError("the stream ended")

    return connected(view, use)


# -- what is told


def test_a_change_of_a_session_is_told_of_its_page_and_its_tree(store: Store, view: View) -> None:
    entry = next(store.get("demo").entries()).id
    uris = DEMO, tree_uri("demo"), entry_uri("demo", entry)
    found = heard(view, lambda: store.get("demo").append(SAID), *uris)
    assert found == [ResourceUpdated(DEMO), ResourceUpdated(tree_uri("demo"))], "an entry never changes"


def test_a_session_that_comes_or_goes_changes_the_list(store: Store, view: View, tmp_path: Path) -> None:
    assert heard(view, lambda: store.create("new", workspace=tmp_path)) == [LISTS]
    assert heard(view, lambda: store.delete("new")) == [LISTS]
    assert heard(view, lambda: store.restore_deleted("new")) == [LISTS]


def test_lists_are_told_only_to_whom_asked_for_them(store: Store, view: View, tmp_path: Path) -> None:
    assert heard(view, lambda: store.create("new", workspace=tmp_path), lists=False) == []


def test_what_never_changes_is_not_promised(view: View) -> None:
    async def use(client: Client) -> Any:
        async with client.listen(
            tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
        ) as stream:
            return stream.honored

    honored = connected(view, use)
    assert honored.resources_list_changed is True
    assert not honored.tools_list_changed
    assert not honored.prompts_list_changed


@pytest.mark.parametrize("purge", [False, True])
def test_whoever_follows_a_session_hears_that_it_is_gone(store: Store, view: View, purge: bool) -> None:
    entry = entry_uri("demo", next(store.get("demo").entries()).id)

    async def use(client: Client) -> set[object]:
        async with listening(client, DEMO, entry) as stream:
            await anyio.to_thread.run_sync(lambda: store.delete("demo", purge=purge))
            return {await anext(stream) for _ in range(3)}

    assert connected(view, use) == {LISTS, ResourceUpdated(DEMO), ResourceUpdated(entry)}


def test_whoever_follows_a_session_that_is_not_there_yet_hears_when_it_comes(
    store: Store, view: View, tmp_path: Path
) -> None:
    work = lambda: store.create("a/b", workspace=tmp_path)  # noqa: E731
    assert heard(view, work, session_uri("a/b"), lists=False) == [ResourceUpdated(session_uri("a/b"))]


def test_an_alias_is_followed_as_its_session_is(store: Store, view: View) -> None:
    store.get("demo").add_alias("other")
    work = lambda: store.get("demo").append(SAID)  # noqa: E731
    assert heard(view, work, session_uri("other")) == [ResourceUpdated(session_uri("other"))]


# -- who is told


def test_sessions_that_a_client_may_not_see_are_not_told(store: Store, view: View, tmp_path: Path) -> None:
    store.create("hidden", workspace=tmp_path / "other")

    def work() -> None:
        store.get("hidden").append(SAID)
        store.create("new", workspace=tmp_path / "other")
        store.delete("new")
        store.delete("hidden", purge=True)

    uris = session_uri("hidden"), tree_uri("hidden"), session_uri("new"), "clew://session/%ff", "test://x"
    assert heard(view, work, *uris) == []


def test_a_session_that_leaves_the_reach_of_a_client_is_told_once(
    store: Store, view: View, tmp_path: Path
) -> None:
    work = lambda: store.get("demo").update(workspace=tmp_path / "other")  # noqa: E731
    assert heard(view, work, DEMO) == [LISTS, ResourceUpdated(DEMO)]
    assert heard(view, lambda: store.get("demo").append(SAID), DEMO) == []


def test_the_list_of_here_does_not_change_with_sessions_of_elsewhere(store: Store, tmp_path: Path) -> None:
    view = View(store=store, workspace=str(tmp_path), sees_all=True)
    other = session_uri("other")
    work = lambda: store.create("other", workspace=tmp_path / "other")  # noqa: E731
    assert heard(view, work, other) == [ResourceUpdated(other)]


# -- how long


def live_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "clew-live"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_one_thread_looks_while_somebody_listens(
    store: Store, view: View, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LINGER", 0)
    before = live_threads()

    async def use(client: Client) -> set[threading.Thread]:
        await client.read_resource(DEMO)
        assert live_threads() <= before, "those of other tests may end meanwhile"
        if mode == "legacy":
            await client.subscribe_resource(DEMO)
            (ended,) = live_threads() - before
            await client.unsubscribe_resource(DEMO)
            await anyio.to_thread.run_sync(ended.join)
            await client.subscribe_resource(DEMO)
            await client.subscribe_resource(tree_uri("demo"))
            return live_threads() - before
        async with listening(client, DEMO), listening(client, tree_uri("demo")):
            return live_threads() - before

    (thread,) = connected(view, use, mode)
    thread.join()


def test_a_stream_begins_when_no_change_can_be_missed_any_more(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, may_begin = threading.Event(), threading.Event()

    def begin(*args: Any) -> Any:
        came.set()
        may_begin.wait()
        return Watcher(*args)

    monkeypatch.setattr(hub, "Watcher", begin)
    order: list[str] = []

    async def listen(client: Client) -> None:
        async with listening(client):
            order.append("the stream began")

    async def use(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, client)
            await anyio.to_thread.run_sync(came.wait)
            await client.read_resource(DEMO)
            order.append("the store is watched")
            may_begin.set()

    connected(view, use)
    assert order == ["the store is watched", "the stream began"]


def test_a_stream_ends_well_when_the_store_is_closed(store: Store, view: View) -> None:
    async def use(client: Client) -> list[object]:
        async with listening(client, DEMO) as stream:
            store.close()
            return [event async for event in stream]

    assert connected(view, use) == []


def test_streams_and_what_one_follows_are_limited(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_STREAMS", 1)
    monkeypatch.setattr(changes, "MOST_URIS", 3)

    async def twice(client: Client) -> None:
        async with listening(client), listening(client):
            pass

    async def much(client: Client) -> None:
        async with listening(client, *(session_uri(f"{number}") for number in range(4))):
            pass

    assert "too_many_streams" in refused(view, twice).message
    assert refused(view, much).code == -32602


# -- clients of the revision 2025-11-25


class TestOlderClients:
    def test_resources_are_followed_one_by_one(self, store: Store, view: View, tmp_path: Path) -> None:
        store.create("other", workspace=tmp_path)
        told, other = Heard(), session_uri("other")

        async def use(client: Client) -> list[str]:
            for uri in (DEMO, DEMO, other):
                await client.subscribe_resource(uri)
            store.get("demo").append(SAID)
            found = [await told.next()]
            store.create("new", workspace=tmp_path)
            store.get("other").append(SAID)
            found.append(await told.next())
            await client.unsubscribe_resource(DEMO)
            store.get("demo").append(SAID)
            store.get("other").append(SAID)
            found.append(await told.next())
            await client.unsubscribe_resource(other)
            await client.unsubscribe_resource(other)
            await client.subscribe_resource(DEMO)
            store.get("demo").append(SAID)
            return [*found, await told.next()]

        assert connected(view, use, "legacy", told) == [DEMO, other, other, DEMO]

    def test_a_session_that_is_purged_is_told(self, store: Store, view: View, tmp_path: Path) -> None:
        store.create("other", workspace=tmp_path)
        told = Heard()

        async def use(client: Client) -> str:
            await client.subscribe_resource(session_uri("other"))
            await client.subscribe_resource(DEMO)
            await anyio.to_thread.run_sync(lambda: store.delete("demo", purge=True))
            return await told.next()

        assert connected(view, use, "legacy", told) == DEMO

    @each_row("uri", ["clew://session/none", "clew://session/hidden", "test://x"])
    def test_what_is_not_there_cannot_be_followed(
        self, store: Store, view: View, uri: str, tmp_path: Path
    ) -> None:
        store.session("hidden", workspace=tmp_path / "other")
        error = refused(view, lambda client: client.subscribe_resource(uri), "legacy")
        assert (error.code, error.data) == (-32002, {"uri": uri})


# -- over HTTP


def test_over_http_each_token_hears_of_its_own_sessions(server: Running, tmp_path: Path) -> None:
    store = server.store
    for name in ("a", "b"):
        store.create(name, workspace=tmp_path / name)
    tokens = [
        add_token(store, name, scopes=["read"], workspace=str(tmp_path / name))[1] for name in ("a", "b")
    ]
    uris = session_uri("a"), session_uri("b")

    async def hear(token: str, started: anyio.Event, found: list[object]) -> None:
        async with (
            http_client(token) as http,
            sdk_client(server.url, http, "auto") as client,
            listening(client, *uris) as stream,
        ):
            started.set()
            found.append(await anext(stream))

    async def run() -> list[list[object]]:
        found: list[list[object]] = [[], []]
        ready = [anyio.Event(), anyio.Event()]
        async with anyio.create_task_group() as tasks:
            for token, one, told in zip(tokens, ready, found, strict=True):
                tasks.start_soon(hear, token, one, told)
            for one in ready:
                await one.wait()
            store.get("a").append(SAID)
            store.get("b").append(SAID)
        return found

    assert anyio.run(run) == [[ResourceUpdated(uris[0])], [ResourceUpdated(uris[1])]]
    until(lambda: server.app.hub.streams == 0)


def test_over_http_older_clients_are_not_offered_what_cannot_reach_them(server: Running) -> None:
    async def run() -> types.ServerCapabilities:
        async with http_client(TOKEN) as http, sdk_client(server.url, http, "legacy") as client:
            return client.server_capabilities

    able = anyio.run(run).resources
    assert able is not None
    assert able.subscribe is False
