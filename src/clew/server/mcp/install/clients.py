"""The clients that can start `clew mcp`: where their settings lie, and what an entry looks like there.

Seen to take the entry, the skill and the hint: Claude Code 2.1.197, Codex 0.169.0 and Gemini CLI 0.61.0; the
entry and the skill: OpenCode 1.18.33. For Cursor and VS Code their manuals were read.

Skills lie in `.agents/skills`, which all of them read but Claude Code: a second copy in a folder of its own
makes Gemini CLI warn at every start.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from clew.importers.hooks.agents import AGENTS, Agent

SERVER: Final = "clew"
"""The name of our server in the settings of a client."""
SCRIPTS: Final = "clew/mcp"
"""The end of the directory of our scripts: by this a hook is known as ours."""
WORKSPACE: Final = "${workspaceFolder}"
"""Editors put the folder of the window in its place."""


class Client(NamedTuple):
    """One that starts MCP servers."""

    name: str
    title: str
    program: str
    file: Callable[[Path], Path]
    """Its settings, below the home directory, with what the environment says."""
    traces: Callable[[Path], tuple[Path, ...]]
    """One of these is there if it was ever used."""
    project_files: tuple[str, ...]
    """Its settings in a project: the first that is there, else the first."""
    keys: tuple[str, ...]
    """Where in its settings servers stand, by their names."""
    entry: Callable[[Sequence[str]], dict[str, Any]]
    """A server that is started with these words."""
    takes_comments: bool = False
    takes_last_commas: bool = False
    skills: str = ".agents/skills"
    """Of the user and of a project, where the environment says nothing else."""
    hint: Agent | None = None
    """How it runs a command when a session starts. None: no text reaches a session so."""
    workspace: str = ""
    """What it replaces by the directory that it works in. Empty: it starts servers there."""
    project_workspace: str = ""
    """The same, for settings in a project."""
    note: str = ""
    """What is good to know of it."""
    directory_note: str = ""
    """The same, if nothing says whose sessions it shows."""
    project_note: str = ""
    """The same, of settings in a project."""
    hint_note: str = ""

    @property
    def is_toml(self) -> bool:
        return self.project_files[0].endswith(".toml")

    def path(self, project: Path | None) -> Path:
        """The file to change, with its links as they are."""
        if project is None:
            return self.file(_home())
        files = [project / file for file in self.project_files]
        return next((file for file in files if file.exists()), files[0])

    def skill(self, project: Path | None) -> Path:
        """Where our skill lies."""
        if project is None and self.name == "claude-code":
            return AGENTS["claude-code"].path.parent / "skills" / SERVER / "SKILL.md"
        return (project or _home()) / self.skills / SERVER / "SKILL.md"

    def is_here(self) -> bool:
        """Whether there is a trace of it on this machine."""
        return any(trace.exists() for trace in self.traces(_home())) or shutil.which(self.program) is not None


def _home() -> Path:
    return Path(os.path.expanduser("~"))


# -- where settings lie


def _claude_code(home: Path) -> Path:
    given = os.environ.get("CLAUDE_CONFIG_DIR") or ""
    return (Path(given) if os.path.isabs(given) else home) / ".claude.json"


def _beside(agent: str, file: str) -> Callable[[Path], Path]:
    """A file in the directory of an agent that has hooks."""
    return lambda home: AGENTS[agent].directory(home) / file


def _opencode(home: Path) -> Path:
    """It reads both and puts them together. If there are two, the one where new entries would come."""
    directory = AGENTS["opencode"].directory(home)
    files = [directory / "opencode.json", directory / "opencode.jsonc"]
    return next((file for file in files if file.exists()), files[0])


def _cursor(home: Path) -> Path:
    return home / ".cursor" / "mcp.json"


def _vscode(home: Path) -> Path:
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        given = os.environ.get("XDG_CONFIG_HOME") or ""
        base = Path(given) if os.path.isabs(given) else home / ".config"
    kinds = [base / kind for kind in ("Code", "Code - Insiders")]
    return next((kind for kind in kinds if kind.is_dir()), kinds[0]) / "User" / "mcp.json"


# -- what an entry looks like


def _plain(words: Sequence[str]) -> dict[str, Any]:
    return {"command": words[0], "args": list(words[1:])}


def _typed(words: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio"} | _plain(words)


def _local(words: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", "command": list(words)}


# -- how a hint is run


def _hint(agent: str, handler: dict[str, Any]) -> Agent:
    """A hook that the client waits for: what it prints is added to the session."""

    def made(event: str, script: str) -> dict[str, Any]:
        return {"type": "command", "command": shlex.quote(script)} | handler

    return AGENTS[agent]._replace(events=("SessionStart",), handler=made, scripts=SCRIPTS)


CURSOR_HOOKS: Final = Agent(
    name="cursor",
    title="Cursor",
    program="cursor-agent",
    directory=lambda home: home / ".cursor",
    file="hooks.json",
    events=("sessionStart",),
    handler=lambda event, script: {"command": shlex.quote(script), "timeout": 5},
    takes_comments=True,
    scripts=SCRIPTS,
)

CLIENTS: Final[dict[str, Client]] = {
    client.name: client
    for client in (
        Client(
            name="claude-code",
            title="Claude Code",
            program="claude",
            file=_claude_code,
            traces=lambda home: (AGENTS["claude-code"].directory(home), _claude_code(home)),
            project_files=(".mcp.json",),
            keys=("mcpServers",),
            entry=_typed,
            skills=".claude/skills",
            # Without a shell, as `clew hooks` does it.
            hint=AGENTS["claude-code"]._replace(
                events=("SessionStart",),
                handler=lambda event, script: {
                    "type": "command",
                    "command": script,
                    "args": [],
                    "timeout": 5,
                },
                scripts=SCRIPTS,
            ),
            project_note="Claude Code asks each person once before it starts a server of a project",
        ),
        Client(
            name="codex",
            title="Codex",
            program="codex",
            file=_beside("codex", "config.toml"),
            traces=lambda home: (AGENTS["codex"].directory(home),),
            project_files=(".codex/config.toml",),
            keys=("mcp_servers",),
            entry=_plain,
            hint=_hint("codex", {"timeout": 5}),
            project_note="Codex reads the settings of a project only where you trust it",
            hint_note=AGENTS["codex"].note,
        ),
        Client(
            name="gemini-cli",
            title="Gemini CLI",
            program="gemini",
            file=_beside("gemini-cli", "settings.json"),
            traces=lambda home: (AGENTS["gemini-cli"].directory(home),),
            project_files=(".gemini/settings.json",),
            keys=("mcpServers",),
            entry=_plain,
            takes_comments=True,
            hint=_hint("gemini-cli", {"name": "clew-mcp", "timeout": 5000}),
            note="Gemini CLI starts servers and hooks only in folders that you trust",
        ),
        Client(
            name="opencode",
            title="OpenCode",
            program="opencode",
            file=_opencode,
            traces=lambda home: (AGENTS["opencode"].directory(home),),
            project_files=("opencode.json", "opencode.jsonc"),
            keys=("mcp",),
            entry=_local,
            takes_comments=True,
            takes_last_commas=True,
        ),
        Client(
            name="cursor",
            title="Cursor",
            program="cursor-agent",
            file=_cursor,
            traces=lambda home: (home / ".cursor",),
            project_files=(".cursor/mcp.json",),
            keys=("mcpServers",),
            entry=_plain,
            takes_comments=True,
            takes_last_commas=True,
            hint=CURSOR_HOOKS,
            # Seen with the servers of a user: they start in the home directory.
            workspace=WORKSPACE,
            project_workspace=WORKSPACE,
            hint_note="the editor of Cursor runs the hook, but may leave out its text (seen with 3.12); "
            "cursor-agent shows it to the agent",
        ),
        Client(
            name="vscode",
            title="VS Code",
            program="code",
            file=_vscode,
            traces=lambda home: (_vscode(home).parent.parent,),
            project_files=(".vscode/mcp.json",),
            keys=("servers",),
            entry=_typed,
            takes_comments=True,
            takes_last_commas=True,
            # In the settings of a user VS Code knows no folder, and starts no server that names it.
            project_workspace=WORKSPACE,
            directory_note="VS Code starts it in your home directory, so it finds the sessions of that "
            "directory: give --workspace DIR or --all-sessions, or run this with --project in a project",
        ),
    )
}
