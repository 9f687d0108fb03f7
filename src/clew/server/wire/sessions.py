"""Sessions on the wire."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

import msgspec

from clew.model import AgentState, FamilyUsage, Json, SessionInfo, Status, StatusChange
from clew.model.agent_state import states_of
from clew.server.process.settings import MOST_LISTED
from clew.server.wire.streams import Money
from clew.server.wire.times import Moment

Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED)]
Duration: TypeAlias = timedelta | float
"""Seconds, or a duration of ISO 8601, as `PT30M`."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What a session and its subagents have used."""

    cost: Decimal | None
    """In dollars, as text; null: the cost of no call is known."""
    input_tokens: int
    output_tokens: int
    total_tokens: int
    calls: int
    unpriced: int
    """Calls whose cost is not known: `cost` lacks them."""


class StateFrom(msgspec.Struct, frozen=True):
    """How a session stands with its agent, from a moment on."""

    state: AgentState | None
    """null: the files of the agent do not tell."""
    since: datetime


class ListedSession(SessionInfo, frozen=True, kw_only=True):
    """A session as it is listed."""

    states: tuple[StateFrom, ...] | msgspec.UnsetType = msgspec.UNSET
    """How it stands with its agent, from each of these moments on, if the agent writes nothing more: the last
    that has come is the present state. Left out if the files of the agent tell nothing."""
    usage: Used | msgspec.UnsetType = msgspec.UNSET
    """With `usage=true`: what it and its subagents, at any depth, have used together."""
    subagents: int | msgspec.UnsetType = msgspec.UNSET
    """With `usage=true`: how many these are, without those in the trash."""
    forks: int | msgspec.UnsetType = msgspec.UNSET
    """With `usage=true`: how many forks and copies it has, and these have, without those in the trash. A fork
    says where it began in `forked_from`, a copy in the metadata `copied_from`."""


def listed(info: SessionInfo, used: FamilyUsage | None = None, forks: int = 0) -> ListedSession:
    """A session as lists give it."""
    found = ListedSession(
        **{name: getattr(info, name) for name in SessionInfo.__struct_fields__},
        states=tuple(StateFrom(state, since) for state, since in states_of(info)) or msgspec.UNSET,
    )
    if used is None:
        return found
    shown = Used(
        cost=None if used.calls == used.unpriced else used.cost,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
        calls=used.calls,
        unpriced=used.unpriced,
    )
    return msgspec.structs.replace(found, usage=shown, subagents=used.subagents, forks=forks)


class SessionPage(msgspec.Struct, frozen=True):
    """Some sessions, newest activity first."""

    data: tuple[ListedSession, ...]
    cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""


class SessionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    status: Status | None = None
    workspace: str | None = None
    """The directory that they work in."""
    project: str | None = None
    """The name of that directory: the last part of its path."""
    tag: tuple[str, ...] = ()
    """Repeat it: only those that have all of these."""
    where: str | None = None
    """A JSON object: only those whose metadata has these values at its top level. `where.NAME=VALUE` is
    the same for one text."""
    where_values: dict[str, str] = msgspec.field(name="where.*", default_factory=dict)
    """`where.customer=acme`."""
    agent: str | None = None
    """The program that writes them, as `claude-code`."""
    model: str | None = None
    """Their setting `model`."""
    parent: str | None = None
    """Only subagents of this session."""
    subagents: bool = True
    """false: without subagents whose parent is in the store."""
    min_cost: Money | None = None
    """Only those that cost so many dollars or more, together with their subagents. Slow where few do."""
    since: Moment | None = None
    """Active at this time or later; of sessions in the trash: deleted."""
    until: Moment | None = None
    """Active before this time."""
    deleted: bool = False
    """The trash instead."""
    usage: bool = False
    """Tell what each of them and its subagents have used, and how many forks it has."""
    limit: Limit = 50
    cursor: str | None = None


class SessionUsageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to tell of a session."""

    usage: bool = False
    """Also what it and its subagents have used, and how many forks it has. Not told to a share."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new session gets."""

    title: str | None = None
    """Without one, the first words of the user are shown."""
    workspace: str | None = None
    """The directory that the session works in."""
    tags: tuple[str, ...] = ()
    vendor: str | None = None
    endpoint: str | None = None
    model: str | None = None
    metadata: dict[str, Json] = {}
    """A JSON object of your own; lists filter by its top level."""
    expires_at: datetime | None = None
    """When the session ends, with a time zone."""
    never_expires: bool = False
    """No rule of the store ends it."""
    idle_timeout: Duration | None = None
    """How long it may be without activity before it ends: seconds, or a duration as `PT30M`."""
    created_at: datetime | None = None
    """For sessions that are brought over from elsewhere; null: now."""

    def given(self) -> dict[str, Any]:
        """As the library takes them."""
        found = {name: getattr(self, name) for name in SETTINGS}
        if self.never_expires:
            found["expires_at"] = "never"
        return found


class NewSession(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to be made."""

    id: str | None = None
    """Null: one that sorts by time."""


class SessionPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A merge patch (RFC 7396): what is not named stays, null takes away."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    """null brings the agent's own title back, or the automatic one."""
    workspace: str | msgspec.UnsetType | None = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    """All of them: a list is not merged."""
    vendor: str | msgspec.UnsetType | None = msgspec.UNSET
    endpoint: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Json] | msgspec.UnsetType | None = msgspec.UNSET
    """Merged field by field, at every depth."""
    expires_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    never_expires: bool | msgspec.UnsetType | None = msgspec.UNSET
    idle_timeout: Duration | msgspec.UnsetType | None = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """As the library takes them; metadata are still to be merged."""
        found = {name: value for name in SETTINGS if (value := getattr(self, name)) is not msgspec.UNSET}
        if self.never_expires is True:
            found["expires_at"] = "never"
        elif self.never_expires is not msgspec.UNSET:
            found.setdefault("expires_at", None)
        return found


SETTINGS = (
    "title", "workspace", "tags", "vendor", "endpoint", "model", "metadata", "expires_at", "idle_timeout",
)  # fmt: skip


class DeleteQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to delete a session."""

    purge: bool = False
    """Remove it for good, from the trash too. Needs the scope admin."""
    force: bool = False
    """Also while a worker holds its lease."""
    deleted: bool = False
    """With `purge`: only what is in the trash."""


class AliasQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to give a session another id."""

    move: bool = False
    """Take the alias away from the session that has it."""


class NamedSession(msgspec.Struct, frozen=True):
    """A session by its names."""

    id: str
    short_id: str
    """As lists of `clew ls` show it: a text that means this session alone."""
    title: str | None


class Aliases(msgspec.Struct, frozen=True):
    """The other ids of a session."""

    data: tuple[str, ...]


class StatusChanges(msgspec.Struct, frozen=True):
    """Every change of status, oldest first."""

    data: list[StatusChange]


class StartedWork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Work that begins."""

    request: Json = None
    """What is asked for; kept with the run."""
    task: str | None = None
    """What kind of work it is."""
