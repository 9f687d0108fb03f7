"""Transcript lines in a session: each line once, in order, and what the lines say of the session.

The SDK folds the lines into a summary. It is kept as a document, with the place up to which it was folded: it
is valid for that place and for all entries behind it on the same branch. After a rewind or in a fork it is
folded again from the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from claude_agent_sdk import SessionKey, SessionStoreEntry, fold_session_summary

import clew
from clew.adapters.common import find_own, listed, open_own, session_id
from clew.core.messages.dialects import text_of
from clew.core.messages.text import snippet
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


# -- the summary

_DOCUMENT: Final = "summary"


def fold(session: clew.Session, place: Place, lines: list[Any], before: clew.Head) -> None:
    """Update the summary with lines that were just appended behind `before`."""
    kept = _kept(session, before)
    earlier = kept
    if kept is None and before.position >= 0:
        earlier = _folded(place.session, None, session.messages(at=before))
    data = _folded(place.session, earlier, lines)
    if kept is None or kept != data:
        head = session.head
        value = {"branch": head.branch, "position": head.position, "data": data}
        session.set_document(_DOCUMENT, json.dumps(value).encode())


def summary_of(session: clew.Session, name: str) -> dict[str, Any]:
    """The SDK's summary of a session at its head; only the SDK reads it."""
    kept = _kept(session, session.head)
    return _folded(name, None, session.messages()) if kept is None else kept


def _kept(session: clew.Session, head: clew.Head) -> dict[str, Any] | None:
    """The summary in the document, if it is valid for this head."""
    written = session.get_document(_DOCUMENT)
    value: dict[str, Any] = {} if written is None else json.loads(written)
    if value.get("branch") != head.branch or value["position"] > head.position:
        return None
    data: dict[str, Any] = value["data"]
    return data


def _folded(
    name: str, earlier: dict[str, Any] | None, lines: list[SessionStoreEntry] | Any
) -> dict[str, Any]:
    key: SessionKey = {"project_key": "", "session_id": name}
    before = None if earlier is None else {"session_id": name, "mtime": 0, "data": earlier}
    return fold_session_summary(before, key, lines)["data"]  # type: ignore[arg-type]


# -- lines

Line: TypeAlias = dict[str, Any]

_UUID: Final = "uuid/"
"""Documents: the position of the line with a uuid. They stay after a rewind: a uuid that comes twice is a
batch that was sent again, never a new turn."""
_EXACT: Final = "exact/"
"""Documents: lines with half of a surrogate pair, from a text that was cut, which the log cannot hold."""
_SHARED: Final = "shared"
"""A document of a fork: says that it has these two kinds for all lines that it shares with its base."""
_NOBODY: Final = "<synthetic>"
"""The model of messages that the program itself wrote."""
_SAID_BY: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "tag": "tag"}
_TITLE: Final = 60
_LONGEST_TITLE: Final = 500


def write_lines(store: clew.Store, place: Place, lines: list[Line]) -> None:
    """Append the lines that are new. Call it inside a transaction."""
    session = find_session(store, place)
    if session is None:
        session = _begin(store, place, lines)
        fresh = _first_of_each(lines)
    else:
        _know_shared(store, session)
        fresh = [line for line in _first_of_each(lines) if _position(session, line.get("uuid")) is None]
    if not fresh:
        return
    before = session.head
    for line, entry in zip(fresh, session.append(*fresh), strict=True):
        if (uuid := _name(line.get("uuid"))) is not None:
            session.set_document(uuid, b"%d" % entry.position)
        if entry.replaced:
            session.set_document(_EXACT + entry.id, json.dumps(line).encode())
    if place.subpath is None:
        fold(session, place, fresh, before)
    _describe(session, fresh)


def lines_of(store: clew.Store, place: Place) -> list[Line] | None:
    """The lines on the path to the head; None: there are none."""
    session = find_session(store, place)
    if session is None:
        return None
    exact = _exact(store, session)
    if not exact:
        return session.messages() or None
    said = (entry for entry in session.entries() if entry.kind == "message")
    return [
        json.loads(exact[_EXACT + entry.id]) if _EXACT + entry.id in exact else entry.message
        for entry in said
    ] or None


