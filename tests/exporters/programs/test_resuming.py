"""Sessions that are written where an agent looks for them, read by the agent's own reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.messages.dialects import role_of, text_of
from clew.exporters.programs import claude_code, codex, pi
from tests.exporters.programs.agents import Codex, pi_sessions, what_codex_sends
from tests.home.make import make_home

LOGIN = "claude-code:4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21"
INVOICES = "claude-code:9c2f51d8-06ba-4b7e-8a43-e1d7c05f9b36"
SCRYPT = "codex:01a1deb8-bf60-73a2-af7e-daebb74aea2f"
TAKEN = "pi:01a1cf6f-43d0-7661-8aa0-6c35780954b4"
GERMAN = "gemini-cli:0db0cf82-5357-4a16-ad90-ade902cac7b8"
HINTS = "opencode:ses_e1bd929b5ffeYl52784S2StCVh"
ALL = [LOGIN, INVOICES, SCRYPT, TAKEN, GERMAN, HINTS, f"{LOGIN}/agent-a24433f5b25410bcc"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clew.Store]:
    home = make_home(tmp_path_factory.mktemp("ana") / "home")
    with clew.open("memory:") as store:
        for folder in (".claude", ".codex", ".pi", ".gemini", ".local/share/opencode"):
            store.import_path(home / folder)
        yield store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    place = tmp_path / "my shop.d"
    place.mkdir()
    return place


def said_by_user(store: clew.Store, id: str) -> list[str]:
    """What a person said on the path, since the last compaction."""
    found: list[str] = []
    for entry in store.get(id).entries():
        if entry.kind == "compaction":
            found = []
        elif entry.kind == "message" and role_of(entry.message) == "user" and not entry.injected:
            found.append(text_of(entry.message))
    return [text for text in found if text]


# -- Claude Code


def claude_messages(home: Path, shop: Path, id: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    sdk = pytest.importorskip("claude_agent_sdk")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    listed = {one.session_id: one for one in sdk.list_sessions(directory=str(shop))}
    assert listed[id].cwd == str(shop)
    found: list[Any] = sdk.get_session_messages(id, directory=str(shop))
    return found


def blocks(messages: list[Any], kind: str) -> list[dict[str, Any]]:
    contents = [one.message["content"] for one in messages if isinstance(one.message["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


@pytest.mark.parametrize("id", ALL)
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


# -- Codex


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


def test_a_fork_that_was_made_here_goes_on_in_another_agent(
    store: clew.Store, home: Path, shop: Path
) -> None:
    """Its entries are those of a session of Claude Code, whose lines are of no use to Codex or pi."""
    fork = store.get(LOGIN).fork(at=10)
    fork.append({"role": "user", "content": "Use casefold instead."})
    written = codex.write_session(store, fork.id, home=home, workspace=str(shop))
    with Codex(home) as server:
        told = texts(server.items(written.id), "userMessage")
    assert told[-1] == "Use casefold instead."
    assert len(told) == 2
    pi.write_session(store, fork.id, home=home, workspace=str(shop))
    (found,) = pi_sessions(home, shop)
    assert {m["role"] for m in found["messages"]} == {"user", "assistant", "toolResult"}
    assert found["messages"][-1]["content"] == [{"type": "text", "text": "Use casefold instead."}]


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
    with Codex(home) as server:
        assert texts(server.items(written.id), "userMessage") == ["one", "three"]
    assert b"thread_rolled_back" not in written.paths[0].read_bytes()


# -- pi


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
    fork = store.get(TAKEN).fork(at=3)
    fork.compact("They spoke of e-mails.", upto=2)
    fork.append({"role": "user", "content": "And then?"})
    pi.write_session(store, fork.id, home=home, workspace=str(shop))
    (found,) = pi_sessions(home, shop)
    roles = [m["role"] for m in found["messages"]]
    assert roles == ["compactionSummary", "assistant", "user"]
    assert found["messages"][0]["summary"] == "They spoke of e-mails."


# -- all of them


@pytest.mark.parametrize("agent", [claude_code, codex, pi])
def test_no_file_is_ever_written_over(store: clew.Store, home: Path, shop: Path, agent: Any) -> None:
    id = "01a1cf6f-43d0-7661-8aa0-6c35780954b5"
    first = agent.write_session(store, INVOICES, home=home, workspace=str(shop), new_id=id)
    before = first.paths[0].read_bytes()
    assert first.paths[0].stat().st_mode & 0o777 == 0o600
    if agent is claude_code:  # the names of the others hold the time
        with pytest.raises(clew.ConflictError, match="exists"):
            agent.write_session(store, TAKEN, home=home, workspace=str(shop), new_id=id)
        assert first.paths[0].read_bytes() == before
    with pytest.raises(clew.InvalidError):
        agent.write_session(store, TAKEN, home=home, workspace=str(shop), new_id="../evil")


@pytest.mark.parametrize("agent", [claude_code, codex, pi])
def test_a_session_without_a_message_is_refused(
    store: clew.Store, home: Path, shop: Path, agent: Any
) -> None:
    session = store.session("empty")
    with pytest.raises(clew.InvalidError, match="empty"):
        agent.write_session(store, session.id, home=home, workspace=str(shop))
    assert not list(home.rglob("*.jsonl"))
