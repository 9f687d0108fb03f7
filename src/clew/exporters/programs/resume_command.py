"""The command with which an agent goes on with a session: `cd ~/shop && claude --resume ID`.

Nothing is started or written here. What the agent itself has is gone on with by its own command; what was
forked, rewound or continued in Clew is not in the agent's files: `clew resume` writes a copy for it.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

import clew
from clew.cli.text import quoted
from clew.core.log.records import origin_of

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


class Own(NamedTuple):
    """How an agent goes on with a session of its own."""

    words: list[str]
    """The program and its arguments."""
    is_subagent: bool = False
    """It is the parent that goes on."""


def own_command(info: clew.SessionInfo) -> Own | None:
    """None: no agent is known that has this session."""
    format, colon, rest = info.id.partition(":")
    words = _COMMANDS.get(format) if colon else None
    if words is None:
        return None
    is_subagent = "/" in rest or info.parent is not None
    if info.parent is not None and info.parent.startswith(f"{format}:"):
        rest = info.parent.partition(":")[2]
    own = rest.partition("/")[0]
    if is_fork(info) or not own:
        return None
    if format == "codex":
        own = own.partition("_")[0]  # what follows names a file of the thread
    # An id is never taken for an option: `--resume=-x` would not be one of any agent.
    return None if own.startswith("-") else Own([*words, own], is_subagent)


def is_fork(info: clew.SessionInfo) -> bool:
    """Whether it was forked here: the agent does not know it."""
    return info.forked_from is not None and (not info.id.partition(":")[1] or "#fork" in info.id)


def resume_of(info: clew.SessionInfo, *, is_changed: bool = False) -> Resume:
    """The command that goes on with a session, in the directory where it worked. `is_changed`: it does not
    stand where its agent left it."""
    own = own_command(info)
    if own is not None and (own.is_subagent or not is_changed):
        note = "This is a subagent: its parent goes on." if own.is_subagent else ""
        return Resume(in_shell(own.words, info.workspace_given or info.workspace), note)
    agent = info.agent or (info.id.partition(":")[0] if ":" in info.id else None)
    again = f"clew resume {quoted(info.id)}"
    if agent is None:
        return Resume(None, f"No agent is known that wrote it; {again} --in codex goes on in Codex.")
    if own is None and not is_fork(info):
        why = f"No command is known with which {agent} goes on with it"
        return Resume(None, f"{why}; {again} --in codex goes on in Codex.")
    what = "was changed" if own is not None else "is a fork that was made"
    return Resume(again, f"It {what} in Clew: {agent} gets a copy of it, under an id of its own.")


def in_shell(words: list[str], directory: str | None) -> str:
    """A command for a shell, run in a directory."""
    command = " ".join(quoted(word) for word in words)
    return f"cd {_directory(directory)} && {command}" if directory else command


def own_file(info: clew.SessionInfo) -> str | None:
    """The file of the agent that a session was imported from, if it is still there."""
    origin = origin_of(info.metadata)
    path = origin.path if origin is not None else ""
    return path if path and os.path.isabs(path) and os.path.exists(path) else None


def _directory(path: str) -> str:
    return f"-- {quoted(path)}" if path.startswith("-") else quoted(path)
