"""Agents are named one way in every command: short forms are taken, and what is unknown is an error."""

from __future__ import annotations

import json

import pytest

import clew
from clew.cli.commands.agents.resume import AGENTS as RESUMABLE
from clew.importers import OTHER_NAMES, READERS, agent_named
from clew.importers.hooks.agents import AGENTS
from clew.server.mcp.install.clients import CLIENTS
from tests.cli.processes import Clew
from tests.support.rows import named


def test_every_short_form_stands_for_an_agent_or_a_client() -> None:
    assert set(OTHER_NAMES.values()) <= {*READERS, *CLIENTS}
    assert not set(OTHER_NAMES) & {*READERS, *CLIENTS}
    for text, expected in {
        "claude": "claude-code",
        "Claude Code": "claude-code",
        "claude_code": "claude-code",
        "GEMINI": "gemini-cli",
        "vscode": None,
        "": None,
    }.items():
        assert agent_named(text, READERS) == expected
    for known in (AGENTS, CLIENTS, RESUMABLE):
        assert agent_named("claude", known) == "claude-code"
        assert agent_named("nano", known) is None


@pytest.fixture
def store(cli: Clew) -> Clew:
    with clew.open(cli.store) as store:
        for agent in ("claude-code", "codex", "my-bot"):
            session = store.session(agent, metadata={"agent": agent}, workspace=cli.home)
            session.append({"role": "user", "content": "hello"})
            session.add_usage(model="m", input_tokens=1)
    return cli


def test_filters_take_short_forms_of_agents_and_agents_of_the_store(store: Clew) -> None:
    for text, agent in {
        "claude": "claude-code",
        "Codex": "codex",
        "my-bot": "my-bot",
        "my_bot": "my-bot",
    }.items():
        assert [one["id"] for one in store("ls", "--agent", text, "--json").records] == [agent]
        assert [one["session"] for one in store("search", "hello", "--agent", text, "--json").records] == [
            agent
        ]
        assert store("usage", "--agent", text, "--total", "--json").records[0]["calls"] == 1
    assert store("ls", "--agent", "gemini").out == "", "it can be imported, and was not yet"


def test_an_agent_is_named_by_short_forms_wherever_one_is_chosen(store: Clew) -> None:
    going = store("resume", "claude-code", "--in", "gemini", "--dry-run", "--json").records[0]
    assert going["agent"] == "gemini-cli"
    for command in ("hooks", "mcp"):
        assert json.loads(store(command, "status", "claude", "--json").out).get(
            "agent" if command == "hooks" else "client"
        ) == "claude-code"  # fmt: skip
    log = store("export", "claude-code", "-f", "claude", "-o", "log.jsonl").out
    assert "\tclaude-code\t" in log
    store("--store", "other.db", "import", "log.jsonl", "-f", "claude")


def test_an_agent_that_nobody_knows_is_an_error_that_lists_them(store: Clew) -> None:
    """In a pipe too, where an empty answer would look like one."""
    for typed, first in {
        ("ls", "--agent", "nano"): "my-bot",
        ("search", "hello", "--agent", "nano"): "my-bot",
        ("usage", "--agent", "nano"): "my-bot",
        ("resume", "codex", "--in", "nano"): "claude-code",
        ("hooks", "status", "nano"): "claude-code",
        ("hooks", "install", "nano"): "claude-code",
        ("mcp", "status", "nano"): "claude-code",
        ("mcp", "install", "nano"): "claude-code",
        ("mcp", "hint", "--client", "nano"): "claude-code",
        ("import", "x", "-f", "nano"): "claude-code",
        ("export", "codex", "-f", "nano"): "claude-code",
    }.items():
        with named(" ".join(typed)):
            done = store(*typed, code=2)
            assert "'nano' is not a" in done.err
            assert "that Clew knows; there are " in done.err
            assert first in done.err
            assert done.out == ""
