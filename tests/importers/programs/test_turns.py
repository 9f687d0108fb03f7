"""Whether an agent works or waits, by what its file says last: exactly, or not at all."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import clew
from clew.importers.reading import turns
from tests.support.owned import BEGAN, minute
from tests.support.rows import each_row

CALL = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
QUESTION = CALL | {"name": "AskUserQuestion"}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
TEXT = {"type": "text", "text": "well"}


def answer(*content: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": list(content), "stop_reason": reason}} | more


def asked(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}} | more


@each_row(
    ("record", "told"),
    [
        (asked("fix it"), "open"),
        (asked([{"type": "text", "text": "fix it"}]), "open"),
        (asked([RESULT]), "open"),
        (asked([{"type": "text", "text": "[Request interrupted by user for tool use]"}]), "ended"),
        (asked("<command-name>/model</command-name>"), None),
        (asked("<local-command-stdout>Set model</local-command-stdout>"), None),
        (asked("Caveat: …", isMeta=True), None),
        (asked("This session is being continued…", isCompactSummary=True), None),
        (answer(TEXT, CALL, reason="tool_use"), "open"),
        (answer(CALL), "open"),
        (answer(TEXT, reason="tool_use"), "open"),
        (answer(QUESTION, reason="tool_use"), "ended"),
        (answer(TEXT, reason="end_turn"), "ended"),
        (answer(TEXT), ""),
        (answer(TEXT, reason="max_tokens"), ""),
        (answer(TEXT, isApiErrorMessage=True), "ended"),
        ({"type": "system", "subtype": "turn_duration"}, "ended"),
        ({"type": "system", "subtype": "api_error"}, None),
        ({"type": "progress", "data": {}}, None),
        ({"type": "assistant", "message": 7}, ""),
        ({"type": ["user"], "message": None}, None),
    ],
)
def test_claude_code(record: dict[str, Any], told: turns.Told) -> None:
    assert turns.claude_code(record) == told


@each_row(
    ("type", "payload", "told"),
    [
        ("event_msg", {"type": "task_started"}, "open"),
        ("event_msg", {"type": "user_message", "message": "hi"}, "open"),
        ("event_msg", {"type": "task_complete"}, "ended"),
        ("event_msg", {"type": "turn_aborted"}, "ended"),
        ("event_msg", {"type": "token_count"}, None),
        ("event_msg", {"type": "item_completed", "item": {"type": "UserMessage"}}, "open"),
        ("event_msg", {"type": "item_completed", "item": {"type": "AgentMessage"}}, None),
        ("response_item", {"type": "function_call", "name": "exec_command"}, "open"),
        ("response_item", {"type": "function_call_output"}, "open"),
        ("response_item", {"type": "message", "role": "assistant"}, ""),
        ("response_item", {"type": "message", "role": "assistant", "phase": "commentary"}, "open"),
        ("response_item", {"type": "message", "role": "user"}, None),
        ("turn_context", {"model": "m"}, None),
        ("event_msg", {"type": 7}, None),
    ],
)
def test_codex(type: str, payload: dict[str, Any], told: turns.Told) -> None:
    assert turns.codex(type, payload) == told


@each_row(
    ("message", "parts", "told"),
    [
        ({"role": "user"}, [], "open"),
        ({"role": "assistant", "time": {"created": 1}}, [], "open"),
        ({"role": "assistant", "time": {"completed": 2}, "finish": "tool-calls"}, [], "open"),
        ({"role": "assistant", "time": {"completed": 2}, "finish": "stop"}, [], "ended"),
        ({"role": "assistant", "time": {"completed": 2}, "finish": "stop", "summary": True}, [], ""),
        ({"role": "assistant", "time": {"completed": 2}}, [], ""),
        ({"role": "assistant", "error": {"name": "MessageAbortedError"}}, [], "ended"),
        (
            {"role": "assistant", "time": {}},
            [{"type": "tool", "tool": "question", "state": {"status": "running"}}],
            "ended",
        ),
    ],
)
def test_opencode(message: dict[str, Any], parts: list[dict[str, Any]], told: turns.Told) -> None:
    assert turns.opencode(message, parts) == told


@each_row(
    ("message", "told"),
    [
        ({"role": "user"}, "open"),
        ({"role": "toolResult"}, "open"),
        ({"role": "assistant", "stopReason": "toolUse"}, "open"),
        ({"role": "assistant", "stopReason": "stop"}, "ended"),
        ({"role": "assistant", "stopReason": "aborted"}, "ended"),
        ({"role": "assistant", "stopReason": "error"}, ""),
        ({"role": "bashExecution"}, None),
    ],
)
def test_pi(message: dict[str, Any], told: turns.Told) -> None:
    assert turns.pi({"type": "message", "message": message}) == told
    assert turns.pi({"type": "compaction", "message": message}) is None


def test_a_session_that_is_followed_line_by_line_goes_through_its_states(tmp_path: Path) -> None:
    """What one pass reads may say nothing about the turn: then it is as the pass before said."""
    place = tmp_path / "projects" / "-w"
    place.mkdir(parents=True)
    file = place / "11111111-2222-3333-4444-555555555555.jsonl"

    def stamp(at: datetime) -> str:
        return at.isoformat().replace("+00:00", "Z")

    lines = [
        asked("fix it"),
        answer({"type": "text", "text": "I look."}),
        answer(CALL, reason="tool_use"),
        {"type": "progress", "data": {"type": "bash_progress"}},
        asked([RESULT]),
        answer(TEXT, reason="end_turn"),
        {"type": "system", "subtype": "informational", "content": "hm"},
    ]
    expected = ["working", "working", "working", "working", "working", "waiting", "waiting"]
    states = []
    with clew.open(tmp_path / "store.db") as store, file.open("w") as out:
        for number, record in enumerate(lines):
            chain = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None}
            more = {"sessionId": file.stem, "cwd": "/w", "version": "2", "isSidechain": False}
            at = BEGAN + timedelta(minutes=20 * number)
            record.get("message", {}).setdefault("role", record["type"])
            out.write(json.dumps({**record, **chain, **more, "timestamp": stamp(at)}) + "\n")
            out.flush()
            store.import_path(place)
            states.append(store.get(f"claude-code:{file.stem}").info.state(at))
        info = store.get(f"claude-code:{file.stem}").info
    assert states == expected
    assert info.agent_branch is not None
    assert info.agent_branch.written_at == minute(120), "a line that is no message is a sign of life, too"
