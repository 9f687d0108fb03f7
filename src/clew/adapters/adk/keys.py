"""How ADK's names for a session become those of Clew, and back."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote

import clew
from clew.adapters.common.sessions import session_id
from clew.model import Json

ADK: Final = "adk"
"""The first part of every id. The parts that follow are one, two or three, so no two kinds of id meet."""

STATE_TAG: Final = "adk-state"
"""Of the sessions that hold nothing but the state of an app or a user: a retention rule should keep them."""


class Key(NamedTuple):
    """What ADK calls a session by."""

    app: str
    user: str
    session: str

    @property
    def id(self) -> str:
        return session_id(ADK, *self)

    @property
    def metadata(self) -> dict[str, Json]:
        return {**sessions_of(self.app, self.user), "session": self.session}


def sessions_of(app: str, user: str | None = None) -> dict[str, Json]:
    """The metadata that all sessions of an app, or of a user of it, have in common."""
    everybody: dict[str, Json] = {"framework": ADK, "kind": "session", "app": app}
    return everybody if user is None else {**everybody, "user": user}


def key_of(info: clew.SessionInfo) -> Key | None:
    """What ADK calls a listed session by. A fork has the metadata of its base, so its id tells.

    None: the id is no text that ADK could call it by.
    """
    app, user, session = (str(info.metadata.get(name, "")) for name in ("app", "user", "session"))
    key = Key(app, user, session)
    if key.id == info.id:
        return key
    start = session_id(ADK, app, user) + "/"
    if not info.id.startswith(start):
        return None
    key = Key(app, user, unquote(info.id.removeprefix(start)))
    return key if key.id == info.id else None


def state_of_app(app: str) -> tuple[str, dict[str, Json]]:
    """Id and metadata of the session that holds the state of an app."""
    return session_id(ADK, app), {"framework": ADK, "kind": "app", "app": app}


def state_of_user(app: str, user: str) -> tuple[str, dict[str, Json]]:
    return session_id(ADK, app, user), {"framework": ADK, "kind": "user", "app": app, "user": user}
