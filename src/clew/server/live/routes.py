"""The routes of streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec

from clew.errors import NotFoundError, SessionNotFoundError
from clew.model import Head
from clew.server.call import START, Answer, Call
from clew.server.live import sse
from clew.server.live.event_ids import NOWHERE, Vector, place_of
from clew.server.live.feed import Feed
from clew.server.live.store import Backlog
from clew.server.live.streams import Line, of_sessions, of_store, until_it_fails
from clew.server.routing import Routes
from clew.server.wire.entries import View
from clew.server.wire.views import viewer_of

MOST_SESSIONS: Final = 32
"""Of one stream."""
LAST_EVENT_ID: Final = "last-event-id"

routes = Routes()


class SessionLiveQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a stream begins."""

    after: str | None = None
    """The id of the last frame that was seen, or `start`; the header Last-Event-ID comes before it."""
    view: View = "raw"
    """How entries are given."""


class LiveQuery(SessionLiveQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which stream, and where it begins."""

    session: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_SESSIONS)] = ()
    """Follow these sessions, in one stream. None: the changes of the whole store."""


@routes.get("/sessions/{id}/live", slow=True, media_type=sse.MEDIA_TYPE)
def follow_session(call: Call, id: str, query: SessionLiveQuery) -> Answer:
    """Follow a session, as server-sent events.

    Frames: `entry` (an entry on the path), `moved` (the head left the path of what was sent: drop all behind
    the position `common`), `head` (the first one, unless the stream resumes), `status`, `damaged`, `gone`,
    `bye`. Send the id of the last frame as Last-Event-ID, or as `after`, to go on exactly behind it, however
    long ago that was; `after=start` begins with the first entry.
    """
    given = _given(call, query)
    feed = _feed(call, id, query.view, None if given is None else place_of(given))
    return _answer(call, of_sessions(_line(call), [feed]))


@routes.get("/live", slow=True, media_type=sse.MEDIA_TYPE)
def follow_store(call: Call, query: LiveQuery) -> Answer:
    """Follow the whole store, or several sessions in one stream, as server-sent events.

    Without `session`: first a frame `head` with a cursor, unless the stream resumes. Then a frame `change`
    for each session that was made or deleted, came back from the trash, went on, moved, used a model, or got
    another status, title, tag, metadata or other setting: with its `kind` ("created": no entry was written
    yet; "changed", "deleted"), where it stands now, and `info`, the session as a list with `usage=true` gives
    it. The id of a frame is a cursor of `watch`: what happened in the minute before it is told again. With
    `session`, once or several times: the frames of these sessions, as of one; their ids stand for all of
    them. Each stream ends with `bye`, which says why.
    """
    given = _given(call, query)
    if not query.session:
        backlog = None if given is None else Backlog(call.server.store._engine, given)
        return _answer(call, of_store(_line(call), call.server.store._engine, backlog))
    vector = None if given in (None, START) else Vector(given)
    feeds, gone = _feeds(call, query, vector, from_start=given == START)
    return _answer(call, of_sessions(_line(call), feeds, gone=gone, is_vector=True))


def _line(call: Call) -> Line:
    server = call.server
    server.hub.check_room(call.principal)
    return Line(server.hub, call.principal, server.in_thread, server.settings.heartbeat)


def _feeds(
    call: Call, query: LiveQuery, vector: Vector | None, *, from_start: bool
) -> tuple[list[Feed], list[str]]:
    """Those of the sessions that are there for this caller, each once, and the ids of the others."""
    feeds: dict[int, Feed] = {}
    gone: list[str] = []
    for id in query.session:
        try:
            feed = _feed(call, id, query.view, NOWHERE if from_start else None, vector)
        except NotFoundError:
            gone.append(id)
        else:
            feeds.setdefault(feed.sid, feed)
    if not feeds:
        raise SessionNotFoundError(query.session[0])
    return list(feeds.values()), gone


def _feed(call: Call, id: str, view: View, after: Head | None, vector: Vector | None = None) -> Feed:
    session = call.session(id)
    if vector is not None:
        after = vector.place(session.id)
    viewer = viewer_of(call, session, view, notes=call.principal.kind != "share")
    return Feed(call.server.store._engine, session._sid, session.id, call.principal, after, viewer.show)


def _given(call: Call, query: SessionLiveQuery) -> str | None:
    """What the client says that it has. An empty header is what a client sends that has nothing."""
    header = call.header(LAST_EVENT_ID)
    return header or query.after


def _answer(call: Call, stream: AsyncGenerator[bytes]) -> Answer:
    deadline = call.server.settings.stream_deadline
    return Answer(stream=until_it_fails(stream), headers=dict(sse.HEADERS), deadline=deadline)
