"""The command with which an agent goes on with one of its own sessions: `cd ~/shop && claude --resume ID`.

Pure: nothing is started. What was forked or rewound in Clew is not in the agent's own files, so the note says
where the agent goes on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import clew
from clew.cli.text import quoted

_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "gemini-cli": ("gemini", "--resume"),
    "ggcode": ("ggcode", "--resume"),
    "goose": ("goose", "session", "--resume", "--session-id"),
    "llm": ("llm", "chat", "--cid"),
    "opencode": ("opencode", "-s"),
    "pi": ("pi", "--session"),
}
"""The words before the agent's own id of the session."""


class Resume(NamedTuple):
    """How to go on with a session."""

    command: str | None
    """For a shell: bash, zsh and fish take it as it is. None: there is none."""
    note: str = ""
    """What to know before, or why there is no command; may be empty."""


def resume_of(info: clew.SessionInfo) -> Resume:
    """The command that lets the agent of a session go on with it, in the directory where it worked."""
    format, colon, rest = info.id.partition(":")
    words = _COMMANDS.get(format) if colon else None
    if words is None:
        agent = info.agent or (format if colon else None)
        if agent is None:
            return Resume(None, "No agent is known that wrote this session; your program opens it by its id.")
        return Resume(None, f"No command is known with which {agent} goes on with a session.")
    is_subagent = "/" in rest or info.parent is not None
    if info.parent is not None and info.parent.startswith(f"{format}:"):
        rest = info.parent.partition(":")[2]
    own = rest.partition("/")[0]
    if info.forked_from is not None or not own:
        return Resume(None, f"This fork was made in Clew: {format} does not know it. clew export writes it.")
    if format == "codex":
        own = own.partition("_")[0]  # what follows names a file of the thread
    # An id is never taken for an option: `--resume=-x` would not be one of any agent.
    if own.startswith("-"):
        return Resume(None, f"{format} would take the id {own!r} for an option.")
    command = " ".join((*words, quoted(own)))
    if place := info.workspace_given or info.workspace:
        command = f"cd {_directory(place)} && {command}"
    return Resume(command, "This is a subagent: its parent goes on." if is_subagent else "")


def _directory(path: str) -> str:
    return f"-- {quoted(path)}" if path.startswith("-") else quoted(path)
