"""pi itself lists and reads what was written for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import pi
from tests.exporters.agents.programs import pi_sessions
from tests.exporters.programs.test_ends import goes_on, imported
from tests.exporters.recorded import ALL, LOGIN, USERS, said_by_user

pytestmark = pytest.mark.needs("node")


def test_pi_finds_every_session(store: clew.Store, home: Path, shop: Path) -> None:
    written = {id: pi.write_session(store, id, home=home, workspace=str(shop)) for id in ALL}
    listed = {one["id"]: one for one in pi_sessions(home, shop)}
    assert len(listed) == len(written)
    for id, one in written.items():
        assert one.command == ["pi", "--session", one.id]
        found = listed[one.id]
        assert (found["cwd"], found["path"]) == (str(shop), str(one.paths[0]))
        said = [m["content"] for m in found["messages"] if m["role"] == "user"]
        told = json.dumps(said, ensure_ascii=False)
        for text in said_by_user(store, id):
            assert json.dumps(text, ensure_ascii=False)[1:-1] in told, id
        assistants = [m for m in found["messages"] if m["role"] == "assistant"]
        calls = [b["id"] for m in assistants for b in m["content"] if b["type"] == "toolCall"]
        results = [m["toolCallId"] for m in found["messages"] if m["role"] == "toolResult"]
        assert sorted(calls) == sorted(results), id


def test_a_session_of_pi_that_was_rewound_here_is_its_path(store: clew.Store, home: Path, shop: Path) -> None:
    fork = store.get(USERS).fork(at=3)
    fork.compact("They spoke of e-mails.", upto=2)
    fork.append({"role": "user", "content": "And then?"})
    pi.write_session(store, fork.id, home=home, workspace=str(shop))
    (found,) = pi_sessions(home, shop)
    roles = [m["role"] for m in found["messages"]]
    assert roles == ["compactionSummary", "assistant", "user"]
    assert found["messages"][0]["summary"] == "They spoke of e-mails."


def test_a_fork_that_was_made_here_goes_on_in_pi(store: clew.Store, home: Path, shop: Path) -> None:
    """Its entries are those of a session of Claude Code, whose lines are of no use to pi."""
    fork = store.get(LOGIN).fork(at=10)
    fork.append({"role": "user", "content": "Use casefold instead."})
    pi.write_session(store, fork.id, home=home, workspace=str(shop))
    (found,) = pi_sessions(home, shop)
    assert {m["role"] for m in found["messages"]} == {"user", "assistant", "toolResult"}
    assert found["messages"][-1]["content"] == [{"type": "text", "text": "Use casefold instead."}]


def test_pi_goes_on_at_the_end_of_a_session_with_labels(home: Path, shop: Path, tmp_path: Path) -> None:
    """The last line of the copy is what pi takes for the end: a label there names an entry further up."""
    with clew.open("memory:") as own:
        s = goes_on(imported(own, "pi", tmp_path))
        pi.write_session(own, s.id, home=home, workspace=str(shop))
    (found,) = pi_sessions(home, shop)
    said = [block["text"] for message in found["messages"] for block in _blocks(message)]
    assert said == ["one", "two", "three", "four", "five", "six"]


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else content
