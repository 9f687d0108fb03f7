"""The command with which an agent goes on with a session: `cd ~/shop && claude --resume ID`.

Nothing is started or written here. What the agent itself has is gone on with by its own command; what was
forked, rewound or continued in Clew is not in the agent's files: `clew resume` writes a copy for it.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from clew.core.log.records import origin_of
from clew.core.messages.shell import quoted, typed
from clew.exporters.programs.resuming import AGENTS
from clew.model import SessionInfo

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
CLEW: Final = "clew"
_HERE: Final = "--directory . "
"""The option of `clew resume` for a session whose directory is gone."""


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


def own_command(info: SessionInfo) -> Own | None:
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


def is_fork(info: SessionInfo) -> bool:
    """Whether it was forked here: the agent does not know it."""
    return info.forked_from is not None and (not info.id.partition(":")[1] or "#fork" in info.id)


def resume_of(
    info: SessionInfo,
    *,
    is_changed: bool = False,
    is_gone: bool = False,
    is_lost: bool = False,
    at: str | None = None,
    clew: str = CLEW,
) -> Resume:
    """The command that goes on with a session, in the directory where it worked.

    Args:
        info: The session.
        is_changed: It does not stand where its agent left it.
        is_gone: The agent does not have its file any more.
        is_lost: The directory where it worked is gone.
        at: Go on from this place, not from where it stands.
        clew: What Clew is called by, with the store if it has to be named.
    """
    return _checked(_resume_of(info, is_changed, is_gone, is_lost, at, clew))


def _resume_of(
    info: SessionInfo, is_changed: bool, is_gone: bool, is_lost: bool, at: str | None, clew: str
) -> Resume:
    own = own_command(info)
    is_own = at is None and not is_lost
    if own is not None and is_own and (own.is_subagent or not (is_changed or is_gone)):
        note = "This is a subagent: its parent goes on." if own.is_subagent else ""
        return Resume(in_shell(own.words, directory_of(info)), note)
    agent = info.agent or (info.id.partition(":")[0] if ":" in info.id else None)
    again = f"{clew} resume {_HERE if is_lost else ''}{typed(_place(info, at))}"
    lost = f"The directory of the session is gone: {directory_of(info)}. " if is_lost else ""
    if agent is None:
        return Resume(None, f"{lost}No agent is known that wrote it; {again} --in codex goes on in Codex.")
    if agent not in AGENTS or (own is None and not is_fork(info)):
        why = f"{lost}No command is known with which {agent} goes on with it"
        return Resume(None, f"{why}; {again} --in codex goes on in Codex.")
    gets = f"{agent} gets a copy of it, under an id of its own."
    if is_lost:
        return Resume(again, f"{lost}Run this where it should continue: {gets}")
    if at is not None:
        return Resume(again, f"It goes on from there: {gets}")
    if own is not None and not is_changed:
        return Resume(again, f"The file of {agent} is not there: {gets}")
    what = "was changed" if own is not None else "is a fork that was made"
    return Resume(again, f"It {what} in Clew: {gets}")


def resumes_in(
    info: SessionInfo, *, is_lost: bool = False, at: str | None = None, clew: str = CLEW
) -> dict[str, str]:
    """For each agent that can go on with any session, the command with which it gets a copy of this one.
    `is_lost`: the directory where it worked is gone."""
    place = (_HERE if is_lost else "") + typed(_place(info, at))
    found = {agent: Resume(f"{clew} resume --in {agent} {place}") for agent in AGENTS}
    return {agent: one.command for agent, one in found.items() if _checked(one).command and one.command}


def clew_in(location: str | None) -> str:
    """What Clew is called by, so that it works on the store at this place; None: on the user's own."""
    return CLEW if location is None else f"{CLEW} --store {quoted(location)}"


def directory_of(info: SessionInfo) -> str | None:
    """Where the session worked."""
    return info.workspace_given or info.workspace


def _place(info: SessionInfo, at: str | None) -> str:
    return info.id if at is None else f"{info.id}@{at}"


def _checked(found: Resume) -> Resume:
    """What is copied goes to a terminal: characters that act there would act before anybody has read them. A
    line feed stands within quotes, and does not."""
    if found.command is None or found.command.replace("\n", "").isprintable():
        return found
    return Resume(
        None, "There is no command: the id or the directory holds characters that act on a terminal."
    )


def in_shell(words: list[str], directory: str | None) -> str:
    """A command for a shell, run in a directory."""
    command = " ".join(quoted(word) for word in words)
    return f"cd {_directory(directory)} && {command}" if directory else command


def own_file(info: SessionInfo) -> str | None:
    """The file of the agent that a session was imported from, if it is still there."""
    origin = origin_of(info.metadata)
    path = origin.path if origin is not None else ""
    return path if path and os.path.isabs(path) and os.path.exists(path) else None


def has_directory(info: SessionInfo) -> bool:
    """Whether the directory where the session worked is there, or none is known."""
    directory = directory_of(info)
    return directory is None or os.path.isdir(directory)


def _directory(path: str) -> str:
    return f"-- {quoted(path)}" if path.startswith("-") else quoted(path)
