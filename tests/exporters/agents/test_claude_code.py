"""Claude Code's own library finds and reads what was written for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import claude_code
from tests.exporters.recorded import ALL, INVOICES, LOGIN, said_by_user
from tests.support.rows import each_row


def claude_messages(home: Path, shop: Path, id: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    sdk = pytest.importorskip("claude_agent_sdk")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    listed = {one.session_id: one for one in sdk.list_sessions(directory=str(shop), include_worktrees=False)}
    assert listed[id].cwd == str(shop)
    found: list[Any] = sdk.get_session_messages(id, directory=str(shop))
    return found


def blocks(messages: list[Any], kind: str) -> list[dict[str, Any]]:
    contents = [one.message["content"] for one in messages if isinstance(one.message["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


@each_row("id", ALL)
def test_claude_code_finds_every_session(
    store: clew.Store, home: Path, shop: Path, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = claude_code.write_session(store, id, home=home, workspace=str(shop))
    assert written.command == ["claude", "--resume", written.id]
    messages = claude_messages(home, shop, written.id, monkeypatch)
    told = [m.message["content"] for m in messages if m.type == "user"]
    for text in said_by_user(store, id):
        assert any(text in (said if isinstance(said, str) else json.dumps(said)) for said in told)
    calls = {block["id"] for block in blocks(messages, "tool_use")}
    results = {block["tool_use_id"] for block in blocks(messages, "tool_result")}
    assert calls == results


def test_a_copy_for_claude_code_is_a_fork_that_says_where_it_came_from(
    store: clew.Store, home: Path, shop: Path
) -> None:
    written = claude_code.write_session(store, INVOICES, home=home, workspace=str(shop))
    records = [json.loads(line) for line in written.paths[0].read_bytes().splitlines()]
    chained = [record for record in records if "uuid" in record]
    assert {record["sessionId"] for record in records} == {written.id}
    assert {record["cwd"] for record in chained} == {str(shop)}
    assert {record["forkedFrom"]["sessionId"] for record in chained} == {INVOICES.partition(":")[2]}
    uuids = {record["uuid"] for record in chained}
    assert not uuids & {record["forkedFrom"]["messageUuid"] for record in chained}
    assert all(record["parentUuid"] in uuids for record in chained[1:])
    with clew.open("memory:") as other:
        other.import_path(written.paths[0])
        copy = other.get(f"claude-code:{written.id}")
        assert [e.raw for e in copy.entries()] == [e.raw for e in store.get(INVOICES).entries()]


def test_a_fork_that_went_on_here_has_old_records_and_new_ones(
    store: clew.Store, home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = store.get(LOGIN).fork(at=10)
    fork.append(
        {"role": "user", "content": "Use casefold instead."},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I change it."},
                {"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"command": "make"}},
            ],
        },
    )
    written = claude_code.write_session(store, fork.id, home=home, workspace=str(shop))
    messages = claude_messages(home, shop, written.id, monkeypatch)
    told = [m.message["content"] for m in messages]
    assert told[-3:-1] == [
        [{"type": "text", "text": "I change it."}],
        [{"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"command": "make"}}],
    ]
    assert told[-1][0]["tool_use_id"] == "toolu_x"
    assert told[-1][0]["is_error"] is True
    assert "Use casefold instead." in told
    # The thinking of before is there with its signature.
    assert any(block.get("signature") for block in blocks(messages, "thinking"))


def test_a_compaction_that_was_made_here_stands_before_what_follows(
    store: clew.Store, home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = store.get(INVOICES).fork()
    fork.compact("They looked for a cent.", upto=fork.head.position - 2)
    fork.append({"role": "user", "content": "Go on."})
    written = claude_code.write_session(store, fork.id, home=home, workspace=str(shop))
    messages = claude_messages(home, shop, written.id, monkeypatch)
    told = [m.message["content"] for m in messages]
    assert "They looked for a cent." in told
    assert told[-1] == "Go on."
    records = [json.loads(line) for line in written.paths[0].read_bytes().splitlines()]
    mark = next(record for record in records if record.get("subtype") == "compact_boundary")
    kept = mark["compactMetadata"]["preservedSegment"]
    uuids = {record.get("uuid") for record in records}
    assert {kept["headUuid"], kept["anchorUuid"], kept["tailUuid"]} <= uuids


def test_long_names_of_directories_are_cut_as_claude_code_does(tmp_path: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    for name in ("a b.c_ü", "x" * 250):
        place = tmp_path / name[:120] / name[120:] if len(name) > 120 else tmp_path / name
        place.mkdir(parents=True)
        assert claude_code.folder_of(str(place)) == sdk.project_key_for_directory(str(place))
