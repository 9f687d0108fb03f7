"""Transcript lines of a made-up agent, for the tests of the Claude adapter."""

from __future__ import annotations

from typing import Any

Line = Any
"""A JSON object; the SDK has a type of its own for it."""

PROJECT = "-birds"
SESSION = "0b5f8d0c-7c1e-4a9c-9a55-1f6f3c1e2d01"
KEY: Any = {"project_key": PROJECT, "session_id": SESSION}
AGENT: Any = {**KEY, "subpath": "subagents/agent-a1"}


def line(kind: str, content: Any, uuid: str | None = None, **more: Any) -> Line:
    """What the program writes for one message."""
    found: Line = {
        "parentUuid": None, "isSidechain": False, "cwd": "/birds", "sessionId": SESSION, "type": kind,
        "message": {"role": kind, "content": content}, "timestamp": "2026-11-15T08:00:00.000Z",
    }  # fmt: skip
    return {**found, **({} if uuid is None else {"uuid": uuid}), **more}


def says(text: str, uuid: str | None = None, **more: Any) -> Line:
    return line("user", text, uuid, **more)


def replies(text: str, uuid: str | None = None, **more: Any) -> Line:
    return line("assistant", [{"type": "text", "text": text}], uuid, **more)


def calls(tool: str, uuid: str | None = None) -> Line:
    use = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {"place": "reed bed"}}
    return line("assistant", [{"type": "thinking", "thinking": "hm", "signature": "x"}, use], uuid)


def answers(text: str, uuid: str | None = None) -> Line:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}
    return line("user", [result], uuid, toolUseResult={"stdout": text})


def turn(number: int) -> list[Line]:
    asked, answered = f"q{number}", f"a{number}"
    return [says(f"question {number}", asked), replies(f"answer {number}", answered, parentUuid=asked)]
