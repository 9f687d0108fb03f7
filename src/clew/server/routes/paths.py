"""Paths as a whole: the outline of one, and where two of them part."""

from __future__ import annotations

from clew.server.call import Call
from clew.server.routing import Routes
from clew.server.wire.paths import OutlineQuery, OutlineView

routes = Routes()


@routes.get("/sessions/{id}/outline", answer=OutlineView)
def outline(call: Call, id: str, query: OutlineQuery) -> OutlineView:
    """The prompts of people, compactions and checkpoints on the whole path, a line for each.

    A checkpoint comes behind the entry at which it was set, with its name as the text, and with the id of its
    snapshot if it holds files.
    """
    session = call.session(id)
    found = session.outline(at=call.point_of(session, query.at))
    return OutlineView(data=list(found.items), entries=found.entries, head=found.head)
