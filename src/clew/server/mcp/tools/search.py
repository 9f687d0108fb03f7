"""`search_sessions`: messages that have all words of a query."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from clew.core.log.rows import NOT_HUMAN
from clew.core.messages.search_text import searched_text
from clew.core.messages.words import Query
from clew.core.search.excerpt import excerpt
from clew.core.search.search import Request, request_of
from clew.core.search.search import search as find
from clew.errors import CorruptError, NotFoundError, SessionNotFoundError
from clew.model.search import Hit
from clew.server.mcp.budget import TOKENS, fitting, tokens
from clew.server.mcp.current import own_sessions
from clew.server.mcp.places import place_in
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.text import SECRET, Text
from clew.server.mcp.view import Scope, View
from clew.session import Session

SNIPPET: Final = 300
"""Letters of a hit."""
MOST_COUNTED: Final = 30
"""Hits in the caller's own sessions that are counted."""
MOST_CHILDREN: Final = 200

Short = Annotated[str, Meta(max_length=400)]
Cursor = Annotated[str, Meta(max_length=4096, description="next of the page before")]
Role = Literal["user", "assistant", "tool", "any"]


class SearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[
        str, Meta(min_length=2, max_length=400, description='words, "a phrase", prefix*, -without')
    ]
    role: Role = "any"
    workspace: Annotated[Short | None, Meta(description="here, all or a directory")] = None
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
    """Hits in the caller's own sessions, which were left out: on the first page, and of many only some."""
    note: str = ""
    """Of an empty answer: where was looked."""


def search(view: View, args: SearchArguments) -> SearchAnswer:
    scope = view.scope(args.workspace, () if args.tag is None else (args.tag,))
    if scope is None:
        return SearchAnswer(hits=[], note=view.nothing_in(None, view.text()))
    own = () if args.include_current else _own(view)
    request = _request(view, args, scope)
    excluded = _count(view, request, own) if own and args.cursor is None else 0
    while True:
        text = view.text()
        page = find(view.store._engine, replace(request, without=own))
        shown = [one for hit in page if (one := _shown(view, text, request.query, hit)) is not None]
        is_empty = not shown and page.cursor is None and args.cursor is None
        note = view.nothing_in(scope, text) if is_empty else ""
        answer = SearchAnswer(
            hits=shown, next=page.cursor, excluded_current=excluded, redacted=text.redacted, note=note
        )
        if tokens(answer) <= TOKENS or request.limit == 1:
            return answer
        # Ask again for so many as fit, so that the next page begins behind them.
        request = replace(request, limit=min(request.limit - 1, len(fitting(shown))))


def _request(view: View, args: SearchArguments, scope: Scope) -> Request:
    return request_of(
        args.query,
        role=None if args.role == "any" else args.role,
        session=None,
        workspace=scope.workspace,
        tag=scope.tags or None,
        where=None,
        since=view.moment(args.since, "since"),
        until=view.moment(args.until, "until"),
        tools=args.tools,
        order=args.order,
        limit=args.limit,
        cursor=args.cursor,
    )


def _count(view: View, request: Request, own: tuple[str, ...]) -> int:
    try:
        return len(
            find(view.store._engine, replace(request, sessions=own, order="newest", limit=MOST_COUNTED))
        )
    except SessionNotFoundError:
        return 0  # one of them was deleted meanwhile


def _own(view: View) -> tuple[str, ...]:
    """The caller's own sessions, with their subagents, and theirs."""
    waiting = [info.id for info in own_sessions(view)]
    found: dict[str, None] = {}
    while waiting and len(found) < MOST_CHILDREN:
        id = waiting.pop()
        if id not in found:
            found[id] = None
            waiting += [info.id for info in view.store.list(parent=id, limit=MOST_CHILDREN)]
    return tuple(found)


def _shown(view: View, text: Text, query: Query, hit: Hit) -> FoundMessage | None:
    """None: its session was deleted meanwhile."""
    session = view.store.find(hit.session)
    if session is None or not view.sees(info := session.info):
        return None
    return FoundMessage(
        place=place_in(hit.session, hit.entry_id),
        title=text.title(hit.title),
        agent=text.title(info.agent),
        role=hit.role,
        at=hit.at.isoformat(timespec="seconds"),
        snippet=_snippet(text, query, _whole(session, hit)),
        on_path=hit.on_path,
        in_tool=hit.in_tool,
        in_note=hit.in_note,
    )


def _snippet(text: Text, query: Query, whole: str) -> str:
    """The words around the hit. They are cut out of the message anew, when its secrets are gone: the
    library's snippet may begin or end in the middle of one."""
    found = excerpt(whole, query.wanted) if query.wanted else None
    start = 0 if found is None else whole.find(found.text)
    around = text.clean(whole[max(start - SECRET, 0) : start + SNIPPET + SECRET])
    found = excerpt(around, query.wanted) if query.wanted else None
    return text.line(around if found is None else found.text, SNIPPET)


def _whole(session: Session, hit: Hit) -> str:
    """All of the text in which a hit is. Empty: it is gone, or cannot be read any more."""
    try:
        entry = next(session.entries(at=hit.entry_id, last=1), None)
        if entry is None:
            return ""
        if hit.in_note:
            note = entry.annotations.get("note")
            return note if isinstance(note, str) else ""
        said = searched_text(entry.message, NOT_HUMAN if entry.injected else 0)
    except (CorruptError, NotFoundError):
        return ""
    return said.tool if hit.in_tool else said.said


SEARCH_SESSIONS: Final = Tool(
    name="search_sessions",
    description="Find messages and notes of earlier sessions. Read around a hit: read_session(place).",
    arguments=SearchArguments,
    answer=SearchAnswer,
    run=search,
)
