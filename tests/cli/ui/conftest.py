"""Stores to browse: sessions of agents, imported from their files."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual import app as textual_app
from textual import pilot as textual_pilot

import clew
from clew.cli.ui import search
from tests.cli.processes import Clew

SHOP = "9f3a1b2c-5d6e-4f70-8a9b-0c1d2e3f4a5b"
PARSER = "1092aaaa-1111-4222-8333-444455556666"
CODEX = "019a0000-7c1d-7e2f-9a3b-4c5d6e7f8000"
START = datetime(2025, 11, 2, 9, 0, tzinfo=UTC)
Turn = tuple[str, Any]


@pytest.fixture(autouse=True)
def wait_for_nothing_but_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual waits until the process is idle, 20 ms or more, after each key and in each pause: by luck, on a
    busy machine. `Screen.settle` looks at what the screen waits for."""
    for module in (textual_app, textual_pilot):
        monkeypatch.setattr(module, "wait_for_idle", lambda _: asyncio.sleep(0))
    monkeypatch.setattr(
        textual_app.App, "NOTIFICATION_TIMEOUT", 3600
    )  # what was said stays, however long a key takes
    monkeypatch.setattr(search, "PAUSE", 0.001)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: str, *, failed: bool = False) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": id,
        "content": content,
        **({"is_error": True} if failed else {}),
    }


def claude_code(
    home: Path, id: str, directory: str, start: datetime, turns: list[Turn], agent: str | None = None
) -> None:
    """A file of Claude Code: a session, or one of its subagents."""
    folder = home / ".claude" / "projects" / directory.replace("/", "-")
    path = folder / f"{id}.jsonl" if agent is None else folder / id / "subagents" / f"agent-{agent}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines, parent = [], None
    for number, (role, content) in enumerate(turns):
        uuid = f"{id}-{agent}-{number}"
        message = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{uuid}", "type": "message", "model": "claude-opus-4-5"}
        lines.append(
            {
                "parentUuid": parent,
                "isSidechain": agent is not None,
                "cwd": directory,
                "sessionId": id,
                "version": "2.1.63",
                "type": role,
                "message": message,
                "uuid": uuid,
                "timestamp": (start + timedelta(seconds=20 * number)).isoformat().replace("+00:00", "Z"),
                **({"agentId": agent} if agent else {}),
            }
        )
        parent = uuid
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if agent is not None:
        path.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": f"task-{agent}"}))


def codex(home: Path, id: str, directory: str, start: datetime, question: str, answer: str) -> None:
    at = start.isoformat().replace("+00:00", "Z")
    arguments = json.dumps({"cmd": "rg cookie src"})
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": question}]},
        {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "src/a.py:1: cookie"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]},
    ]
    meta = {"id": id, "timestamp": at, "cwd": directory, "originator": "codex_cli_rs", "source": "cli"}
    lines = [
        {"timestamp": at, "type": "session_meta", "payload": meta},
        {"timestamp": at, "type": "turn_context", "payload": {"cwd": directory, "model": "gpt-5"}},
        *({"timestamp": at, "type": "response_item", "payload": item} for item in items),
    ]
    path = home / ".codex" / "sessions" / "2026" / "11" / "02" / f"rollout-2026-11-02T09-00-00-{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


SHOP_TURNS: list[Turn] = [
    ("user", "The login page returns 500 for people with an old cookie."),
    (
        "assistant",
        [
            {"type": "thinking", "thinking": "Let me look at the log first.", "signature": "x"},
            text("I will look at the log."),
            call("t1", "Bash", command="tail -n 40 logs/app.log"),
        ],
    ),
    ("user", [result("t1", "Traceback (most recent call last):\nKeyError: 'f00'")]),
    ("assistant", [call("t2", "Read", file_path="/w/shop/auth.py"), call("t3", "Grep", pattern="sessions")]),
    ("user", [result("t2", "    40→def current_user():\n    41→    …"), result("t3", "auth.py:42")]),
    (
        "assistant",
        [
            text("Line 42 fails."),
            call(
                "t4",
                "Edit",
                file_path="/w/shop/auth.py",
                old_string="user = sessions[cookie]",
                new_string="user = sessions.get(cookie)\nif user is None:\n    return None",
            ),
        ],
    ),
    ("user", [result("t4", "The file /w/shop/auth.py has been updated.")]),
    ("assistant", [text("Fixed. All tests pass.")]),
    ("user", "Are there other places like this?"),
    ("assistant", [call("task-a1", "Task", description="Look in the admin pages", prompt="Look")]),
    ("user", [result("task-a1", "Found one cookie.")]),
    ("assistant", [text("Two more: admin.py and api.py.")]),
    ("user", "Fix them too."),
    ("assistant", [text("Done.")]),
]


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as `agents` has it, made once: to be copied."""
    home = tmp_path_factory.mktemp("agents")
    claude_code(home, SHOP, "/w/shop", START, SHOP_TURNS)
    for number, words in enumerate(("Look in the api", "Look in the admin pages", "Look in the tests")):
        turns: list[Turn] = [("user", words), ("assistant", [text("Found one cookie.")])]
        claude_code(home, SHOP, "/w/shop", START + timedelta(minutes=5 + number), turns, f"a{number}")
    short: list[Turn] = [("user", "Why is the parser slow?"), ("assistant", [text("It backtracks.")])]
    claude_code(home, PARSER, "/w/parser", START - timedelta(days=1), short)
    codex(home, CODEX, "/w/shop", START - timedelta(days=2), "Review the cookie handling", "It looks fine.")
    with clew.open(home / "agents.db") as store:
        report = store.import_path(home)
        assert report.new == 6, report
    return home / "agents.db"


@pytest.fixture
def agents(cli: Clew, imported: Path) -> Clew:
    """A session of Claude Code with three subagents, another one in another project, and one of Codex."""
    shutil.copy(imported, cli.store)
    return cli