def _exact(store: clew.Store, session: clew.Session | None) -> dict[str, bytes]:
    """The lines that the log holds in another form; of a fork also those that it shares with its base."""
    found: dict[str, bytes] = {}
    while session is not None:
        found |= session.documents(_EXACT)
        base = session.info.forked_from
        session = None if base is None else store.find(base.session)
    return found


def entry_of(store: clew.Store, place: Place, uuid: str) -> str | None:
    """The id of the entry with this uuid, on any branch."""
    session = find_session(store, place)
    if session is None:
        return None
    known = _position(session, uuid)
    found = _shared_uuids(session).get(_name(uuid) or "") if known is None else int(known)
    if found is None:
        return None
    for branch in session.tree().branches:
        if branch.first <= found <= branch.last:
            (entry,) = session.entries(at=clew.Head(branch.id, found), last=1)
            if entry.kind == "message" and entry.message.get("uuid") == uuid:
                return entry.id
    return None


def _know_shared(store: clew.Store, session: clew.Session) -> None:
    """Give a fork the documents of the lines that it shares with its base, before the first write to it."""
    base = session.info.forked_from
    if base is None or session.get_document(_SHARED) is not None:
        return
    for name, content in _exact(store, session).items():
        session.set_document(name, content)
    for name, position in _shared_uuids(session).items():
        session.set_document(name, b"%d" % position)
    session.set_document(_SHARED, b"")


def _shared_uuids(session: clew.Session) -> dict[str, int]:
    """The positions of the lines that a fork shares with its base, by the names of their documents."""
    base = session.info.forked_from
    found: dict[str, int] = {}
    for entry in () if base is None or base.head.position < 0 else session.entries(at=base.head):
        name = _name(entry.message.get("uuid")) if entry.kind == "message" else None
        if name is not None:
            found[name] = entry.position
    return found


def _position(session: clew.Session, uuid: object) -> bytes | None:
    name = _name(uuid)
    return None if name is None else session.get_document(name)


def _name(uuid: object) -> str | None:
    """The document of a uuid; None for a line without one, which is always new."""
    return session_id(_UUID + uuid) if isinstance(uuid, str) and uuid else None


def _first_of_each(lines: list[Line]) -> list[Line]:
    seen: set[str] = set()
    fresh = []
    for line in lines:
        name = _name(line.get("uuid"))
        if name is None or name not in seen:
            fresh.append(line)
            seen.update(() if name is None else (name,))
    return fresh


# -- title, tag, model and directory, as the lines say


def _begin(store: clew.Store, place: Place, lines: list[Line]) -> clew.Session:
    cwd = next((line["cwd"] for line in lines if _text(line.get("cwd"))), None)
    asked = "" if place.subpath is None else next(filter(None, map(text_of, lines)), "")
    return open_session(store, place, workspace=cwd, title=snippet(asked, _TITLE) or None)


def _describe(session: clew.Session, lines: Iterable[Line]) -> None:
    """Give the session the title, tag and model of its transcript, for listings."""
    said: dict[str, str] = {}
    for line in lines:
        kind, message = line.get("type"), line.get("message")
        if kind == "assistant" and isinstance(message, dict):
            said["model"] = _text(message.get("model"))
        elif kind in _SAID_BY:
            said[kind] = _text(line.get(_SAID_BY[kind]))
    if not said:
        return
    info = session.info
    changes: dict[str, Any] = {}
    if said.get("model") not in (None, "", _NOBODY, info.model):
        changes["model"] = said["model"]
    is_named = info.title is not None and not info.title_is_auto
    title = said.get("custom-title") or ("" if is_named else said.get("ai-title"))
    if title and title != info.title:
        changes["title"] = title[:_LONGEST_TITLE]
    before = str(info.metadata.get("tag") or "")
    if said.get("tag", before) != before:
        tag = said["tag"]
        changes["tags"] = [*(one for one in info.tags if one != before), *filter(None, [tag])]
        changes["metadata"] = {**info.metadata, "tag": tag or None}
    if changes:
        with suppress(clew.InvalidError):  # a name that Clew refuses must not cost the lines
            session.update(**changes)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
