"""`search_sessions`: messages that have all words of a query."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.search_text import searched_text
from clew.core.messages.words import Query, parse
from clew.core.search.excerpt import excerpt
from clew.errors import CorruptError
from clew.model.search import Hit, SearchPage
from clew.server.mcp.budget import fitting
from clew.server.mcp.current import own_sessions
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.text import Text
from clew.server.mcp.view import HERE, Scope, View, place_in

SNIPPET: Final = 300
"""Letters of a hit."""
MOST_PAGES: Final = 20
"""Pages that are read to fill one answer, if most hits are in the caller's own session."""
MOST_CHILDREN: Final = 200

Short = Annotated[str, Meta(max_length=400)]
Cursor = Annotated[str, Meta(max_length=4096, description="next of the page before")]
Role = Literal["user", "assistant", "tool", "any"]


class SearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[
        str, Meta(min_length=2, max_length=400, description='words, "a phrase", prefix*, -without')
    ]
    role: Role = "any"
    workspace: Annotated[Short, Meta(description="here, all or a directory")] = HERE
    tag: Short | None = None
    since: Annotated[Short | None, Meta(description="2026-11-01, 12h, 7d")] = None
    until: Short | None = None
    tools: Annotated[bool, Meta(description="also calls and results of tools")] = False
    order: Literal["best", "newest"] = "best"
    limit: Annotated[int, Meta(ge=1, le=30)] = 8
    cursor: Cursor | None = None
    include_current: bool = False


class FoundMessage(msgspec.Struct, kw_only=True):
    place: str
    title: str | None
    agent: str | None
    role: str
    at: str
    snippet: str
    on_path: bool
    in_tool: bool
    in_note: bool


class SearchAnswer(Answer, kw_only=True):
    hits: list[FoundMessage]
    next: str | None = None
    excluded_current: int = 0
    """Hits in the caller's own session, which were left out."""


class _Found(msgspec.Struct):
    hits: list[Hit]
    cursor: str | None
    excluded: int


def search(view: View, args: SearchArguments) -> SearchAnswer:
    text, query = view.text(), parse(args.query)
    scope = view.scope(args.workspace, () if args.tag is None else (args.tag,))
    if scope is None:
        return SearchAnswer(hits=[])
    own = frozenset() if args.include_current else _own(view)
    found = _collected(view, args, scope, own, args.limit)
    shown = fitting([_shown(view, text, query, hit) for hit in found.hits])
    if len(shown) < len(found.hits):  # ask again for so many, so that the next page begins behind them
        found = _collected(view, args, scope, own, len(shown))
    return SearchAnswer(
        hits=shown, next=found.cursor, excluded_current=found.excluded, redacted=text.redacted
    )


def _own(view: View) -> frozenset[str]:
    """The caller's own sessions, with their subagents."""
    found = {info.id for info in own_sessions(view)}
    for id in tuple(found):
        found |= {info.id for info in view.store.list(parent=id, limit=MOST_CHILDREN)}
    return frozenset(found)


def _collected(view: View, args: SearchArguments, scope: Scope, own: frozenset[str], limit: int) -> _Found:
    """So many hits outside of the caller's own sessions, and where to go on behind the last of them."""
    found = _Found([], args.cursor, 0)
    for _ in range(MOST_PAGES):
        page = _page(view, args, scope, limit - len(found.hits), found.cursor)
        for hit in page:
            if hit.session in own:
                found.excluded += 1
            else:
                found.hits.append(hit)
        found.cursor = page.cursor
        if page.cursor is None or len(found.hits) == limit:
            break
    return found


def _page(view: View, args: SearchArguments, scope: Scope, limit: int, cursor: str | None) -> SearchPage:
    return view.store.search(
        args.query,
        role=None if args.role == "any" else args.role,
        workspace=scope.workspace,
        tag=scope.tags or None,
        since=view.moment(args.since, "since"),
        until=view.moment(args.until, "until"),
        tools=args.tools,
        order=args.order,
        limit=limit,
        cursor=cursor,
    )


def _shown(view: View, text: Text, query: Query, hit: Hit) -> FoundMessage:
    info = view.find(hit.session).info
    return FoundMessage(
        place=place_in(hit.session, hit.entry_id),
        title=text.title(hit.title),
        agent=text.title(info.agent),
        role=hit.role,
        at=hit.at.isoformat(timespec="seconds"),
        snippet=_snippet(view, text, query, hit),
        on_path=hit.on_path,
        in_tool=hit.in_tool,
        in_note=hit.in_note,
    )


def _snippet(view: View, text: Text, query: Query, hit: Hit) -> str:
    """The words around the hit. They are cut out of the whole message anew, when its secrets are gone: the
    library's snippet may begin or end in the middle of one."""
    whole = _whole(view, hit)
    if whole is None:
        return text.line(hit.snippet, SNIPPET)
    clean = text.clean(whole)
    found = excerpt(clean, query.wanted) if query.wanted else None
    return text.line(clean if found is None else found.text, SNIPPET)


def _whole(view: View, hit: Hit) -> str | None:
    """All of the text in which a hit is. None: it is gone, or cannot be read any more."""
    session = view.store.find(hit.session)
    if session is None:
        return None
    try:
        entry = next(session.entries(at=hit.entry_id, last=1), None)
        if entry is None:
            return None
        if hit.in_note:
            note = entry.annotations.get("note")
            return note if isinstance(note, str) else None
        said = searched_text(entry.message, NOT_HUMAN if entry.injected else 0)
    except CorruptError:
        return None
    return said.tool if hit.in_tool else said.said


SEARCH_SESSIONS: Final = Tool(
    name="search_sessions",
    description="Find messages and notes of earlier sessions. Read around a hit: read_session(place).",
    arguments=SearchArguments,
    answer=SearchAnswer,
    run=search,
)
