"""Search over the messages of all sessions."""

from __future__ import annotations

from clew.server.call import Answer, Call
from clew.server.routing import Routes
from clew.server.wire.search import HitPage, SearchQuery
from clew.server.wire.times import moment_of

routes = Routes()


@routes.get("/search", answer=HitPage)
def search(call: Call, query: SearchQuery) -> Answer:
    """Find messages that have all words of a query, in their text or in the note beside them.

    Upper and lower case and accents are the same; parts of identifiers, and of texts in scripts without
    spaces, are found too. All that was appended before is found. A message that several sessions share is
    found once; `copies` counts those that say the same. A note is the annotation `note` of an entry, if it is
    text. A token that is bound to some sessions finds what is
    in these.
    """
    filters = call.principal.within(query.workspace, query.tag)
    if filters is None:
        return Answer(value=HitPage((), None))
    if call.principal.is_bound:
        for id in query.session:
            call.session(id)  # one that is not the caller's to see is not there
    page = call.store.search(
        query.q,
        role=query.role,
        session=query.session or None,
        workspace=filters[0],
        project=query.project,
        tag=filters[1],
        agent=query.agent,
        model=query.model,
        since=moment_of(query.since, "since"),
        until=moment_of(query.until, "until"),
        tools=query.tools,
        order=query.order,
        limit=query.limit,
        cursor=query.cursor,
    )
    return Answer(value=HitPage(page.hits, page.cursor), headers=call.next_page(page.cursor))
