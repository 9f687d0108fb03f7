"""A session of another agent that went on here goes back whole: messages, calls, results, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clew
from clew.core.messages.dialects import calls_of, results_of, role_of, text_of
from tests.exporters.programs import test_ductwork as ductwork
from tests.exporters.programs import test_ggcode as ggcode
from tests.exporters.programs import test_openrouter as openrouter
from tests.exporters.programs import test_picoclaw as picoclaw
from tests.exporters.programs import test_tingly_box as tingly
from tests.importers.programs.test_openrouter import session as state_session
from tests.support.rows import each_row

CHAT = {"id": "n1", "type": "function", "function": {"name": "run", "arguments": '{"a":[1]}'}}
SINCE: list[list[dict[str, Any]]] = [
    [
        {"role": "assistant", "content": "looking", "tool_calls": [CHAT]},
        {"role": "tool", "tool_call_id": "n1", "content": "found"},
    ],
    [
        {
            "role": "assistant",
            "content": "looking",
            "tool_calls": [{"id": "n1", "function": {"name": "run", "arguments": {"a": [1]}}}],
        },
        {"role": "tool", "tool_call_id": "n1", "content": [{"type": "text", "text": "found"}]},
    ],
    [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "looking"},
                {"type": "tool_use", "id": "n1", "name": "run", "input": {"a": [1]}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "n1", "content": "found"}]},
    ],
    [
        {
            "role": "model",
            "parts": [{"text": "looking"}, {"functionCall": {"id": "n1", "name": "run", "args": {"a": [1]}}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "n1", "name": "run", "response": {"output": "found"}}}],
        },
    ],
]


def source(format: str, folder: Path) -> Path:
    if format == "picoclaw":
        (folder / "telegram_1.meta.json").write_text(picoclaw.META)
        (folder / "telegram_1.jsonl").write_bytes(picoclaw.LOG)
        return folder / "telegram_1.jsonl"
    if format == "ggcode":
        (folder / "20260525-101500-0011.jsonl").write_text(ggcode.LOG)
        return folder / "20260525-101500-0011.jsonl"
    if format == "ductwork":
        (folder / "run-sync-1772380000000.json").write_text(ductwork.RUN)
        return folder / "run-sync-1772380000000.json"
    if format == "openrouter":
        (folder / "state.json").write_text(openrouter.as_written(state_session()))
        return folder / "state.json"
    return tingly.source(folder, tingly.ROWS[:1], [row for row in tingly.SAID if row[1] == "s1"])


def told(s: clew.Session) -> list[tuple[str, str]]:
    """Who said what. What has no words but a call or a result is told by these."""
    found = [(role_of(message), text_of(message)) for message in s.messages()]
    return [(role, text) for role, text in found if text and role != "tool"]


def pairs(s: clew.Session) -> list[str | None]:
    return [call.id for message in s.messages() for call in (*calls_of(message), *results_of(message))]


@each_row("since", SINCE, ids=["OpenAI", "Ollama", "Anthropic", "Gemini"])
@each_row("format", ["picoclaw", "ggcode", "ductwork", "openrouter", "tingly-box"])
def test_what_was_said_here_comes_with_all_that_was_there(
    tmp_path: Path, format: Any, since: list[dict[str, Any]]
) -> None:
    with clew.open("memory:") as store, clew.open("memory:") as other:
        (loaded,) = store.import_path(source(format, tmp_path)).sessions
        s = store.get(loaded.id)
        s.append({"role": "user", "content": "and <now>?"}, *since, {"role": "assistant", "content": "done"})
        (tmp_path / "out").mkdir()
        name = f"{format}.db" if format == "tingly-box" else source(format, tmp_path).name
        report = other.import_path(store.export(s.id, format, path=tmp_path / "out" / name))
        assert report.ok
        again = other.get(loaded.id)
        assert told(again) == told(s)
        assert told(again)[-1] == ("assistant", "done")
        if format != "tingly-box":  # which keeps words only
            assert pairs(again)[-2:] == ["n1", "n1"]
            assert [m for m in again.context() if "interrupted" in str(m)] == []
        assert (again.info.title, again.info.workspace_given) == (s.info.title, s.info.workspace_given)
        assert (again.info.model, again.info.vendor, again.info.endpoint) == (
            s.info.model, s.info.vendor, s.info.endpoint,
        )  # fmt: skip
        assert again.usage().input_tokens == s.usage().input_tokens
        assert again.vars() == s.vars()
        assert again.summary == s.summary
        assert again.info.aliases == s.info.aliases
