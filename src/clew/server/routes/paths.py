"""Paths as a whole: the outline of one, and where two of them part."""

from __future__ import annotations

from clew.model import Comparison
from clew.server.call import Call
from clew.server.routing import Routes
from clew.server.wire.paths import CompareQuery, OutlineQuery, OutlineView

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


@routes.get("/compare", answer=Comparison)
def compare(call: Call, query: CompareQuery) -> Comparison:
    """Where the paths of two sessions part, or two branches of one session.

    `common` is the last entry that both share, by its hash: copies and imports are recognised too. What each
    has behind it: `/sessions/ID/entries?at=ENTRY&after=POSITION`, with the entry of its `head` and the
    position of `common`. The files of both: `/diff?a=&b=` with the two `snapshot`.
    """
    a, b = call.session(query.a), call.session(query.b)
    return call.store.compare(
        a.id, b.id, a_at=call.point_of(a, query.a_at), b_at=call.point_of(b, query.b_at)
    )
