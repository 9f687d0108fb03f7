"""The store as one caller of the tools may see it, and what that caller may do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from clew.core.conversation.points import Point
from clew.core.conversation.sessions import normalised
from clew.core.log.grants import Scope as GrantScope
from clew.core.log.ids import is_id
from clew.errors import CheckpointNotFoundError, InvalidError, SessionNotFoundError
from clew.importers import READERS, agent_named
from clew.model import SessionInfo, times
from clew.server.access.principal import OWNER, Principal
from clew.server.call import check_own_point
from clew.server.mcp.places import escaped, points_of, split, unescaped
from clew.server.mcp.text import Text
from clew.session import Session
from clew.store import Store

HERE: Final = "here"
ALL: Final = "all"
CURRENT: Final = "current"


class Scope(NamedTuple):
    """Which sessions a question is about."""

    workspace: str | None
    tags: tuple[str, ...]


class Place(NamedTuple):
    """A session, and a point in it if one was named."""

    session: Session
    point: Point | None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What one caller may see and do."""

    store: Store
    principal: Principal = OWNER
    """Who asks: over HTTP the owner of a token, which may be bound to some sessions."""
    workspace: str | None = None
    """What `here` means: a directory with its links resolved. None: there is none, and `here` is `all`."""
    sees_all: bool = False
    """Sessions of other workspaces may be asked for. Else they are not there."""
    looks_everywhere: bool = False
    """A question that names no workspace is about all of them, not about `here`."""
    writes: bool = False
    """`checkpoint` and `remember` are offered."""
    takes_files: bool = False
    """A checkpoint may take a snapshot of the files of the workspace on this machine."""
    reveals: bool = False
    """Secrets are told."""
    client: str = ""
    """The name of the caller's program, as it says itself: untrusted."""
    session: str | None = None
    """The caller's own session, if it is known."""

    def text(self) -> Text:
        """For the texts of one answer."""
        return Text(reveals=self.reveals and not self.principal.redact)

    def may(self, scope: GrantScope) -> bool:
        """Whether tools that need this are offered. None are to whom one session was shared with."""
        is_allowed = self.principal.session is None and self.principal.may(scope)
        return is_allowed and (self.writes or scope != "write")

    # -- which sessions

    @property
    def seer(self) -> Principal:
        """The principal, bound to one workspace if others may not be asked for."""
        is_free = self.sees_all or self.workspace is None
        return self.principal if is_free else replace(self.principal, workspace=self.workspace)

    def scope(self, asked: str | None, tags: Iterable[str] = ()) -> Scope | None:
        """The filters for `here`, `all` or a directory; None: for what is meant without a word. None comes
        back if no session fits. InvalidError: it may not be asked for."""
        if asked is None:
            asked = ALL if self.looks_everywhere else HERE
        if asked == HERE:
            workspace = self.workspace
        elif asked == ALL:
            workspace = None
        else:
            workspace = normalised(asked)
        if workspace != self.workspace and not self.sees_all:
            raise InvalidError(
                f"this server shows the sessions of one directory only, not {asked!r}; ask for "
                f'workspace="here", or let the user start it with `clew mcp --all`'
            )
        found = self.principal.within(workspace, tags)
        return None if found is None else Scope(*found)

    def nothing_in(self, scope: Scope | None, text: Text) -> str:
        """Why an answer is empty: where was looked, and how to look further."""
        if scope is None:
            return "The token of this client reaches no such session."
        if scope.workspace is None:
            return "Nothing was found in the sessions of all directories."
        found = f"Nothing was found in the sessions of {text.line(scope.workspace)}."
        if self.principal.workspace is not None:
            return found
        if self.sees_all:
            return f'{found} Ask for workspace="all" to look in all directories.'
        return f"{found} To look in all directories, let the user start it with `clew mcp --all`."

    def known_agent(self, name: str | None) -> str | None:
        """The agent that a filter names, also by a short form."""
        return None if name is None else agent_named(name, READERS) or name

    def sees(self, info: SessionInfo) -> bool:
        """Whether a session is this caller's to see."""
        return self.principal.sees(info) and self.seer.sees(info)

    def find(self, id: str) -> Session:
        """By its whole id, or an alias, as answers write them. SessionNotFoundError: there is none that this
        caller may see."""
        found = self._seen(id)
        if found is None:
            raise SessionNotFoundError(id)
        return found

    def shown_id(self, id: str) -> str | None:
        """The id of a session as an answer names it. None: there is none that this caller may see."""
        found = self.store.find(id) if is_id(id) else None
        return escaped(found.id) if found is not None and self.sees(found.info) else None

    def _seen(self, text: str) -> Session | None:
        for id in dict.fromkeys((unescaped(text), text)):
            found = self.store.find(id) if is_id(id) else None
            if found is not None and self.sees(found.info):
                return found
        return None

    # -- places in them

    def place(self, text: str) -> Place:
        """A place as answers write it: `ID`, or `ID@` and an entry, a position or a checkpoint. An id may
        hold an @ itself. CheckpointNotFoundError: the session has no such point."""
        session, parts = self._seen(text), split(text)
        if session is not None:
            return Place(session, None)
        session = None if parts is None else self._seen(parts[0])
        if parts is None or session is None:
            raise SessionNotFoundError(text)
        for point in points_of(parts[1]):
            with suppress(CheckpointNotFoundError):
                check_own_point(session, point)
                return Place(session, point)
        raise CheckpointNotFoundError(session.id, parts[1])

    def moment(self, text: str | None, name: str) -> datetime | None:
        """A time as a caller writes it: `2026-11-01`, `12h`, `7d`. InvalidError: it is none."""
        if text is None:
            return None
        found = times.moment(text, datetime.now(UTC), UTC)
        if found is None:
            raise InvalidError(
                f"{name} is a day, a time or how long ago, as 2026-11-01, 12h or 7d; not {text!r}"
            )
        return found
