"""Synthetic sessions of other programs, as large as wanted: what `importing` reads.

Each is one talk with an agent that reads files: a prompt, and four steps of words, a call and its result.
`output` is how many words a result has on average. Results are lines with indents and quotes, as files are:
a text without an escape would be decoded twice as fast as any that is really there.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]

SESSION = "0b1c2d3e-0000-4000-8000-000000000000"
WORDS = (
    "the", "of", "and", "function", "returns", "import", "error", "test", "fix", "path", "value", "list",
)  # fmt: skip
STEPS = 4


def write(path: Path, records: Iterator[Record], bytes: int) -> int:
    """A session of at least so many bytes; how many lines."""
    written = 0
    with path.open("w") as file:
        for count, record in enumerate(records, 1):
            written += file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            if written >= bytes:
                return count
    raise AssertionError("sessions have no end")


def claude_code(output: int) -> Iterator[Record]:
    """An answer is two records; a result stands in its record twice."""
    words, last, count = random.Random(7), None, 0
    common = {
        "isSidechain": False, "userType": "external", "cwd": "/home/me/project", "sessionId": SESSION,
        "version": "2.1.63", "gitBranch": "main",
    }  # fmt: skip
    for record in _claude_turns(words, output):
        uuid = f"{count:08x}-0000-4000-8000-{count:012x}"
        yield {"parentUuid": last, "uuid": uuid, "timestamp": moment(count), **common, **record}
        count, last = count + 1, uuid


def _claude_turns(words: random.Random, output: int) -> Iterator[Record]:
    for turn, step in _steps():
        if step == 0:
            yield {"type": "user", "message": {"role": "user", "content": talk(words, 30)}}
        call = f"toolu_{turn}_{step}"
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 200, "output_tokens": 300}
        same = {"id": f"msg_{turn}_{step}", "role": "assistant", "model": "claude-x"}
        for block in (
            {"type": "text", "text": talk(words, 40)},
            {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "/home/me/a.py"}},
        ):
            message = {**same, "content": [block], "usage": usage}
            yield {"type": "assistant", "requestId": f"req_{turn}_{step}", "message": message}
        result = code(words, output)
        block = {"type": "tool_result", "tool_use_id": call, "content": result}
        file = {"filePath": "/home/me/a.py", "content": result, "numLines": 20}
        yield {
            "type": "user",
            "message": {"role": "user", "content": [block]},
            "toolUseResult": {"type": "text", "file": file},
        }


def codex(output: int) -> Iterator[Record]:
    """Most of the story is told twice: for the model, and for the screen."""
    about = {"id": SESSION, "timestamp": moment(0), "cwd": "/home/me/project", "cli_version": "0.50.0"}
    yield {"timestamp": moment(0), "type": "session_meta", "payload": about}
    for count, (kind, payload) in enumerate(_codex_items(random.Random(7), output), 1):
        yield {"timestamp": moment(count), "type": kind, "payload": payload}


def _codex_items(words: random.Random, output: int) -> Iterator[tuple[str, Record]]:
    for turn, step in _steps():
        if step == 0:
            said = talk(words, 30)
            yield "turn_context", {"cwd": "/home/me/project", "approval_policy": "never", "model": "gpt-x"}
            content = [{"type": "input_text", "text": said}]
            yield "response_item", {"type": "message", "role": "user", "content": content}
            yield "event_msg", {"type": "user_message", "message": said}
        thought = [{"type": "summary_text", "text": talk(words, 20)}]
        secret = f"{words.getrandbits(800):0200x}"
        yield "response_item", {"type": "reasoning", "summary": thought, "encrypted_content": secret}
        call = {"call_id": f"call_{turn}_{step}"}
        asked = json.dumps({"command": ["bash", "-lc", "cat a.py"]})
        yield "response_item", {"type": "function_call", "name": "shell", "arguments": asked, **call}
        shown = json.dumps({"output": code(words, output), "metadata": {"exit_code": 0}})
        yield "response_item", {"type": "function_call_output", "output": shown, **call}
        number = (turn * STEPS + step + 1) * 1000
        total = {"input_tokens": number, "cached_input_tokens": number // 2, "output_tokens": number // 10}
        yield "event_msg", {"type": "token_count", "info": {"total_token_usage": total}}


def gemini(output: int) -> Iterator[Record]:
    """An answer with its calls and their results is one line."""
    words = random.Random(7)
    yield {"sessionId": SESSION, "projectHash": "ab" * 32, "startTime": moment(0), "kind": "main"}
    for count, (turn, step) in enumerate(_steps(), 1):
        same = {"id": f"{count:08x}-0000-4000-8000-000000000000", "timestamp": moment(count)}
        if step == 0:
            yield {**same, "id": f"u{count}", "type": "user", "content": [{"text": talk(words, 30)}]}
        call = {"id": f"read_file-{turn}-{step}", "name": "read_file"}
        answered = {"functionResponse": {**call, "response": {"output": code(words, output)}}}
        done = {"status": "success", "timestamp": moment(count), "displayName": "ReadFile"}
        yield {
            **same,
            "type": "gemini",
            "content": talk(words, 40),
            "thoughts": [{"subject": "Reading", "description": talk(words, 20)}],
            "tokens": {"input": 1000, "output": 100, "cached": 500, "thoughts": 50, "tool": 0, "total": 1150},
            "model": "gemini-x",
            "toolCalls": [{**call, "args": {"file_path": "/home/me/a.py"}, "result": [answered], **done}],
        }


def pi(output: int) -> Iterator[Record]:
    yield {"type": "session", "version": 3, "id": SESSION, "timestamp": moment(0), "cwd": "/home/me/project"}
    last = None
    for count, message in enumerate(_pi_messages(random.Random(7), output), 1):
        place = {"id": f"{count:08x}", "parentId": last, "timestamp": moment(count)}
        yield {"type": "message", **place, "message": {**message, "timestamp": 1750000000000 + count * 1000}}
        last = place["id"]


def _pi_messages(words: random.Random, output: int) -> Iterator[Record]:
    for turn, step in _steps():
        if step == 0:
            yield {"role": "user", "content": [{"type": "text", "text": talk(words, 30)}]}
        call = f"toolu_{turn}_{step}"
        asked = {"type": "toolCall", "id": call, "name": "read", "arguments": {"path": "a.py"}}
        tokens = {"input": 4, "output": 300, "cacheRead": 1000, "cacheWrite": 200, "totalTokens": 1504}
        yield {
            "role": "assistant",
            "content": [{"type": "text", "text": talk(words, 40)}, asked],
            "provider": "anthropic",
            "model": "claude-x",
            "usage": {**tokens, "cost": {"input": 0.0001, "output": 0.004, "total": 0.0041}},
            "stopReason": "toolUse",
        }
        content = [{"type": "text", "text": code(words, output)}]
        yield {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": content}


FORMATS: dict[str, tuple[str, Callable[[int], Iterator[Record]]]] = {
    "Claude Code": (f"{SESSION}.jsonl", claude_code),
    "Codex": (f"rollout-2025-06-01T00-00-00-{SESSION}.jsonl", codex),
    "Gemini CLI": ("session-2025-06-01T00-00-0b1c2d3e.jsonl", gemini),
    "pi": (f"2025-06-01T00-00-00_{SESSION}.jsonl", pi),
}
"""The name of a file, and what is in it."""


def _steps() -> Iterator[tuple[int, int]]:
    for number in range(10**9):
        yield divmod(number, STEPS)


def talk(words: random.Random, count: int) -> str:
    return " ".join(words.choices(WORDS, k=count))


def code(words: random.Random, average: int) -> str:
    left, lines = words.randrange(average * 2) + 1, []
    while left > 0:
        count = min(left, words.randrange(2, 14))
        said = talk(words, count)
        indent = " " * words.choice((0, 4, 4, 8))
        lines.append(f'{indent}say("{said}")' if words.random() < 0.2 else indent + said)
        left -= count
    return "\n".join(lines)


def moment(number: int) -> str:
    minutes, seconds = divmod(number, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2025-06-{hours // 24 % 30 + 1:02d}T{hours % 24:02d}:{minutes:02d}:{seconds:02d}.250Z"
