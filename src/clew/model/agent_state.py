"""How an imported session stands with its agent: from what the agent's files say, and the clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from clew.model.session import SessionInfo

Turn: TypeAlias = Literal["open", "ended"]
"""`open`: the agent has something to do, as a prompt or a tool call. `ended`: the next word is yours."""

AgentState: TypeAlias = Literal["working", "waiting", "idle", "stale"]
"""`working`: a turn is open, and something was written lately; or something was written just now.
`waiting`: the turn ended, and you are next.
`stale`: a turn is open, but nothing was written for STALE_AFTER: the agent asks for a permission, runs
something long, or died. `idle`: nothing was written for IDLE_AFTER."""

FRESH: Final = timedelta(minutes=1)
"""How long a write alone counts as work, where the files do not tell whether the turn is open."""
STALE_AFTER: Final = timedelta(minutes=15)
"""How long an open turn may write nothing. Longer than the 10 minutes that Claude Code lets a command run."""
IDLE_AFTER: Final = timedelta(hours=4)
"""How long a session counts as waiting or stale: whoever wants to answer does so within half a day's work."""


def states_of(info: SessionInfo) -> tuple[tuple[AgentState | None, datetime], ...]:
    """The states that a session goes through if its agent writes nothing more, each with its beginning.

    None stands for what the files do not tell. Empty: they tell nothing at all, or nobody waits for the
    session, as for a subagent or one that is closed.
    """
    branch = info.agent_branch
    silent = info.parent is not None or info.deleted_at is not None or info.status in ("closed", "expired")
    if branch is None or branch.written_at is None or silent or info.damaged:
        return ()
    at = branch.written_at
    if branch.turn is None:
        return ("working", at), (None, _after(at, FRESH))
    idle: tuple[AgentState, datetime] = "idle", _after(at, IDLE_AFTER)
    if branch.turn == "ended":
        return ("waiting", at), idle
    return ("working", at), ("stale", _after(at, STALE_AFTER)), idle


def state_at(info: SessionInfo, now: datetime) -> AgentState | None:
    """The state of a session at a moment; None: it has none."""
    states = states_of(info)
    begun = [state for state, since in states if since <= now]
    return begun[-1] if begun else states[0][0] if states else None


def _after(at: datetime, span: timedelta) -> datetime:
    try:
        return at + span
    except OverflowError:  # at the end of the calendar
        return at
