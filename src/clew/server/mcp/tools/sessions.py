"""`list_sessions`: newest activity first."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.model import Page, Status
from clew.server.mcp.budget import TOKENS, fitting, tokens
from clew.server.mcp.places import escaped
from clew.server.mcp.schema import Answer, Arguments, Tool
from clew.server.mcp.text import Text
from clew.server.mcp.tools.search import Cursor, Short
from clew.server.mcp.view import Scope, View
from clew.server.wire.listed import page_for


class ListArguments(Arguments, frozen=True, kw_only=True):
    workspace: Short | None = None
    status: Status | None = None
    agent: Short | None = None
    tag: Short | None = None
    since: Short | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 15
    cursor: Cursor | None = None


class ListedSession(msgspec.Struct, kw_only=True):
    id: str
    title: str | None
    agent: str | None
    status: str
    messages: int
    updated: str
    parent: str | None
    cost: float | None


class ListAnswer(Answer, kw_only=True):
    sessions: list[ListedSession]
    next: str | None = None
    note: str = ""
    """Of an empty answer: where was looked."""


def list_sessions(view: View, args: ListArguments) -> ListAnswer:
    scope = view.scope(args.workspace, () if args.tag is None else (args.tag,))
    if scope is None:
        return ListAnswer(sessions=[], note=view.nothing_in(None, view.text()))
    limit = args.limit
    while True:
        text, page = view.text(), _page(view, args, scope, limit)
        shown = _listed(view, text, page)
        is_empty = not shown and page.cursor is None and args.cursor is None
        note = view.nothing_in(scope, text) if is_empty else ""
        answer = ListAnswer(sessions=shown, next=page.cursor, redacted=text.redacted, note=note)
        if tokens(answer) <= TOKENS or limit == 1:
            return answer
        # Ask again for so many as fit, so that the next page begins behind them.
        limit = min(limit - 1, len(fitting(shown)))


def _page(view: View, args: ListArguments, scope: Scope, limit: int) -> Page:
    return page_for(
        view.store,
        view.seer,
        workspace=scope.workspace,
        tag=scope.tags or None,
        status=args.status,
        agent=view.known_agent(args.agent),
        since=view.moment(args.since, "since"),
        limit=limit,
        cursor=args.cursor,
        usage=True,
    )


def _listed(view: View, text: Text, page: Page) -> list[ListedSession]:
    return [
        ListedSession(
            id=escaped(info.id),
            title=text.title(info.title),
            agent=text.title(info.agent),
            status=info.status,
            messages=info.messages,
            updated=info.updated_at.isoformat(timespec="seconds"),
            parent=None if info.parent is None else view.shown_id(info.parent),
            cost=round(float(used.cost), 4) if used.calls else None,
        )
        for info, used in zip(page.sessions, page.usage, strict=True)
    ]


LIST_SESSIONS: Final = Tool(
    name="list_sessions",
    description="Sessions with their ids and titles, newest first.",
    arguments=ListArguments,
    answer=ListAnswer,
    run=list_sessions,
)
