"""The agents that have hooks: where their settings lie, which events they tell of, and how."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple


class Agent(NamedTuple):
    """One that has hooks."""

    name: str
    """As its format is called, such as "claude-code"."""
    title: str
    program: str
    directory: Callable[[Path], Path]
    """Its own directory, with what the environment says."""
    file: str
    """In that directory: the settings, or the extension that is all ours."""
    events: tuple[str, ...]
    """Turns and sessions that end, sessions that begin, compactions. Events that only some versions know
    are left out: an agent may refuse settings that name one."""
    handler: Callable[[str, str], dict[str, Any]] | None
    """The entry for an event, given the event and the path of our script. None: it loads an extension."""
    takes_comments: bool = False
    scripts: str = "clew/hooks"
    """The end of the directory of our scripts: by this a hook is known as ours."""
    note: str = ""
    """What is left for the user to do."""

    @property
    def path(self) -> Path:
        """The file to change, with its links as they are."""
        return self.directory(Path(os.path.expanduser("~"))) / self.file

    def is_here(self) -> bool:
        """Whether there is a trace of it on this machine."""
        home = Path(os.path.expanduser("~"))
        return self.directory(home).is_dir() or shutil.which(self.program) is not None


def _moved(variable: str, *usual: str) -> Callable[[Path], Path]:
    def directory(home: Path) -> Path:
        given = os.environ.get(variable) or ""
        return Path(given) if os.path.isabs(given) else home.joinpath(*usual)

    return directory


def _gemini(home: Path) -> Path:
    given = os.environ.get("GEMINI_CLI_HOME") or ""
    return (Path(given) if os.path.isabs(given) else home) / ".gemini"


def _opencode(home: Path) -> Path:
    given = os.environ.get("XDG_CONFIG_HOME") or ""
    usual = (Path(given) if os.path.isabs(given) else home / ".config") / "opencode"
    return _moved("OPENCODE_CONFIG_DIR")(usual)


def _for_claude_code(event: str, script: str) -> dict[str, Any]:
    # With `args` it is run without a shell. Never "async": `claude -p` ends without its SessionEnd hooks,
    # those of others too, while such a hook runs (seen with 2.1.197).
    return {"type": "command", "command": script, "args": [], "timeout": 5}


def _for_codex(event: str, script: str) -> dict[str, Any]:
    # Codex says a line for each hook that it waits for. At the end of a session it waits for all.
    unwaited = {} if event == "SessionEnd" else {"async": True}
    return {"type": "command", "command": shlex.quote(script), "timeout": 3} | unwaited


def _for_gemini(event: str, script: str) -> dict[str, Any]:
    # The timeout is in milliseconds; that of the others is in seconds.
    return {"name": "clew", "type": "command", "command": shlex.quote(script), "timeout": 3000}


AGENTS: Final[dict[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            title="Claude Code",
            program="claude",
            directory=_moved("CLAUDE_CONFIG_DIR", ".claude"),
            file="settings.json",
            events=("SessionStart", "Stop", "SubagentStop", "PreCompact", "SessionEnd"),
            handler=_for_claude_code,
        ),
        Agent(
            name="codex",
            title="Codex",
            program="codex",
            directory=_moved("CODEX_HOME", ".codex"),
            file="hooks.json",
            events=("SessionStart", "Stop", "SubagentStop", "PreCompact", "SessionEnd"),
            handler=_for_codex,
            note="Codex runs new hooks only when you trust them: type /hooks in Codex, then t",
        ),
        Agent(
            name="gemini-cli",
            title="Gemini CLI",
            program="gemini",
            directory=_gemini,
            file="settings.json",
            events=("SessionStart", "AfterAgent", "SessionEnd"),
            handler=_for_gemini,
            takes_comments=True,
        ),
        Agent(
            name="opencode",
            title="OpenCode",
            program="opencode",
            directory=_opencode,
            file="plugins/clew.js",
            events=("session.created", "session.idle", "session.compacted", "session.deleted"),
            handler=None,
        ),
        Agent(
            name="pi",
            title="pi",
            program="pi",
            directory=_moved("PI_CODING_AGENT_DIR", ".pi", "agent"),
            file="extensions/clew.ts",
            events=("session_start", "agent_end", "session_compact", "session_tree", "session_shutdown"),
            handler=None,
        ),
    )
}
