"""Which session holds which transcript: the keys of the Claude Agent SDK as ids and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import clew
from clew.adapters.common.sessions import find_own, listed, open_own, session_id
from clew.model import Json

FRAMEWORK: Final = "claude-agent-sdk"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Place(NamedTuple):
    """The key of a transcript: of a session, or, with a subpath, of a subagent."""

    project: str
    session: str
    subpath: str | None = None

    @classmethod
    def of(cls, key: Mapping[str, Any]) -> Place:
        return cls(key["project_key"], key["session_id"], key.get("subpath") or None)

    @property
    def id(self) -> str:
        return session_id(*(part for part in self if part is not None))

    @property
    def parent(self) -> str:
        return session_id(self.project, self.session)

    @property
    def metadata(self) -> dict[str, Json]:
        found: dict[str, Json] = {
            "framework": FRAMEWORK,
            "project_key": self.project,
            "session_id": self.session,
            "subpath": self.subpath,
        }
        return found if self.subpath is None else {**found, "parent": self.parent}


def open_session(
    store: clew.Store, place: Place, *, workspace: str | None = None, title: str | None = None
) -> clew.Session:
    """The session of a transcript, created if there is none."""
    try:
        return open_own(store, place.id, place.metadata, title=title, workspace=workspace, vendor="anthropic")
    except clew.InvalidError:
        if workspace is None:
            raise
        return open_session(
            store, place, title=title
        )  # a directory that Clew refuses must not cost the transcript


def find_session(store: clew.Store, place: Place) -> clew.Session | None:
    """The session of a transcript; None: there is none."""
    return find_own(store, place.id, FRAMEWORK)


class Listed(NamedTuple):
    """A session as the SDK lists it."""

    id: str
    name: str
    mtime: int
    """When it changed last, in milliseconds; the same in lists and in summaries."""


def sessions_in(store: clew.Store, project: str) -> list[Listed]:
    """The sessions of a project that hold something, without subagents; last active first."""
    found: list[Listed] = []
    last = 0
    infos = list(listed(store, {"framework": FRAMEWORK, "project_key": project, "subpath": None}))
    for info in reversed(infos):
        name = _name_of(info, project)
        if name is not None and info.messages:
            # The SDK sorts by these times: sessions that changed in the same millisecond keep their order.
            last = max(last + 1, (info.updated_at - _EPOCH) // _MILLISECOND)
            found.append(Listed(info.id, name, last))
    return found[::-1]


def subpaths_of(store: clew.Store, main: Place, *, deleted: bool = False) -> list[str]:
    """The subagents of a session, oldest first."""
    found = []
    for info in listed(store, {"framework": FRAMEWORK, "parent": main.parent}, deleted=deleted):
        subpath = str(info.metadata.get("subpath"))
        if main._replace(subpath=subpath).id == info.id:  # else it is a fork of one
            found.append((info.created_at, subpath))
    return [subpath for _, subpath in sorted(found)]


def deleted_subpaths_of(store: clew.Store, main: Place) -> list[str]:
    """The subagents of a session that are in the trash and have not been created again."""
    gone = dict.fromkeys(subpaths_of(store, main, deleted=True))
    return [subpath for subpath in gone if store.find(main._replace(subpath=subpath).id) is None]


def _name_of(info: clew.SessionInfo, project: str) -> str | None:
    """The SDK's name of a session. A fork has the metadata of its base, so its own id is read."""
    name = str(info.metadata.get("session_id"))
    if session_id(project, name) == info.id:
        return name
    name = unquote(info.id.rpartition("/")[2])
    return name if session_id(project, name) == info.id else None
