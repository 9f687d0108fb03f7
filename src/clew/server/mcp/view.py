"""The store as one caller of the tools may see it, and what that caller may do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from clew.core.conversation.points import Point
from clew.core.conversation.sessions import normalised
from clew.core.log.grants import Scope as GrantScope
from clew.errors import InvalidError, SessionNotFoundError
from clew.model import SessionInfo, times
from clew.server.access.principal import OWNER, Principal
from clew.server.call import check_own_point
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
        return Text(reveals=self.reveals)

    def may(self, scope: GrantScope) -> bool:
        """Whether tools that need this are offered."""
        return self.principal.may(scope) and (self.writes or scope != "write")

    # -- which sessions

    @property
    def is_bound(self) -> bool:
        """Some sessions are not this caller's to see."""
        return self.principal.is_bound or not self.sees_all

    def scope(self, asked: str, tags: Iterable[str] = ()) -> Scope | None:
        """The filters for `here`, `all` or a directory. None: no session fits. InvalidError: it may not be
        asked for."""
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

    def sees(self, info: SessionInfo) -> bool:
        """Whether a session is this caller's to see."""
        in_scope = self.sees_all or self.workspace is None or info.workspace == self.workspace
        return in_scope and self.principal.sees(info)

    def find(self, id: str) -> Session:
        """By its whole id, or an alias. SessionNotFoundError: there is none that this caller may see."""
        found = self.store.get(id)
        if not self.sees(found.info):
            raise SessionNotFoundError(id)
        return found

    # -- places in them

    def place(self, text: str) -> Place:
        """A place as answers write it: `ID`, or `ID@` and an entry, a position or a checkpoint. An id may
        hold an @ itself. CheckpointNotFoundError: the session has no such point."""
        session = self.store.find(text)
        if session is not None and self.sees(session.info):
            return Place(session, None)
        id, at, name = text.rpartition("@")
        if not at or not id or not name:
            raise SessionNotFoundError(text)
        session = self.find(id)
        point: Point = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else name
        check_own_point(session, point)
        return Place(session, point)

    def moment(self, text: str | None, name: str) -> datetime | None:
        """A time as a caller writes it: `2026-11-01`, `12h`, `7d`. InvalidError: it is none."""
        if text is None:
            return None
        found = times.moment(text, datetime.now(UTC), UTC)
        if found is None:
            raise InvalidError(
                f"{name} is a day, a time or how long ago, as 2026-11-01, 12h or 7d; not {text[:40]!r}"
            )
        return found


def place_in(session: str, entry: str) -> str:
    """How an answer names an entry."""
    return f"{session}@{entry}"
