"""hooks: what a person sees of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.processes import Clew
from tests.docs.pages import DOCS, blocks

SETTINGS = '{\n  "model": "opus"\n}\n'


@pytest.fixture
def agents(cli: Clew) -> Clew:
    for name in (".claude", ".codex", ".pi/agent"):
        (cli.home / name).mkdir(parents=True)
    (cli.home / ".claude" / "settings.json").write_text(SETTINGS)
    cli.env |= {"PATH": str(cli.home), "XDG_RUNTIME_DIR": ""}
    return cli


def test_status_names_every_agent(agents: Clew) -> None:
    rows = agents("hooks", "status").rows
    assert [row[:2] for row in rows] == [
        ["claude-code", "not installed"],
        ["codex", "not installed"],
        ["gemini-cli", "not found"],
        ["opencode", "not found"],
        ["pi", "not installed"],
    ]
    seen = agents.on_terminal("hooks", "status").out
    assert "no clew watch is running" in seen
    assert "AGENT" in seen


def test_install_and_remove_say_what_they_did(agents: Clew) -> None:
    done = agents("hooks", "install", "--all")
    assert "claude-code: hooks are installed in ~/.claude/settings.json\n" in done.out
    assert "type /hooks in Codex, then t" in done.out
    assert "gemini" not in done.out
    assert "the hooks are there already" in agents("hooks", "install", "claude").out
    done = agents("hooks", "rm", "claude-code", "codex", "pi")
    assert "~/.claude/settings.json is as it was before, byte for byte" in done.out
    assert "~/.codex/hooks.json is gone, as before" in done.out
    assert (agents.home / ".claude" / "settings.json").read_text() == SETTINGS
    assert "no hooks of Clew are there" in agents("hooks", "rm", "pi").out


def test_a_removal_that_keeps_changes_of_others_says_so(agents: Clew) -> None:
    agents("hooks", "install", "claude-code")
    file = agents.home / ".claude" / "settings.json"
    file.write_text(file.read_text().replace("opus", "haiku"))
    done = agents("hooks", "rm", "claude-code")
    assert "lost only the hooks of Clew; other changes since then were kept" in done.out
    assert "the settings before the hooks came: ~/" in done.out
    assert file.read_text() == SETTINGS.replace("opus", "haiku")


def test_a_dry_run_is_a_diff(agents: Clew) -> None:
    done = agents("hooks", "install", "claude-code", "--dry-run")
    assert "--- ~/.claude/settings.json\n+++ ~/.claude/settings.json\n" in done.out
    assert '-  "model": "opus"\n+  "model": "opus",\n+  "hooks": {\n' in done.out
    assert "+++ ~/" in done.out.split("settings.json", 2)[2]
    assert (agents.home / ".claude" / "settings.json").read_text() == SETTINGS


def test_json_for_programs(agents: Clew) -> None:
    [made] = agents("hooks", "install", "claude-code", "--files", "--json").records
    assert (made["agent"], made["dry_run"], made["restored"]) == ("claude-code", False, False)
    assert Path(made["backup"]).read_text() == SETTINGS
    [first, *_] = agents("hooks", "status", "--json").records
    assert (first["state"], first["files"], first["watchers"], first["notes"]) == ("installed", True, [], [])
    [gone] = agents("hooks", "rm", "claude-code", "--json").records
    assert gone["restored"] is True
    assert gone["changed"][0] == str(agents.home / ".claude" / "settings.json")


def test_what_fails_for_one_agent_is_said_and_the_others_go_on(agents: Clew) -> None:
    (agents.home / ".claude" / "settings.json").write_text('{\n  "a": 1,\n}')
    done = agents("hooks", "install", "claude-code", "codex", code=3)
    assert "codex: hooks are installed" in done.out
    assert "claude-code: " in done.err
    assert "settings.json:2: it is not valid JSON" in done.err
    assert "settings.json:2: it is not valid JSON" in agents("hooks", "install", "claude", code=1).err
    assert "unreadable" in agents("hooks", "status").out


def test_wrong_names_are_answered_with_the_right_ones(agents: Clew) -> None:
    assert "there are claude-code, codex" in agents("hooks", "install", "nano", code=2).err
    assert "name an agent (claude-code, " in agents("hooks", "install", code=2).err
    assert "not both" in agents("hooks", "install", "pi", "--all", code=2).err
    assert "Gemini CLI was not found" in agents("hooks", "install", "gemini", code=1).err


def test_a_watcher_is_named(agents: Clew) -> None:
    place = agents.home / ".local" / "state" / "clew" / "wake"
    place.mkdir(parents=True, mode=0o700)
    (place / f"{os.getpid()}.abcdef01").mkdir(mode=0o700)
    assert json.loads(agents("hooks", "status", "--json").out.splitlines()[0])["watchers"] == [os.getpid()]
    assert f"clew watch is running (process {os.getpid()})" in agents.on_terminal("hooks", "status").out


def test_nothing_in_settings_reaches_the_terminal_as_it_is(agents: Clew) -> None:
    file = agents.home / ".claude" / "settings.json"
    file.write_text('{\n  "a": "\x9b31m\u202e",\n  "b": 2\n}\n')
    seen = agents.on_terminal("--color=never", "--no-pager", "hooks", "install", "claude", "--dry-run").out
    assert "\x9b" not in seen
    assert "\u202e" not in seen


def test_the_commands_of_the_how_to_do_what_it_says(agents: Clew) -> None:
    page = DOCS / "how-to" / "install-hooks.md"
    [table] = blocks(page, "text")
    seen = agents.on_terminal("--color=never", "hooks", "status", width=100).out
    assert [line.rstrip() for line in seen.splitlines()] == table.code.splitlines()
    typed = [line.split("#")[0].split() for block in blocks(page, "bash") for line in block.code.splitlines()]
    commands = [words[1:] for words in typed if words and words != ["clew", "watch"]]
    assert len(commands) >= 6
    for words in commands:
        agents(*words)
    assert (agents.home / ".claude" / "settings.json").read_text() == SETTINGS
