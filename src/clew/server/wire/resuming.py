"""How to go on with a session in an agent, on the wire."""

from __future__ import annotations

import msgspec


class ResumeCommandQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where."""

    at: str | None = None
    """Go on from this point, in a copy: a position, the name of a checkpoint or the id of an entry."""


class AgentCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command with which an agent goes on with a copy of the session."""

    agent: str
    command: str


class ResumeView(msgspec.Struct, frozen=True, kw_only=True):
    """How to go on with a session. Nothing is started or written before a person runs a command."""

    command: str | None
    """For a shell on the machine of the store; null: there is none."""
    directory: str | None
    """Where the session worked."""
    note: str
    """What to know before, or why there is no command; may be empty."""
    agents: list[AgentCommand]
    """Agents that can go on with any session: each gets a copy."""
