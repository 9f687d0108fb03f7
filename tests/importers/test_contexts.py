"""What came from another program can be sent to a model: `context()` holds nothing that providers refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import clew
from clew.importers import READERS
from tests.importers.hostile import test_lookalikes
from tests.importers.programs import test_cline as cline
from tests.importers.programs import test_llm as llm
from tests.importers.readers import write_json, write_lines
from tests.support.rows import each_row

TIME = "2025-09-01T10:00:00Z"
MODEL = "claude-sonnet-4-20250514"
FRESH, READ, WRITTEN, OUT = 300, 600, 100, 50
"""What each sample that tells of tokens says of one call: a prompt of 1000 tokens, of which 600 came from a
cache and 100 went into one. The other answers tell of none."""
EMPTY: list[Any] = []
BLANK = [{"type": "text", "text": " \n"}]
CALL = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": ""}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": EMPTY},
    {"role": "user", "content": "two"},
    {"role": "assistant", "content": BLANK},
    {"role": "assistant", "content": [*BLANK, CALL]},
    {"role": "user", "content": [RESULT]},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "three"},
]
"""What runs that were stopped leave behind, in the shape of Anthropic."""
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "two"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": ""},
    {"role": "assistant", "content": "  "},
    {"role": "user", "content": "three"},
]
"""The same, in the shape of OpenAI."""


def of_claude_code(folder: Path) -> Path:
    common = {"sessionId": "s", "timestamp": TIME}
    usage = {
        "input_tokens": FRESH,
        "cache_read_input_tokens": READ,
        "cache_creation_input_tokens": WRITTEN,
        "output_tokens": OUT,
    }
    lines: list[dict[str, Any]] = []
    for number, message in enumerate(TALK):
        told = {"id": f"m{number}", "type": "message", **message}
        if number == 4:
            told |= {"model": MODEL, "usage": usage}
        place = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None}
        lines.append({"type": message["role"], **place, **common, "message": told})
    notice = {"type": "system", "subtype": "info", "content": "model switched", **common}
    lines.insert(3, {**notice, "uuid": "n", "parentUuid": "u2"})
    return write_lines(folder / "s.jsonl", *lines)


def of_codex(folder: Path) -> Path:
    def said(role: str, text: str) -> tuple[str, dict[str, Any]]:
        kind = "input_text" if role == "user" else "output_text"
        return "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    spent = {"input_tokens": FRESH + READ + WRITTEN, "cached_input_tokens": READ, "output_tokens": OUT}
    counter = {"total_token_usage": spent, "last_token_usage": spent}
    records = [
        ("session_meta", {"id": "s"}),
        said("user", "one"),
        ("event_msg", {"type": "turn_aborted", "reason": "interrupted"}),
        ("response_item", {"type": "message", "role": "assistant", "content": []}),
        ("turn_context", {"model": "gpt-5-codex"}),
        said("user", "two"),
        said("assistant", "yes"),
        ("event_msg", {"type": "token_count", "info": counter}),
    ]
    lines = [{"timestamp": TIME, "type": kind, "payload": payload} for kind, payload in records]
    return write_lines(folder / "rollout-s.jsonl", *lines)


def of_gemini(folder: Path) -> Path:
    about = {"sessionId": "s", "projectHash": "p", "startTime": TIME}
    said = [
        ("info", "Gemini CLI update available!"),
        ("user", "one"),
        ("gemini", ""),
        ("error", "[API Error: quota]"),
        ("warning", "request cancelled"),
        ("user", "two"),
        ("gemini", "yes"),
        ("info", "model switched"),
        ("user", "three"),
    ]
    lines: list[dict[str, Any]] = [
        {"id": str(number), "type": kind, "content": text, "timestamp": TIME}
        for number, (kind, text) in enumerate(said)
    ]
    tokens = {"input": FRESH + READ + WRITTEN, "cached": READ, "output": OUT}
    lines[6] |= {"model": "gemini-2.5-pro", "tokens": tokens}
    return write_lines(folder / "s.jsonl", about, *lines)


def of_opencode(folder: Path) -> Path:
    said = [("user", ["one"]), ("assistant", []), ("user", ["two"]), ("assistant", ["", "yes"])]
    messages: list[dict[str, Any]] = []
    for number, (role, texts) in enumerate(said):
        info: dict[str, Any] = {
            "id": f"msg_{number}",
            "role": role,
            "time": {"created": 1_756_720_800_000 + number},
        }
        parts = [{"id": f"prt_{number}{at}", "type": "text", "text": text} for at, text in enumerate(texts)]
        messages.append({"info": info, "parts": parts})
    tokens = {"input": FRESH, "output": OUT, "reasoning": 0, "cache": {"read": READ, "write": WRITTEN}}
    messages[-1]["info"] |= {"tokens": tokens, "modelID": MODEL, "providerID": "anthropic"}
    about = {"id": "ses_1", "projectID": "p", "title": "t"}
    return write_json(folder / "s.json", {"info": about, "messages": messages})


def of_pi(folder: Path) -> Path:
    about = {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/w"}
    plain = [message for message in TALK if "c1" not in json.dumps(message)]
    used = {"input": FRESH, "output": OUT, "cacheRead": READ, "cacheWrite": WRITTEN}
    plain[1] = {**plain[1], "usage": used, "provider": "anthropic", "model": MODEL}
    lines: list[dict[str, Any]] = [
        {
            "type": "message",
            "id": f"e{number}",
            "parentId": f"e{number - 1}" if number else None,
            "timestamp": TIME,
            "message": message,
        }
        for number, message in enumerate(plain)
    ]
    return write_lines(folder / "s.jsonl", about, *lines)


def of_cline(folder: Path) -> Path:
    spent = {"tokensIn": FRESH, "tokensOut": OUT, "cacheReads": READ, "cacheWrites": WRITTEN}
    return cline.task_file(folder, [cline.ASKED, *TALK[1:]], [cline.request(1_756_720_800_000, **spent)])


def of_goose(folder: Path) -> Path:
    about = {"working_dir": "/w", "description": "d", "message_count": 4}
    lines = [
        {"role": "user", "created": 1_756_720_800, "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "created": 1_756_720_801, "content": []},
        {"role": "assistant", "created": 1_756_720_801, "content": [goose_notice()]},
        {"role": "user", "created": 1_756_720_802, "content": [{"type": "text", "text": "two"}]},
        {"role": "assistant", "created": 1_756_720_803, "content": [{"type": "text", "text": ""}]},
    ]
    return write_lines(folder / "s.jsonl", about, *lines)


def goose_notice() -> dict[str, Any]:
    return {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "compacted"}


def of_llm(folder: Path) -> Path:
    log = llm.Log(folder / "logs.db")
    with closing(log.db):
        log.db.executescript(llm.OLD)
        details = {"cache_read_input_tokens": READ, "cache_creation_input_tokens": WRITTEN}
        used: dict[str, Any] = {
            "input_tokens": FRESH,
            "output_tokens": OUT,
            "token_details": json.dumps(details),
        }
        log.respond("r0", "question 0", "", input_tokens=None, output_tokens=None)
        log.respond("r1", "question 1", "yes", **used)
    return log.path


def of_ggcode(folder: Path) -> Path:
    plain = [message for message in TALK if "c1" not in json.dumps(message)]
    lines: list[dict[str, Any]] = [{"type": "meta", "session_id": "s", "title": "t"}]
    for number, message in enumerate(plain):
        told = {"id": f"m{number}", "role": message["role"], "content": as_blocks(message["content"])}
        lines.append({"type": "message", "message": told})
    used = {
        "input_tokens": FRESH,
        "output_tokens": OUT,
        "cache_read_tokens": READ,
        "cache_write_tokens": WRITTEN,
    }
    call = {"model": MODEL, "vendor": "anthropic", "timestamp": TIME, "usage": used}
    return write_lines(folder / "s.jsonl", *lines, {"type": "usage", "usage_entry": call})


def as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def of_picoclaw(folder: Path) -> Path:
    write_json(folder / "s.meta.json", {"key": "k", "summary": "so far", "skip": 1, "count": 7})
    return write_lines(folder / "s.jsonl", *CHAT)


def of_tingly(folder: Path) -> Path:
    said = [("user", "one"), ("assistant", ""), ("user", "two")]
    lines = [{"Role": role, "Content": text, "Timestamp": TIME} for role, text in said]
    return write_lines(folder / "s.jsonl", *lines)


def of_ductwork(folder: Path) -> Path:
    run = {"run_id": "r", "task_name": "t", "iteration": 1, "messages": TALK}
    return write_json(folder / "s.json", run)


def of_openrouter(folder: Path) -> Path:
    return write_json(folder / "s.json", {"sessions": {"s": {"ID": "s", "Messages": CHAT, "UserTurns": 3}}})


def of_continue(folder: Path) -> Path:
    history: list[dict[str, Any]] = [
        {"message": message} for message in CHAT if "c1" not in json.dumps(message)
    ]
    history[-1]["promptLogs"] = [{"modelTitle": "Claude", "modelProvider": "anthropic"}]
    details = {"cachedTokens": READ, "cacheWriteTokens": WRITTEN}
    usage = {"promptTokens": FRESH, "completionTokens": OUT, "promptTokensDetails": details}
    return write_json(folder / "s.json", {"sessionId": "s", "title": "t", "history": history, "usage": usage})


def of_aider(folder: Path) -> Path:
    path = folder / ".aider.chat.history.md"
    path.write_text(
        "\n# aider chat started at 2026-05-22 10:11:12\n\n> Aider v0.80\n> Main model: m\n\n#### one\n\n"
        "> Tokens: 2k sent, 10 received.\n\n#### two\n\nyes\n\n> Applied edit to a.py\n\n#### three\n"
    )
    return path


STOPPED: dict[str, Callable[[Path], Path]] = {
    "claude-code": of_claude_code, "codex": of_codex, "gemini-cli": of_gemini, "opencode": of_opencode,
    "pi": of_pi, "cline": of_cline, "goose": of_goose, "llm": of_llm, "ggcode": of_ggcode,
    "picoclaw": of_picoclaw, "tingly-box": of_tingly, "ductwork": of_ductwork,
    "openrouter": of_openrouter, "continue": of_continue, "aider": of_aider,
}  # fmt: skip


# -- what providers say


def complaints(messages: list[dict[str, Any]]) -> Iterator[str]:
    """What a provider would not take, by the shape of each message."""
    body = [message for message in messages if message.get("role") not in ("system", "developer")]
    if body != messages[len(messages) - len(body) :]:
        yield "a system message stands inside the conversation"
    for message in body:
        if message.get("type", "message") != "message":
            continue  # an item of the Responses API: a call, a result, reasoning
        elif "parts" in message:
            yield from _gemini(message)
        elif isinstance(message.get("content"), list):
            yield from _anthropic(message)
        else:
            yield from _chat(message)


def _gemini(message: dict[str, Any]) -> Iterator[str]:
    if message.get("role") not in ("user", "model"):
        yield f"Gemini has no role {message.get('role')!r}"
    if not message["parts"] or any(part == {"text": ""} for part in message["parts"]):
        yield f"Gemini refuses a content without a part: {message}"


def _anthropic(message: dict[str, Any]) -> Iterator[str]:
    if message.get("role") not in ("user", "assistant"):
        yield f"Anthropic has no role {message.get('role')!r}"
    if not message["content"]:
        yield f"Anthropic refuses a message without content: {message}"
    for block in message["content"]:
        if block.get("type") == "text" and not block["text"].strip():
            yield f"Anthropic refuses a text block that is blank: {message}"


def _chat(message: dict[str, Any]) -> Iterator[str]:
    role = message.get("role", message.get("Role"))
    if role not in ("user", "assistant", "tool"):
        yield f"OpenAI has no role {role!r}"
    said = message.get("content", message.get("Content"))
    if role == "assistant" and not (said or "").strip() and not message.get("tool_calls"):
        yield f"OpenAI refuses an assistant that says nothing: {message}"


def contexts(path: Path) -> Iterator[list[dict[str, Any]]]:
    with clew.open("memory:") as store:
        report = store.import_path(path)
        assert report.ok, report.problems
        for found in report.sessions:
            session = store.get(found.id)
            before = session.messages()
            whole = list(session.context())
            yield whole
            for most in range(1, len(whole)):
                cut = list(session.context(max_messages=most))
                assert 0 < len(cut) <= most
                yield cut
            assert session.messages() == before  # the log keeps all of it


def test_every_format_is_looked_at() -> None:
    assert STOPPED.keys() == READERS.keys()


@each_row("format", STOPPED)
def test_what_stopped_runs_left_can_be_sent_to_a_model(tmp_path: Path, format: str) -> None:
    found = list(contexts(STOPPED[format](tmp_path)))
    assert [list(complaints(context)) for context in found] == [[]] * len(found)
    spoken = [json.dumps(message) for message in found[0]]
    assert any("two" in text or "question 1" in text for text in spoken)


@each_row("name", test_lookalikes.SAMPLES)
def test_every_other_sample_can_be_sent_to_a_model(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(test_lookalikes.SAMPLES[name][1])
    assert [complaint for context in contexts(path) for complaint in complaints(context)] == []
