"""Who calls, and what that caller may do. Pure: how a caller is recognised is decided in `sign_in.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from clew.core.conversation.sessions import normalised
from clew.core.log.grants import SCOPES, Scope
from clew.core.log.records import MADE_BY
from clew.model import SessionInfo
from clew.server.problems import Problem

if TYPE_CHECKING:
    from clew.server.routing import Route

__all__ = ["NOBODY", "OWNER", "SCOPES", "Kind", "Principal", "Scope", "with_lesser"]

Kind: TypeAlias = Literal["nobody", "owner", "token", "share"]

_INCLUDES: Final[dict[Scope, tuple[Scope, ...]]] = {
    "read": ("read",),
    "write": ("read", "write"),
    "admin": ("read", "write", "admin"),
    "files": ("files",),
    "store": ("read", "write", "admin", "files", "store"),
}

_OF_SESSIONS: Final = ("/api/v1/sessions/{id}", "/v1/conversations/{")
"""Routes of one session, which is looked at before."""
_FILTERED: Final = frozenset(
    {
        "/api/v1/compare",
        "/api/v1/facets",
        "/api/v1/interrupted",
        "/api/v1/latest",
        "/api/v1/live",
        "/api/v1/login/codes",
        "/api/v1/me",
        "/api/v1/names/{text}",
        "/api/v1/search",
        "/api/v1/sessions",
        "/api/v1/usage",
        "/api/v1/diff",
        "/api/v1/snapshots/{id}",
        "/api/v1/snapshots/{id}/files",
        "/api/v1/snapshots/{id}/files/{path*}",
        "/mcp",
        "/v1/conversations",
    }
)
"""Routes that filter by workspace and tags in their query."""


def with_lesser(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """The scopes with those that they include: admin has write, write has read. `files` is apart, and `store`
    has all of them: it opens the rows of the store, and whoever has these can do whatever the others can."""
    return frozenset(one for scope in scopes for one in _INCLUDES[scope])


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """One caller. Nothing in it is a secret: it may be logged."""

    id: str
    """What limits, keys and cookies know it by: "own", or the id of a token or a share."""
    name: str
    kind: Kind
    scopes: frozenset[Scope] = frozenset()
    workspace: str | None = None
    """Only sessions that work there."""
    tags: tuple[str, ...] = ()
    """Only sessions that have all of these."""
    session: str | None = None
    """Of a share: the one session."""
    head: str | None = None
    """Of a share: the id of the entry up to which it is shared. None: live."""
    title: str | None = None
    """Of such a share: the title that the session had when it was made. None: its messages give it one."""
    redact: bool = False
    """Whatever this caller is told passes the redactor."""
    by_cookie: bool = False
    """A browser sent the cookie by itself; so it has to show that a page of ours meant it."""
    expires: int | None = None
    """In microseconds since 1970. None: it does not."""
    cookie: str = ""
    """Which cookie it was, by its number: one that is signed out ends what it began."""
    era: int = 0
    """Of the owner: how often the own token was made anew when it was read."""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    @property
    def is_bound(self) -> bool:
        """Not all sessions are this caller's to see: lists and searches are filtered in their queries."""
        return self.workspace is not None or bool(self.tags) or self.session is not None

    def sees(self, info: SessionInfo) -> bool:
        """Whether a session is this caller's to see. A caller who may not is told that there is none."""
        return (
            (self.session is None or info.id == self.session)
            and (self.workspace is None or info.workspace == self.workspace)
            and set(self.tags) <= set(info.tags)
        )

    def within(
        self, workspace: str | None, tags: Iterable[str] = ()
    ) -> tuple[str | None, tuple[str, ...]] | None:
        """The filters of a query, with what binds this caller. None: no session fits both."""
        if self.workspace is not None:
            if workspace is not None and normalised(workspace) != self.workspace:
                return None
            workspace = self.workspace
        return workspace, tuple(dict.fromkeys((*self.tags, *tags)))

    def former_key(self, key: str) -> str:
        """An Idempotency-Key as older versions of Clew stored it."""
        return key if self.kind == "owner" else f"{self.id}:{key}"

    # -- what it makes of sessions: a bound caller puts none where it does not see it any more, nor into a
    # workspace or a tag beyond its own, where others would meet it

    def new_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings for a session that this caller makes: with its workspace, its tags and its mark."""
        if not self.is_bound:
            return dict(settings)
        given = dict(settings)
        if given.get("workspace") is not None:
            self._check_workspace(given["workspace"], None)
        self._check_tags(given.get("tags") or ())
        return given | {
            "workspace": self.workspace,
            "tags": list(self.tags),
            "metadata": {**(given.get("metadata") or {}), MADE_BY: self.id},
        }

    def changed_settings(self, before: SessionInfo, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that this caller gives to a session instead of those that it has. What others have put it
        into can stay."""
        given = dict(changes)
        if not self.is_bound:
            return given
        if "workspace" in given:
            self._check_workspace(given["workspace"], before.workspace)
        if "tags" in given:
            self._check_tags(given["tags"] or (), before.tags)
            if not set(self.tags) <= set(given["tags"] or ()):
                raise bound(f"this token works with the tags {', '.join(self.tags)} only", "keep these tags")
        if "metadata" in given:
            kept = {name: value for name, value in (given["metadata"] or {}).items() if name != MADE_BY}
            mark = {MADE_BY: before.metadata[MADE_BY]} if MADE_BY in before.metadata else {}
            given["metadata"] = kept | mark
        return given

    def _check_workspace(self, asked: str | None, before: str | None) -> None:
        wanted = None if asked is None else normalised(asked)
        if self.workspace is not None and wanted != self.workspace:
            raise bound(f"this token works in {self.workspace!r} only", "leave out `workspace`")
        if self.workspace is None and wanted not in (None, before):
            raise bound(f"this token puts no session into {asked!r}", "leave out `workspace`")

    def _check_tags(self, asked: Iterable[str], before: Iterable[str] = ()) -> None:
        beyond = [tag for tag in asked if tag not in {*self.tags, *before}]
        if beyond:
            raise bound(f"this token gives no session the tag {beyond[0]!r}", "leave out other tags")


def check_reach(principal: Principal, route: Route) -> None:
    """Refuse what is about the whole store to a caller who may see some sessions only. What is not named here
    is refused: so a new route shows nothing by mistake."""
    if route.path.startswith(_OF_SESSIONS) or route.path in _FILTERED:
        return
    raise bound(
        "this is about the whole store, and the token is bound to a workspace, or to tags",
        "use a token without these, or ask for one session",
    )


def bound(detail: str, next: str) -> Problem:
    return Problem(403, "bound", "This token is bound to some sessions", detail, next=next)


OWNER: Final = Principal(id="own", name="owner", kind="owner", scopes=with_lesser(SCOPES))
NOBODY: Final = Principal(id="", name="nobody", kind="nobody")
"""Who asks for what needs no token."""
