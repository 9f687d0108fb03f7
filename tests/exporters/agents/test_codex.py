"""Codex itself lists, reads and goes on with what was written for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import codex
from tests.exporters.agents.programs import Codex, what_codex_sends
from tests.exporters.recorded import ALL, LOGIN, said_by_user

pytestmark = pytest.mark.needs("node")


def texts(items: list[list[dict[str, Any]]], kind: str) -> list[str]:
    found = [item for turn in items for item in turn if item["type"] == kind]
    if kind == "userMessage":
        return [part["text"] for item in found for part in item["content"] if part["type"] == "text"]
    return [item["text"] for item in found]


def test_codex_lists_and_reads_every_session(store: clew.Store, home: Path, shop: Path) -> None:
    written = {id: codex.write_session(store, id, home=home, workspace=str(shop)) for id in ALL}
    with Codex(home) as server:
        assert {(one["id"], one["cwd"]) for one in server.threads()} == {
            (one.id, str(shop)) for one in written.values()
        }
        for id, one in written.items():
            assert one.command == ["codex", "resume", one.id]
            items = server.items(one.id)
            assert server.ask("thread/resume", threadId=one.id)["thread"]["id"] == one.id
            told = texts(items, "userMessage")
            for text in said_by_user(store, id):
                assert any(text in said for said in told), id
            assert texts(items, "agentMessage"), id


def test_a_claude_code_session_forked_at_a_message_goes_on_in_codex(
    store: clew.Store, home: Path, shop: Path
) -> None:
    session = store.get(LOGIN)
    entries = list(session.entries())
    place = next(e for e in entries if "toolUseResult" in e.annotations and e.position > 8)
    written = codex.write_session(store, LOGIN, at=place, home=home, workspace=str(shop))
    with Codex(home) as server:
        items = server.items(written.id)
    assert texts(items, "userMessage") == [
        "Logins fail for users with capital letters in their e-mail. Find out why and fix it."
    ]
    calls = [item for turn in items for item in turn if item["type"] == "mcpToolCall"]
    records = [json.loads(line)["payload"] for line in written.paths[0].read_bytes().splitlines()]
    asked = [record for record in records if record.get("type") == "function_call"]
    given = {one["call_id"]: one for one in records if one.get("type") == "function_call_output"}
    before = [e.message for e in entries if e.position <= place.position and e.kind == "message"]
    used = [b for m in before if isinstance(m["content"], list) for b in m["content"]]
    uses = [block for block in used if block["type"] == "tool_use"]
    assert [call["tool"] for call in calls] == [block["name"] for block in uses]
    assert [call["arguments"] for call in calls] == [block["input"] for block in uses]
    assert [json.loads(one["arguments"]) for one in asked] == [block["input"] for block in uses]
    results = {b["tool_use_id"]: b["content"] for b in used if b["type"] == "tool_result"}
    assert results
    for id, content in results.items():
        if isinstance(content, str):
            assert given[id]["output"] == content
            (call,) = (one for one in calls if one["id"] == id)
            assert call["result"]["content"] == [{"type": "text", "text": content}]
    # Signed thinking is of no use to another model.
    assert not [record for record in records if record.get("type") == "reasoning"]


def test_a_fork_that_was_made_here_goes_on_in_codex(store: clew.Store, home: Path, shop: Path) -> None:
    """Its entries are those of a session of Claude Code, whose lines are of no use to Codex."""
    fork = store.get(LOGIN).fork(at=10)
    fork.append({"role": "user", "content": "Use casefold instead."})
    written = codex.write_session(store, fork.id, home=home, workspace=str(shop))
    with Codex(home) as server:
        told = texts(server.items(written.id), "userMessage")
    assert told[-1] == "Use casefold instead."
    assert len(told) == 2


@pytest.mark.parametrize("at", [9, 20, None])
def test_codex_sends_the_history_of_a_claude_code_session_to_its_model(
    store: clew.Store, home: Path, shop: Path, at: int | None
) -> None:
    """Codex itself goes on: with a call that got no result, and behind a compaction."""
    written = codex.write_session(store, LOGIN, at=at, home=home, workspace=str(shop))
    records = [json.loads(line) for line in written.paths[0].read_bytes().splitlines()]
    sent = what_codex_sends(home, shop, written.id, "And now?")
    compacted = [number for number, record in enumerate(records) if record["type"] == "compacted"]
    expected = [one["payload"] for one in records if one["type"] == "response_item"]
    if compacted:
        after = [one["payload"] for one in records[compacted[-1] :] if one["type"] == "response_item"]
        expected = records[compacted[-1]]["payload"]["replacement_history"] + after
    kinds = [(one["type"], one.get("role"), one.get("call_id")) for one in expected]
    told = [(one["type"], one.get("role"), one.get("call_id")) for one in sent]
    start = told.index(kinds[0])
    assert told[start : start + len(kinds)] == kinds
    outputs = {one["call_id"]: one["output"] for one in expected if one["type"] == "function_call_output"}
    given = {one["call_id"]: one["output"] for one in sent if one["type"] == "function_call_output"}
    assert given == outputs
    assert sent[-1]["content"] == [{"type": "input_text", "text": "And now?"}]
