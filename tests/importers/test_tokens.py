"""Tokens mean the same from wherever they come: the whole prompt, and of it what a cache had."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import clew
from tests.importers.programs import test_cline as cline
from tests.importers.programs import test_llm as llm
from tests.importers.readers import write_json, write_lines
from tests.support.rows import each_row

SAID = {"role": "user", "content": "hi"}
ANSWER = [{"type": "text", "text": "yes"}]
FRESH, READ, WRITTEN, OUT = 300, 600, 100, 50
"""One call: a prompt of 1000 tokens, of which 600 came from a cache and 100 went into one."""
TIME = "2025-09-01T10:00:00Z"


def of_claude_code(folder: Path) -> Path:
    usage = {
        "input_tokens": FRESH,
        "cache_read_input_tokens": READ,
        "cache_creation_input_tokens": WRITTEN,
        "output_tokens": OUT,
    }
    message = {"role": "assistant", "id": "m", "model": "claude-sonnet-4-20250514", "content": ANSWER}
    common = {"sessionId": "s", "timestamp": TIME}
    told = {**message, "usage": usage}
    return write_lines(
        folder / "s.jsonl",
        {"type": "user", "uuid": "u", "parentUuid": None, "message": SAID, **common},
        {"type": "assistant", "uuid": "a", "parentUuid": "u", "message": told, **common},
    )


def of_codex(folder: Path) -> Path:
    spent = {"input_tokens": FRESH + READ + WRITTEN, "cached_input_tokens": READ, "output_tokens": OUT}
    info = {"total_token_usage": spent, "last_token_usage": spent}
    records = [
        ("session_meta", {"id": "s"}),
        ("turn_context", {"model": "gpt-5-codex"}),
        ("response_item", {"type": "message", **SAID}),
        ("event_msg", {"type": "token_count", "info": info}),
    ]
    lines = [{"timestamp": TIME, "type": kind, "payload": payload} for kind, payload in records]
    return write_lines(folder / "rollout-s.jsonl", *lines)


def of_gemini(folder: Path) -> Path:
    told = {"input": FRESH + READ + WRITTEN, "cached": READ, "output": OUT}
    about = {"sessionId": "s", "projectHash": "p", "startTime": TIME}
    said = {"id": "1", "type": "user", "content": "hi", "timestamp": TIME}
    answer = {"id": "2", "type": "gemini", "content": "yes", "tokens": told, "model": "gemini-2.5-pro"}
    return write_lines(folder / "s.jsonl", about, said, {**answer, "timestamp": TIME})


def of_opencode(folder: Path) -> Path:
    tokens = {"input": FRESH, "output": OUT, "reasoning": 0, "cache": {"read": READ, "write": WRITTEN}}
    info = {"id": "msg_1", "role": "assistant", "tokens": tokens, "time": {"created": 1_756_720_800_000}}
    named = {**info, "modelID": "claude-sonnet-4-20250514", "providerID": "anthropic"}
    message = {"info": named, "parts": [{"id": "prt_1", "type": "text", "text": "yes"}]}
    about = {"id": "ses_1", "projectID": "p", "title": "t"}
    return write_json(folder / "s.json", {"info": about, "messages": [message]})


def of_pi(folder: Path) -> Path:
    used = {"input": FRESH, "output": OUT, "cacheRead": READ, "cacheWrite": WRITTEN}
    message = {"role": "assistant", "content": ANSWER, "usage": used, "provider": "anthropic"}
    about = {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/w"}
    told = {**message, "model": "claude-sonnet-4-20250514"}
    line = {"type": "message", "id": "a", "parentId": None, "timestamp": TIME, "message": told}
    return write_lines(folder / "s.jsonl", about, line)


def of_cline(folder: Path) -> Path:
    spent = {"tokensIn": FRESH, "tokensOut": OUT, "cacheReads": READ, "cacheWrites": WRITTEN}
    return cline.task_file(folder, [cline.ASKED], [cline.request(1_756_720_800_000, **spent)])


def of_ggcode(folder: Path) -> Path:
    used = {
        "input_tokens": FRESH,
        "output_tokens": OUT,
        "cache_read_tokens": READ,
        "cache_write_tokens": WRITTEN,
    }
    call = {"model": "claude-sonnet-4-20250514", "vendor": "anthropic", "timestamp": TIME, "usage": used}
    return write_lines(
        folder / "s.jsonl",
        {"type": "meta", "session_id": "s", "title": "t"},
        {"type": "message", "message": {"id": "1", "role": "user", "content": ANSWER}},
        {"type": "usage", "usage_entry": call},
    )


def of_continue(folder: Path) -> Path:
    details = {"cachedTokens": READ, "cacheWriteTokens": WRITTEN}
    usage = {"promptTokens": FRESH, "completionTokens": OUT, "promptTokensDetails": details}
    log = {"modelTitle": "Claude", "modelProvider": "anthropic"}
    history = [{"message": SAID, "promptLogs": [log]}]
    return write_json(folder / "s.json", {"sessionId": "s", "title": "t", "history": history, "usage": usage})


def of_llm(folder: Path) -> Path:
    details = {"cache_read_input_tokens": READ, "cache_creation_input_tokens": WRITTEN}
    log = llm.Log(folder / "logs.db")
    with closing(log.db):
        log.db.executescript(llm.OLD)
        tokens = {"input_tokens": FRESH, "output_tokens": OUT}
        used: dict[str, Any] = {**tokens, "token_details": json.dumps(details)}
        log.respond("r1", "hi", "yes", **used)
    return log.path


CACHED = {
    "claude-code": of_claude_code, "opencode": of_opencode, "pi": of_pi, "cline": of_cline,
    "ggcode": of_ggcode, "continue": of_continue, "llm": of_llm,
}  # fmt: skip
"""Programs that tell what went into a cache,"""
READING = {"codex": of_codex, "gemini-cli": of_gemini}
"""and those that do not."""


@each_row("format", [*CACHED, *READING])
def test_the_input_is_the_whole_prompt(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        write: Callable[[Path], Path] = {**CACHED, **READING}[format]
        report = store.import_path(write(tmp_path))
        assert {session.format for session in report.sessions} == {format}
        totals = store.usage()
        assert (totals.calls, totals.input_tokens, totals.output_tokens) == (1, 1000, OUT)
        written = WRITTEN if format in CACHED else 0
        assert (totals.cache_read_tokens, totals.cache_write_tokens) == (READ, written)


@each_row("format", ["claude-code", "opencode", "pi", "ggcode"])
def test_a_call_is_priced_with_its_cache(tmp_path: Path, format: str) -> None:
    """3 dollars for a million tokens, 0.30 for those of a cache, 3.75 for those that go into it, 15 for
    those of the answer."""
    with clew.open("memory:") as store:
        store.import_path(CACHED[format](tmp_path))
        totals = store.usage()
        whole = FRESH * Decimal(3) + READ * Decimal("0.3") + WRITTEN * Decimal("3.75") + OUT * Decimal(15)
        assert (totals.cost, totals.estimated, totals.unpriced) == (whole / 1_000_000, 1, 0)


def test_an_input_that_is_less_than_its_cache_was_told_without_it(store: clew.Store, tmp_path: Path) -> None:
    details = {"cachedTokens": 600}
    usage = {"promptTokens": 300, "completionTokens": 1, "promptTokensDetails": details}
    document = {"sessionId": "s", "title": "t", "history": [{"message": SAID}], "usage": usage}
    store.import_path(write_json(tmp_path / "s.json", document))
    assert store.usage().input_tokens == 900
