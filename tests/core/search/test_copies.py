"""One hit for what several sessions hold: subagents and parents, forks and resumed sessions of programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import clew
from clew.core.search import search
from clew.store import Store

ANSWER = "The cookie is parsed twice: once in auth.py, once in session.py."
THEN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(id: str, **arguments: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "Task", "input": arguments}],
    }


def result(id: str, *texts: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": content}]}


@pytest.fixture
def store() -> Iterator[Store]:
    with clew.open("memory:") as store:
        yield store


@pytest.fixture
def agents(store: Store) -> Store:
    """A session that asked a subagent."""
    parent = store.session("parent")
    parent.append(user("Why does the login fail?"), call("c1", prompt="Where is the cookie parsed?"))
    child = store.session("parent/child", metadata={"parent": "parent"})
    child.append(user("Where is the cookie parsed?"), assistant(ANSWER))
    parent.append(result("c1", ANSWER, "agentId: abc"), assistant("It is parsed twice."))
    return store


def hits(store: Store, query: str, **options: Any) -> list[tuple[str, int, int]]:
    options.setdefault("tools", True)
    return [(hit.session, hit.position, hit.copies) for hit in store.search(query, **options)]


@pytest.mark.parametrize("order", ["newest", "best"])
def test_what_a_subagent_answered_is_found_in_the_subagent(agents: Store, order: Any) -> None:
    assert hits(agents, "parsed auth.py", order=order) == [("parent/child", 1, 1)]
    assert sorted(hits(agents, "where cookie", order=order)) == [("parent/child", 0, 1)]


def test_a_result_that_says_more_than_the_subagent_is_a_hit_of_its_own(agents: Store) -> None:
    assert hits(agents, "agentid") == [("parent", 2, 0)]
    assert hits(agents, "agentid parsed") == [("parent", 2, 0)]


def test_the_words_of_two_that_are_no_parent_and_subagent_stay_two_hits(agents: Store) -> None:
    agents.session("stranger").append(result("c9", ANSWER))
    assert sorted(hits(agents, "auth.py")) == [("parent/child", 1, 1), ("stranger", 0, 0)]


def test_without_tools_nothing_of_the_parent_is_there_to_be_left_out(agents: Store) -> None:
    assert hits(agents, "auth.py", tools=False) == [("parent/child", 1, 0)]


def test_a_fork_that_a_program_made_copies_no_hits(store: Store) -> None:
    said = [user("Fix the login"), assistant("login fixed"), user("And the logout")]
    store.session("base").append(*said)
    for name in ("fork-1", "fork-2"):
        store.session(name, metadata={"copied_from": "base"}).append(*said[:2], user(f"login in {name}"))
    found = hits(store, "login")
    assert ("base", 0, 2) in found
    assert ("base", 1, 2) in found
    assert [(session, position) for session, position, _ in found[:1]] == [("fork-2", 2)]
    assert len(found) == 4


def test_what_was_said_again_in_a_fork_is_found_there(store: Store) -> None:
    store.session("base").append(user("try the login"), assistant("ok"))
    fork = store.session("fork", metadata={"copied_from": "base"})
    fork.append(user("try the login"), assistant("ok"), user("try the login"))
    assert sorted(hits(store, "login")) == [("base", 0, 1), ("fork", 2, 0)]


def test_a_history_that_a_program_took_along_at_the_same_times_is_one_hit(store: Store) -> None:
    for name in ("old", "resumed"):
        s = store.session(name, metadata={"agent": "claude-code"})
        s.append(user("Fix the login"), at=THEN)
    assert [(position, copies) for _, position, copies in hits(store, "login")] == [(0, 1)]


def test_pages_of_copies_come_to_an_end_and_miss_nothing(store: Store) -> None:
    said = [user(f"login {number}") for number in range(6)]
    store.session("base").append(*said)
    store.session("fork", metadata={"copied_from": "base"}).append(*said)
    for order in ("newest", "best"):
        for limit in (1, 2, 4):
            found: set[int] = set()
            cursor: str | None = None
            for _ in range(13):
                page = store.search("login", limit=limit, cursor=cursor, order=order)
                assert len(page) <= limit
                found |= {hit.position for hit in page}
                cursor = page.cursor
                if cursor is None:
                    break
            assert cursor is None
            assert found == set(range(6))


def test_a_phrase_across_an_identifier_and_its_parts_shows_the_beginning(store: Store) -> None:
    store.session("s").append(user("What is A0A?"))
    [hit] = store.search("a_a*")
    assert (hit.snippet, hit.marks) == ("What is A0A?", ())


def test_sessions_are_chosen_by_their_metadata_and_by_several_names(store: Store) -> None:
    for name in ("a", "b", "c"):
        store.session(name, metadata={"agent": f"program-{name}"}).append(user("login"))
    assert hits(store, "login", where={"agent": "program-b"}) == [("b", 0, 0)]
    assert sorted(hits(store, "login", session=["a", "c"])) == [("a", 0, 0), ("c", 0, 0)]
    assert hits(store, "login", session=[]) == []
    assert hits(store, "login", session=["a", "b"], where={"agent": "program-b"}) == [("b", 0, 0)]


def test_a_filter_that_fits_many_sessions_finds_what_one_that_fits_few_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        settings: Any = {"tags": ["even"] if number % 2 == 0 else [], "workspace": f"/srv/{number % 3}"}
        store.session(f"s{number}", metadata={"agent": f"a{number % 4}"}, **settings).append(user("login"))
    filters: list[dict[str, Any]] = [
        {"tag": "even"},
        {"workspace": "/srv/1"},
        {"where": {"agent": "a2"}},
        {"tag": "even", "workspace": "/srv/2", "where": {"agent": "a0"}},
        {"where": {"agent": "none"}},
    ]
    for chosen in filters:
        few = hits(store, "login", **chosen)
        with monkeypatch.context() as patch:
            patch.setattr(search, "MANY_SESSIONS", -1)
            assert hits(store, "login", **chosen) == few
    assert len(hits(store, "login", tag="even")) == 6
