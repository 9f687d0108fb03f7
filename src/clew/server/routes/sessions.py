"""Sessions: list, make, look at."""

from __future__ import annotations

from urllib.parse import quote

from clew.model import SessionInfo
from clew.server.call import Answer, Call, head_tag
from clew.server.routing import Routes
from clew.server.wire.sessions import NewSession, SessionPage, SessionsQuery

routes = Routes()


@routes.get("/sessions", answer=SessionPage)
def list_sessions(call: Call, query: SessionsQuery) -> Answer:
    """List sessions, newest activity first."""
    page = call.store.list(
        status=query.status,
        workspace=query.workspace,
        tag=query.tag,
        agent=query.agent,
        parent=query.parent,
        subagents=query.subagents,
        since=query.since,
        until=query.until,
        deleted=query.deleted,
        limit=query.limit,
        cursor=query.cursor,
    )
    return Answer(value=SessionPage(page.sessions, page.cursor), headers=call.next_page(page.cursor))


@routes.post("/sessions", answer=SessionInfo, status=201)
def create_session(call: Call, body: NewSession) -> Answer:
    """Make a session."""
    made = call.store.create(
        body.id,
        title=body.title,
        workspace=body.workspace,
        tags=body.tags,
        vendor=body.vendor,
        endpoint=body.endpoint,
        model=body.model,
        metadata=body.metadata,
    )
    info = made.info
    place = call.url(f"/api/v1/sessions/{quote(info.id, safe='')}")
    return Answer(value=info, etag=head_tag(info.head), headers={"location": place})


@routes.get("/sessions/{id}", answer=SessionInfo)
def get_session(call: Call, id: str) -> Answer:
    """A session: counts, times, title, head, without its messages."""
    info = call.session(id).info
    return Answer(value=info, etag=f"W/{head_tag(info.head)}")
