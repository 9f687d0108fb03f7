"""Short ids over HTTP, for the addresses of the page."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from clew.server.routing import encoded
from tests.server.conftest import Running
from tests.support.rows import named

UUID = "0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
NEAR = "0b1c2d3e-4fff-4a61-8b72-93a4b5c6d7e8"


def test_a_session_is_found_by_each_of_its_names(server: Running, client: httpx.Client) -> None:
    store, id = server.store, f"claude-code:{UUID}"
    store.create(id, title="Fix it").add_alias("login")
    store.create(f"{id}/agent-a1b2c3d4e5", metadata={"parent": id})
    for text in (id, UUID, "0b1c2d3e", "0b1c", "claude-code:0b", "login"):
        with named(text):
            assert client.get(f"/api/v1/names/{encoded(text)}").json() == {
                "id": id,
                "short_id": "0b1c2d3e",
                "title": "Fix it",
            }
    subagent = client.get(f"/api/v1/names/{encoded('0b1c2d3e/a1')}").json()
    assert subagent == {"id": f"{id}/agent-a1b2c3d4e5", "short_id": "0b1c2d3e/a1b2", "title": None}


def test_a_text_that_means_no_single_session_says_why(server: Running, client: httpx.Client) -> None:
    store = server.store
    store.create(f"claude-code:{UUID}")
    store.create(f"codex:{NEAR}")
    store.create("login#fork-1")
    store.create("gone")
    store.delete("gone")
    several = client.get("/api/v1/names/0b1c")
    assert (several.status_code, several.json()["code"]) == (409, "ambiguous_id")
    assert several.json()["sessions"] == [
        {"id": f"claude-code:{UUID}", "short_id": "0b1c2d3e-4f5", "title": None},
        {"id": f"codex:{NEAR}", "short_id": "0b1c2d3e-4ff", "title": None},
    ]
    assert "2 sessions begin with '0b1c': 0b1c2d3e-4f5, 0b1c2d3e-4ff" in several.json()["detail"]
    assert "only a subagent or a fork begins" in client.get("/api/v1/names/login").json()["detail"]
    assert client.get("/api/v1/names/gone").status_code == 410
    assert client.get("/api/v1/names/nobody").json()["code"] == "session_not_found"


def test_a_bound_token_finds_its_own_sessions_only(
    server: Running, limited: Callable[..., httpx.Client]
) -> None:
    """And learns nothing of others by how long an id has to be."""
    mine, theirs = f"claude-code:{UUID}", f"codex:{NEAR}"
    server.store.create(mine, tags=["mine"])
    server.store.create(theirs)
    bound = limited("read", tags=["mine"])
    assert bound.get("/api/v1/names/0b1c").json() == {"id": mine, "short_id": mine, "title": None}
    for text in (theirs, NEAR, "0b1c2d3e-4ff"):
        answer = bound.get(f"/api/v1/names/{encoded(text)}")
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
