"""`clew mcp install` and `clew mcp status`: what a person and a program see; the entry really starts."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import clew
from clew.cli.app import Refused
from clew.cli.commands.serving import mcp_install
from tests.cli.processes import Clew

SETTINGS = '{\n  "numStartups": 3\n}'


@pytest.fixture
def cli(tmp_path: Path) -> Clew:
    for name in (".claude", ".codex", ".config/Code/User", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".claude.json").write_text(SETTINGS)
    program = tmp_path / "bin" / "clew"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    cli = Clew(tmp_path)
    cli.env |= {"PATH": str(tmp_path / "bin")}
    del cli.env["CLEW_STORE"]
    return cli


def test_install_status_and_remove_say_what_they_did(cli: Clew) -> None:
    done = cli("mcp", "install", "--all", "--hint").out
    assert "claude-code: ~/.claude.json starts clew mcp now; start Claude Code again\n" in done
    assert "  ~/.claude/skills/clew/SKILL.md is new\n" in done
    assert "  a copy of what was there: ~/.local/share/clew/mcp/claude-code.2" in done
    assert "type /hooks in Codex, then t" in done
    assert "there is no hint: VS Code" in done
    assert "gemini" not in done
    assert "codex: ~/.codex/config.toml starts clew mcp already" in cli("mcp", "install", "codex").out
    rows = cli("mcp", "status").rows
    assert [row[:4] for row in rows] == [
        ["claude-code", "installed", "yes", "yes"],
        ["codex", "installed", "yes", "yes"],
        ["gemini-cli", "not found", "no", "no"],
        ["opencode", "not found", "no", "no"],
        ["cursor", "not found", "no", "no"],
        ["vscode", "installed", "yes", "no"],
    ]
    done = cli("mcp", "rm", "--all").out
    assert "claude-code: ~/.claude.json does not start clew mcp any more; all files are as they were" in done
    assert "cursor: nothing of Clew is there" in done
    assert (cli.home / ".claude.json").read_text() == SETTINGS


def test_the_table_fits_the_terminal(cli: Clew) -> None:
    cli("mcp", "install", "claude-code")
    (cli.home / "bin" / "clew").unlink()
    for width in (60, 80, 200):
        seen = cli.on_terminal("--color=never", "mcp", "status", width=width).out
        assert all(len(line) <= width for line in seen.splitlines())
        assert seen.splitlines()[0].split()[:2] == ["CLIENT", "STATE"]
        assert "claude-code  broken" in seen
        assert "claude-code: there is no program" in " ".join(seen.split())


def test_a_removal_that_keeps_changes_of_others_says_so(cli: Clew) -> None:
    cli("mcp", "install", "claude-code")
    file = cli.home / ".claude.json"
    file.write_text(file.read_text().replace('"numStartups": 3', '"numStartups": 4'))
    done = cli("mcp", "rm", "claude").out
    assert "only what is of Clew was taken out; other changes since then were kept" in done
    assert "  a copy of what was there before: ~/" in done
    assert file.read_text() == SETTINGS.replace("3", "4")


def test_a_dry_run_is_a_diff_that_names_each_file_once(cli: Clew) -> None:
    done = cli("mcp", "install", "--all", "--dry-run").out
    assert '-  "numStartups": 3\n+  "numStartups": 3,\n+  "mcpServers": {\n' in done
    assert "--- /dev/null\n+++ ~/.codex/config.toml\n" in done
    assert done.count("+++ ~/.agents/skills/clew/SKILL.md\n") == 1
    assert (cli.home / ".claude.json").read_text() == SETTINGS
    assert not (cli.home / ".agents").exists()


def test_json_for_programs(cli: Clew) -> None:
    [made] = cli("mcp", "install", "claude-code", "--all-sessions", "--no-sync", "--json").records
    assert made["command"] == [str(cli.home / "bin" / "clew"), "mcp", "--all"]
    assert made["changed"][0] == str(cli.home / ".claude.json")
    assert [Path(backup).read_text() for backup in made["backups"]] == [SETTINGS]
    first, *_ = cli("mcp", "status", "--json").records
    assert (first["client"], first["state"], first["command"]) == (
        "claude-code",
        "installed",
        made["command"],
    )
    [gone] = cli("mcp", "rm", "claude-code", "--json").records
    assert gone["restored"] is True


def test_the_store_of_the_user_is_named_if_a_client_could_not_know_it(cli: Clew) -> None:
    def written(*options: str, env: dict[str, str] | None = None) -> list[str]:
        [made] = cli("mcp", "install", "codex", "--json", *options, env=env).records
        words: list[str] = made["command"]
        return words[1:-1]

    own = str(cli.home / "own.db")
    assert written() == ["mcp"]
    assert written("--store", "own.db") == ["mcp", "--store", own]
    assert written(env={"CLEW_STORE": own}) == ["mcp", "--store", own], "Codex hands on no such variable"
    data = {"XDG_DATA_HOME": str(cli.home / "data")}
    assert written(env=data) == ["mcp", "--store", str(cli.home / "data" / "clew" / "clew.db")]
    (cli.home / ".config" / "clew").mkdir(parents=True)
    (cli.home / ".config" / "clew" / "config.toml").write_text(f'store = "{own}"\n')
    (cli.home / ".config" / "clew" / "config.toml").chmod(0o600)
    assert written() == ["mcp"], "clew mcp reads that file itself:"
    cli("mcp")
    assert (cli.home / "own.db").exists()
    refused = cli("mcp", "install", "codex", "--store", "postgresql://me:hidden@db/x", code=1).err
    assert "clew config store ADDRESS" in refused
    assert "hidden" not in refused


def test_without_the_packages_of_clew_mcp_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_install, "find_spec", lambda name: None)
    with pytest.raises(Refused, match="a package is missing: mcp; pip install 'mcp>="):
        mcp_install._refuse_missing()
    wanted = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())
    assert list(mcp_install.PACKAGES.values()) == wanted["project"]["optional-dependencies"]["mcp"]


def test_wrong_words_are_answered_with_the_right_ones(cli: Clew) -> None:
    assert "there are claude-code, codex" in cli("mcp", "install", "nano", code=2).err
    assert "name a client (claude-code, " in cli("mcp", "install", code=2).err
    assert "not both" in cli("mcp", "install", "codex", "--all", code=2).err
    assert "Gemini CLI was not found" in cli("mcp", "install", "gemini", code=1).err
    assert "leave out --hint" in cli("mcp", "install", "--remove", "codex", "--hint", code=2).err
    assert "leave out --hint" in cli("mcp", "install", "vscode", "--hint", code=1).err


def test_what_fails_for_one_client_is_said_and_the_others_go_on(cli: Clew) -> None:
    (cli.home / ".claude.json").write_text('{\n  "a": 1,\n}')
    done = cli("mcp", "install", "--all", code=3)
    assert "codex: ~/.codex/config.toml starts clew mcp now" in done.out
    assert ".claude.json:2: it is not valid JSON: a comma stands before the end" in done.err
    assert (cli.home / ".claude.json").read_text() == '{\n  "a": 1,\n}'
    assert "claude-code\tunreadable" in cli("mcp", "status").out


def test_nothing_in_settings_reaches_the_terminal_as_it_is(cli: Clew) -> None:
    (cli.home / ".claude.json").write_text('{\n  "a": "\x9b31m\u202e",\n  "b": 2\n}\n')
    seen = cli.on_terminal("--color=never", "--no-pager", "mcp", "install", "claude", "--dry-run").out
    assert "\x9b" not in seen
    assert "\u202e" not in seen


# -- what is written works


def _entry(cli: Clew, name: str) -> list[str]:
    """What the client reads in its settings."""
    if name == "codex":
        found = tomllib.loads((cli.home / ".codex" / "config.toml").read_text())["mcp_servers"]["clew"]
    else:
        found = json.loads((cli.home / ".claude.json").read_text())["mcpServers"]["clew"]
    return [found["command"], *found["args"]]


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_the_entry_starts_a_server_that_finds_the_sessions_of_the_directory(cli: Clew, name: str) -> None:
    (cli.home / "bin" / "clew").unlink()
    work = cli.home / "work"
    work.mkdir()
    with clew.open(cli.store) as store:
        store.session("mine", title="The login bug", workspace=work)
        store.session("other", title="Elsewhere", workspace=cli.home)
    cli("mcp", "install", name, "--store", str(cli.store), "--no-skill")
    command, *arguments = _entry(cli, name)
    env = {"HOME": str(cli.home), "PATH": os.defpath, "PYTHONPATH": cli.env.get("PYTHONPATH", "")}
    server = StdioServerParameters(command=command, args=arguments, env=env, cwd=work)

    async def ask() -> Any:
        async with Client(server, mode="legacy") as client:
            return (await client.call_tool("list_sessions", {})).structured_content

    assert [one["title"] for one in anyio.run(ask)["sessions"]] == ["The login bug"]
