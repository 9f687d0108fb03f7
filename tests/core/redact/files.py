"""Files of agents with a text in all places where such files hold texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def claude_file(path: Path, text: str, id: str = "0b1c2d3e-0000-4000-8000-000000000000") -> Path:
    """Prompt, thinking, words, a call, its result twice, a summary, a title and a strange line."""
    common = {"sessionId": id, "cwd": "/home/me/project", "version": "2.1.63", "isSidechain": False}
    usage = {"input_tokens": 1, "output_tokens": 1}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": f"echo {text}"}}
    blocks: list[list[dict[str, Any]]] = [
        [{"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}],
        [{"type": "text", "text": text}],
        [call],
    ]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"{text}\n{text}"}
    records: list[dict[str, Any]] = [
        {"type": "summary", "summary": text, "leafUuid": "u4"},
        {"type": "user", "uuid": "u0", "message": {"role": "user", "content": text}, "gitBranch": text},
        *(
            {
                "type": "assistant",
                "uuid": f"u{number}",
                "requestId": "r",
                "message": {"id": "m", "role": "assistant", "model": "x", "content": content, "usage": usage},
            }
            for number, content in enumerate(blocks, 1)
        ),
        {
            "type": "user",
            "uuid": "u4",
            "message": {"role": "user", "content": [result]},
            "toolUseResult": {"stdout": text, "stderr": f"warning: {text}"},
        },
        {"type": "system", "uuid": "u5", "content": text, "subtype": "informational"},
        {"type": "queue-operation", "operation": "enqueue", "content": text},
        {"type": "custom-title", "customTitle": text},
        {"type": "strange", "what": [text]},
    ]
    parent = None
    lines = []
    for number, record in enumerate(records):
        full = {"parentUuid": parent, "timestamp": f"2026-01-01T00:00:{number:02}Z", **common, **record}
        parent = record.get("uuid", parent)
        lines.append(json.dumps(full))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def codex_file(path: Path, text: str) -> Path:
    """A prompt, an answer, a call with arguments that are JSON in a text, its output, and what the screen
    showed."""
    items: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", {"id": path.stem[-36:], "cwd": "/home/me/project", "instructions": text}),
        ("turn_context", {"cwd": "/home/me/project", "model": "x", "summary": text}),
        ("event_msg", {"type": "user_message", "message": text}),
        ("response_item", {"type": "message", "role": "user", "content": [_said("input_text", text)]}),
        ("response_item", {"type": "message", "role": "assistant", "content": [_said("output_text", text)]}),
        (
            "response_item",
            {
                "type": "function_call",
                "name": "shell",
                "call_id": "c",
                "arguments": json.dumps({"command": ["bash", "-lc", f"echo hi\n{text}"]}),
            },
        ),
        (
            "response_item",
            {"type": "function_call_output", "call_id": "c", "output": json.dumps({"output": f"a\n{text}"})},
        ),
        ("event_msg", {"type": "agent_message", "message": text}),
        ("compacted", {"message": text}),
        ("strange", {"what": text}),
    ]
    lines = [
        json.dumps({"timestamp": f"2026-01-01T00:00:{number:02}.000Z", "type": kind, "payload": payload})
        for number, (kind, payload) in enumerate(items)
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _said(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, "text": text}
