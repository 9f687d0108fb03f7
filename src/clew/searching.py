"""Search over all sessions of a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from clew.core.engine.engine import EngineLike
from clew.errors import CorruptError, DiskFullError, InvalidQueryError, ReadOnlyError

if TYPE_CHECKING:
    from clew.core.search.search import Request
    from clew.model.search import SearchOrder, SearchPage, SearchRole

MOST_HITS = 1000


class Searching:
    """What `Store` can find."""

    _scope: EngineLike

    def search(
        self,
        query: str,
        *,
        role: SearchRole | None = None,
        session: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        tag: str | Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tools: bool = False,
        order: SearchOrder = "newest",
        limit: int = 20,
        cursor: str | None = None,
    ) -> SearchPage:
        """Messages that have all words of a query; all that was appended before is found.

        Words in any order, `"a phrase"`, `prefix*`, `-without`; upper and lower case and accents are the
        same. Parts of identifiers, and of texts in scripts without spaces, are found too. What only
        sessions in the trash can show is not found; a message that several sessions share is found once.

        Args:
            role: Only what this one said: `user` is a human, not a tool's results, and not what an importer
                found to be said in his name: that is `other`.
            session: Only what this session can show, by id or alias.
            workspace: Only in sessions that work there.
            tag: Only in sessions with this tag, or all of these.
            since: Only what was said at this time or later.
            until: Only what was said before this time.
            tools: Also look at what tools were asked and answered.
            order: `newest` first, or the `best` of the newest 1,000 that match.
            limit: How many at most, up to 1,000.
            cursor: From the page before, of the same search.
        """
        request = _checked(
            query,
            role=role,
            session=session,
            workspace=workspace,
            tag=tag,
            since=since,
            until=until,
            tools=tools,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        try:
            return _page(self._scope, request, _caught_up(self._scope))
        except CorruptError:
            return _page(self._scope, request, False)  # the index may be what is damaged


def _caught_up(engine: EngineLike) -> bool:
    """Whether all is in the index; not so in a store that can not be written. Then all of it is read."""
    from clew.core.search.index import catch_up

    if engine.is_reading:
        return False
    try:
        catch_up(engine.read, engine.run)
    except (ReadOnlyError, DiskFullError):
        return False
    return True


def _page(engine: EngineLike, request: Request, is_indexed: bool) -> SearchPage:
    from clew.backends.text_scan import scan_texts
    from clew.core.search.search import Search

    with engine.read() as reader:
        find_texts = reader.find_texts if is_indexed else partial(scan_texts, reader)
        return Search(reader, request, find_texts).page()


def _checked(
    query: str,
    *,
    role: str | None,
    session: str | None,
    workspace: str | os.PathLike[str] | None,
    tag: str | Sequence[str] | None,
    since: datetime | None,
    until: datetime | None,
    tools: bool,
    order: SearchOrder,
    limit: int,
    cursor: str | None,
) -> Request:
    from clew.core.conversation.settings import normalised
    from clew.core.log.ids import check_id
    from clew.core.messages.search_text import ROLES
    from clew.core.messages.words import parse
    from clew.core.search.search import Request, read_cursor
    from clew.core.streams.usage import span_of

    if role is not None and role not in ROLES:
        raise InvalidQueryError(f"role is one of {', '.join(ROLES)}; not {role!r}")
    if order not in ("newest", "best"):
        raise InvalidQueryError(f"order is 'newest' or 'best', not {order!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_HITS:
        raise InvalidQueryError(f"limit must be a number from 1 to {MOST_HITS}, not {limit!r}")
    first, end = span_of(None, since, until)
    tags = () if tag is None else (tag,) if isinstance(tag, str) else tuple(tag)
    return Request(
        query=parse(query),
        limit=limit,
        order=order,
        tools=tools or role == "tool",
        role=None if role is None else ROLES.index(role),
        session=None if session is None else check_id(session),
        workspace=None if workspace is None else normalised(workspace),
        tags=tuple(check_id(name, "tag") for name in tags),
        since=first,
        until=end,
        cursor=None if cursor is None else read_cursor(cursor, is_ranked=order == "best"),
    )
