"""Who calls, and what this caller may do."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from clew.model import SessionInfo
from clew.server.routing import Scope

PrincipalKind: TypeAlias = Literal["owner", "token", "share"]

INCLUDED: Final[dict[Scope, frozenset[Scope]]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"read", "write"}),
    "admin": frozenset({"read", "write", "admin"}),
    "files": frozenset({"files"}),
}
"""What each scope includes."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A caller that showed a token."""

    kind: PrincipalKind
    name: str
    """Of the token; for the log."""
    scopes: frozenset[Scope]
    workspace: str | None = None
    """Only sessions that work there."""
    tags: tuple[str, ...] = ()
    """Only sessions that have all of these."""
    session: str | None = None
    """Only this session."""
    head: str | None = None
    """Of a share: only the path to this entry; None: it follows the session."""
    redact: bool = False
    """Secrets are taken out of what it reads."""

    @property
    def is_bound(self) -> bool:
        """Whether it may see some sessions only."""
        return self.workspace is not None or bool(self.tags) or self.session is not None

    def may(self, scope: Scope) -> bool:
        return any(scope in INCLUDED[one] for one in self.scopes)

    def sees(self, info: SessionInfo) -> bool:
        """Whether a session is this caller's to see."""
        return (
            (self.session is None or self.session == info.id)
            and (self.workspace is None or self.workspace == info.workspace)
            and set(self.tags) <= set(info.tags)
        )

    def own_key(self, key: str) -> str:
        """An idempotency key of this caller: no other caller can ask for it."""
        return key if self.kind == "owner" else f"{self.name}\x1f{key}"


OWNER: Final = Principal(kind="owner", name="owner", scopes=frozenset({"admin", "files"}))
