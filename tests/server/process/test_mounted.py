"""The application inside of another one, and behind a proxy that offers it below a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import clew
from clew.server import app
from tests.server.conftest import TOKEN, Running
from tests.server.mcp.http.rpc import ask, tools
from tests.server.sockets import listening

Serve = Callable[..., Running]


@pytest.fixture
def mounted() -> Iterator[httpx.Client]:
    """A client of an application that has ours at `/tools/cléw`."""
    with clew.open("memory:") as store:

        def outer(address: str) -> Starlette:
            return Starlette(routes=[Mount("/tools/cléw", app(store, token=TOKEN, hosts=(address,)))])

        headers = {"authorization": f"Bearer {TOKEN}"}
        with (
            listening(outer, lifespan="off") as (address, _),
            httpx.Client(
                base_url=f"http://{address}", headers=headers, trust_env=False, timeout=None
            ) as found,
        ):
            yield found


def test_links_lead_back_to_where_it_is_mounted(mounted: httpx.Client) -> None:
    place = "/tools/cl%C3%A9w/api/v1/sessions"
    for id in ("a/b", "c"):
        made = mounted.post(place, json={"id": id})
        assert made.status_code == 201, made.text
        assert mounted.get(made.headers["location"]).json()["id"] == id
    page = mounted.get(place, params={"limit": 1})
    assert page.links["next"]["url"].startswith(place)
    assert len(mounted.get(page.links["next"]["url"]).json()["data"]) == 1
    assert mounted.get("/api/v1/sessions").status_code == 404


@pytest.mark.parametrize("modern", [False, True])
def test_agents_find_their_tools_where_it_is_mounted(mounted: httpx.Client, modern: bool) -> None:
    """Also in an application that is not told of its start and its end."""
    assert "search_sessions" in tools(mounted, path="/tools/cl%C3%A9w/mcp", modern=modern)
    assert ask(mounted, path="/mcp", modern=modern).status_code == 404


@pytest.mark.parametrize("prefix", ["/clew", ""])
def test_links_lead_back_through_a_proxy(serve: Serve, prefix: str) -> None:
    """Whether or not it takes the path away that it offers the application at."""
    server = serve(root_path="/clew")
    with server.client() as client:
        made = client.post(f"{prefix}/api/v1/sessions", json={"id": "a"})
        assert made.headers["location"] == "/clew/api/v1/sessions/a"
        server.store.get("a").append({"role": "user", "content": "x" * 300_000})
        shown = client.get(f"{prefix}/api/v1/sessions/a/entries").json()["data"][0]
        assert shown["large"]["link"].startswith("/clew/api/v1/sessions/a/entries/")
