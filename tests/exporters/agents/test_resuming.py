"""Sessions that are written where an agent looks for them: what holds for every agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import claude_code, codex, pi
from tests.exporters.recorded import ALL, INVOICES, USERS, in_view, whole
from tests.support.rows import named

AGENTS = [claude_code, codex, pi]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_written_is_read_again_with_all_that_was_said(
    store: clew.Store, home: Path, shop: Path, agent: Any
) -> None:
    for id in ALL:
        with named(id), clew.open("memory:") as other:
            written = agent.write_session(store, id, home=home, workspace=str(shop))
            (found,) = other.import_path(written.paths[0]).sessions
            assert found.id.endswith(f":{written.id}")
            assert other.get(found.id).info.workspace_given == str(shop)
            assert in_view(other, found.id) == in_view(store, id)
            assert calls(other, found.id, agent) == calls(store, id, agent)


def calls(store: clew.Store, id: str, agent: Any) -> list[tuple[Any, ...]]:
    """All calls with their results, also those before a compaction. Codex does not mark one that failed."""
    found = [one for one in whole(store, id) if one[0] == "call"]
    return [one[:-1] for one in found] if agent is codex else found


def test_a_rollback_and_what_it_took_are_not_in_a_copy(home: Path, shop: Path, tmp_path: Path) -> None:
    meta = {"id": "019a0000-0000-7000-8000-000000000001", "cwd": "/w", "timestamp": "2026-11-01T10:00:00Z"}

    def line(kind: str, payload: dict[str, Any]) -> bytes:
        return json.dumps({"timestamp": "2026-11-01T10:00:00Z", "type": kind, "payload": payload}).encode()

    def message(role: str, text: str) -> bytes:
        kind = "input_text" if role == "user" else "output_text"
        content = [{"type": kind, "text": text}]
        return line("response_item", {"type": "message", "role": role, "content": content})

    back = line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    lines = [line("session_meta", meta), message("user", "one"), message("assistant", "1")]
    lines += [message("user", "two"), message("assistant", "2"), back, message("user", "three")]
    file = tmp_path / f"rollout-2026-11-01T10-00-00-{meta['id']}.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with clew.open("memory:") as store:
        store.import_path(file)
        assert store.export(f"codex:{meta['id']}", "codex").encode() == file.read_bytes()
        written = codex.write_session(store, f"codex:{meta['id']}", home=home, workspace=str(shop))
        again = store.import_path(written.paths[0]).sessions[0].id
        assert [text for _, text, *_ in in_view(store, again)] == ["one", "1", "three"]
    assert b"thread_rolled_back" not in written.paths[0].read_bytes()


@pytest.mark.parametrize("agent", AGENTS)
def test_no_file_is_ever_written_over(store: clew.Store, home: Path, shop: Path, agent: Any) -> None:
    id = "01a1cf6f-43d0-7661-8aa0-6c35780954b5"
    first = agent.write_session(store, INVOICES, home=home, workspace=str(shop), new_id=id)
    before = first.paths[0].read_bytes()
    assert first.paths[0].stat().st_mode & 0o777 == 0o600
    if agent is claude_code:  # the names of the others hold the time
        with pytest.raises(clew.ConflictError, match="exists"):
            agent.write_session(store, USERS, home=home, workspace=str(shop), new_id=id)
        assert first.paths[0].read_bytes() == before
    with pytest.raises(clew.InvalidError):
        agent.write_session(store, USERS, home=home, workspace=str(shop), new_id="../evil")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_without_a_message_is_refused(
    store: clew.Store, home: Path, shop: Path, agent: Any
) -> None:
    session = store.session("empty")
    with pytest.raises(clew.InvalidError, match="empty"):
        agent.write_session(store, session.id, home=home, workspace=str(shop))
    assert not list(home.rglob("*.jsonl"))
