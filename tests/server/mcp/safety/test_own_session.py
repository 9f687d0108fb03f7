"""The session that runs while it asks does not find itself, nor its subagents; all others are found, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

import clew
from clew.server.mcp.current import RECENT, named_by, named_in
from clew.server.mcp.factory import make_server
from clew.server.mcp.view import View
from tests.server.conftest import TOKEN, running
from tests.server.mcp.safety.asking import HERE, ask, refused, view_of, walk
from tests.support.rows import each_row

LONG_AGO = datetime.now(UTC) - timedelta(days=3)


@pytest.fixture
def store() -> Iterator[clew.Store]:
    """Sessions of Codex and Claude Code, of which some were active a moment ago."""
    with clew.open("memory:") as store:
        for id, parent in (
            ("codex:own", None),
            ("codex:child", "codex:own"),
            ("codex:grandchild", "codex:child"),
            ("claude-code:own", None),
        ):
            said(store.create(id, workspace=HERE, metadata={"parent": parent} if parent else None))
        for number in range(12):
            said(store.create(f"old {number}", workspace=HERE, created_at=LONG_AGO), at=LONG_AGO)
        yield store


def said(session: clew.Session, at: datetime | None = None) -> None:
    session.append(
        *({"role": "user", "content": f"needle {number} {session.id}"} for number in range(3)), at=at
    )


def found(view: View, **arguments: Any) -> list[str]:
    """The sessions in which all pages of a search find something, by ids; each place comes once."""
    hits = walk(view, "search_sessions", "hits", **{"query": "needle", "include_current": False} | arguments)
    places = [hit["place"] for hit in hits]
    assert len(places) == len(set(places))
    return sorted({place.partition("@")[0] for place in places})


OLD = sorted(f"old {number}" for number in range(12))
OTHERS = {
    "codex": ["claude-code:own", *OLD],
    "claude": ["codex:child", "codex:grandchild", "codex:own", *OLD],
}


@each_row("order", ["best", "newest"])
@each_row("limit", [1, 2, 7, 30])
def test_a_session_that_is_named_finds_all_but_itself_and_its_subagents(
    store: clew.Store, order: str, limit: int
) -> None:
    assert found(view_of(store, session="codex:own"), order=order, limit=limit) == OTHERS["codex"]
    assert found(view_of(store, session="claude-code:own"), order=order, limit=limit) == OTHERS["claude"]


def test_a_session_that_is_not_known_finds_none_that_was_active_a_moment_ago(store: clew.Store) -> None:
    for session in (None, "codex:not here yet", "x" * 600, ""):
        assert found(view_of(store, session=session)) == OLD
    assert timedelta(minutes=1) < RECENT < timedelta(hours=1)


def test_what_was_left_out_is_counted_and_can_be_asked_for(store: clew.Store) -> None:
    view = view_of(store, session="codex:own")
    answer = ask(view, "search_sessions", query="needle", include_current=False, limit=30)
    assert answer["excluded_current"] == 9
    everything = ask(view, "search_sessions", query="needle", include_current=True, limit=30)
    assert everything["excluded_current"] == 0
    assert len(found(view, include_current=True)) == 16
    assert [one["id"] for one in ask(view, "list_sessions", limit=100)["sessions"]].count("codex:own") == 1


def test_others_are_found_however_often_the_own_session_says_it(store: clew.Store) -> None:
    own = store.get("codex:own")
    for _ in range(20):
        said(own)
    view = view_of(store, session="codex:own")
    for order in ("best", "newest"):
        first = ask(view, "search_sessions", query="needle", include_current=False, limit=1, order=order)
        assert (len(first["hits"]), first["excluded_current"]) == (1, 30)
        assert found(view, limit=1, order=order) == OTHERS["codex"]


def test_a_ring_of_subagents_is_walked_once(store: clew.Store) -> None:
    store.get("codex:own").update(metadata={"parent": "codex:grandchild"})
    assert found(view_of(store, session="codex:child")) == OTHERS["codex"]


def test_the_environment_names_the_session() -> None:
    assert named_in({}) is None
    assert named_in({"CLAUDE_CODE_SESSION_ID": "", "PATH": "/bin"}) is None
    assert named_in({"CLAUDE_CODE_SESSION_ID": "0b1c"}) == "claude-code:0b1c"
    assert named_in({"CODEX_THREAD_ID": "t"}) == "codex:t"
    assert named_in({"CLAUDE_CODE_SESSION_ID": "0b1c", "CLEW_SESSION": "mine"}) == "mine"


@each_row(
    ("meta", "name"),
    [
        (None, None),
        ({}, None),
        ({"x-codex-turn-metadata": {"session_id": "own"}}, "codex:own"),
        ({"x-codex-turn-metadata": json.dumps({"session_id": "own", "turn_id": "1"})}, "codex:own"),
        ({"x-codex-turn-metadata": "{"}, None),
        ({"x-codex-turn-metadata": "[" * 100_000}, None),
        ({"x-codex-turn-metadata": "[1]"}, None),
        ({"x-codex-turn-metadata": {"session_id": 7}}, None),
        ({"x-codex-turn-metadata": {"session_id": ""}}, None),
        ({"x-codex-turn-metadata": 5}, None),
        ({"x-codex-turn-metadata": "\ud800"}, None),
    ],
)
def test_a_request_of_codex_names_the_session(meta: Any, name: str | None) -> None:
    assert named_by(meta) == name


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_codex_names_its_session_with_every_call(store: clew.Store, mode: str) -> None:
    async def search(own: str) -> set[str]:
        async with Client(make_server(lambda context: view_of(store)), mode=mode) as client:
            meta: Any = {"x-codex-turn-metadata": json.dumps({"session_id": own})}
            asked = {"query": "needle", "limit": 30, "order": "newest"}
            result = await client.call_tool("search_sessions", asked, meta=meta)
            return {hit["place"].partition("@")[0] for hit in result.structured_content["hits"]}

    assert anyio.run(search, "own") & {"codex:own", "claude-code:own", "codex:child"} == {"claude-code:own"}
    assert "codex:own" not in anyio.run(search, "unheard-of")


def test_notes_go_to_the_own_session_only_if_it_is_known(store: clew.Store, tmp_path: Path) -> None:
    written = ask(view_of(store, writes=True, session="codex:own"), "remember", note="mine")
    assert written["place"].startswith("codex:own@")
    for session, reason in (
        (None, "it is not known which session is yours"),
        ("codex:none", "is not in the store yet"),
    ):
        for tool, more in (("remember", {"note": "n"}), ("checkpoint", {"name": "n"})):
            assert reason in refused(view_of(store, writes=True, session=session), tool, **more)
    alone = view_of(store, writes=True, workspace=str(tmp_path))
    assert "none was active" in refused(alone, "remember", note="n")
    said(store.create("alone", workspace=tmp_path))
    assert ask(alone, "remember", note="n")["place"].startswith("alone@")


def test_the_same_is_found_in_a_store_on_a_server(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_TOKEN", TOKEN)
    with running(store) as server, clew.open(server.url) as remote:
        assert found(view_of(remote, session="codex:own"), limit=30) == OTHERS["codex"]
