"""From a query to a page of hits: filters, visibility, rank, cursor."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from clew.backends.contract import STORE_WIDE, Reader
from clew.backends.rows import TAG, facets_of
from clew.backends.text_scan import scan_texts
from clew.core.conversation.annotations import Note
from clew.core.conversation.listing import Source, either, facets_wanted
from clew.core.conversation.points import find, path_of
from clew.core.conversation.sessions import filters
from clew.core.engine.engine import EngineLike
from clew.core.log import checks
from clew.core.log.ids import check_id, check_limit, check_time, entry_id
from clew.core.log.rows import MESSAGE, REMOVED, Details, SessionQuery, SessionRow
from clew.core.log.tree import Segment
from clew.core.messages.search_text import (
    ROLES,
    PageQuery,
    Searched,
    SearchTerm,
    TextPlace,
    TextQuery,
    searched_text,
)
from clew.core.messages.words import Query, Term, flat, parse
from clew.core.search.copies import Candidate, Copies
from clew.core.search.excerpt import Excerpt, beginning, excerpt
from clew.core.search.index import Tell, catch_up
from clew.core.search.matches import FindTexts, Match, matches
from clew.errors import CorruptError, DiskFullError, InvalidQueryError, ReadOnlyError, SessionNotFoundError
from clew.model import Head, Json, utc
from clew.model.search import Hit, SearchOrder, SearchPage
from clew.model.session import project_of

# ── Where a page of hits ended, as opaque text ────────────────────────────────────────────────────


class Cursor(NamedTuple):
    time: int
    branch: str
    position: int
    score: float | None
    """Of a page of the best; None: of the newest."""


_decode = msgspec.json.Decoder(Cursor).decode


def make_cursor(cursor: Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def read_cursor(text: str, *, is_ranked: bool) -> Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        cursor = _decode(base64.b64decode(padded, altchars=b"-_", validate=True))
        is_possible = -(2**63) <= cursor.time < 2**63 and 0 <= cursor.position < 2**32
        if not is_possible or "\0" in cursor.branch:
            raise ValueError(text)
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError, AttributeError) as exc:
        raise InvalidQueryError(f"{text!r} is no cursor of a search") from exc
    if is_ranked != (cursor.score is not None):
        raise InvalidQueryError(f"{text!r} is the cursor of a search in another order")
    return cursor


# ── How well a text fits a query: alike on every backend, so that no index ranks by rules of its own ───

_SATURATION: Final = 1.2
_BY_LENGTH: Final = 0.75
_USUAL_LENGTH: Final = 60
"""Words of a message that is neither short nor long."""


def score(query: Query, said: str, tool: str = "") -> float:
    """Higher is better: many hits in few words, each term counting for itself (BM25 for texts that all have
    all terms, where how rare a term is makes no difference)."""
    text = f" {flat(said)} \n {flat(tool)} "
    length = text.count(" ")
    text = text.replace(" ", "  ")  # so that a word that stands twice is counted twice
    norm = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length / _USUAL_LENGTH)
    points = 0.0
    for term in query.wanted:
        count = text.count(f" {'  '.join(term.words)}{'' if term.prefix else ' '}")
        points += count * (_SATURATION + 1) / (count + norm)
    return round(points, 6)


# ── Which session can show an entry that was found ────────────────────────────────────────────────


class Sight(NamedTuple):
    session: SessionRow
    on_path: bool


class Sightings:
    """Answers for one search: it remembers the sessions and paths that it has looked at."""

    def __init__(self, reader: Reader, may_show: Callable[[SessionRow], bool]) -> None:
        self._reader = reader
        self._may_show = may_show
        self._sessions: dict[int, SessionRow | None] = {}
        self._paths: dict[int, list[Segment]] = {}
        self._trees: dict[int, list[SessionRow]] = {}

    def sights(self, place: TextPlace) -> Iterator[Sight]:
        """The sessions on whose paths it is: its own first, then the oldest; then its own if it was rewound
        past it. Not those in the trash, nor such as are not asked for."""
        try:
            branch = self._reader.get_branch(place.branch)
        except (KeyError, CorruptError):
            return  # purged meanwhile, or damaged
        owner = self._session(branch.owner)
        is_on_path = owner is not None and self._is_on_path(owner, place)
        if owner is not None and is_on_path:
            yield Sight(owner, True)
        for other in self._relatives(branch.tree):
            if other.sid != branch.owner and self._is_on_path(other, place):
                yield Sight(other, True)
        if owner is not None and not is_on_path:
            yield Sight(owner, False)

    def noting(self, place: TextPlace, sids: Iterable[int]) -> Iterator[Sight]:
        """Of these sessions, which noted something there, those that may be shown, wherever they stand."""
        for sid in sids:
            row = self._session(sid)
            if row is not None and row.tree == self._reader.get_branch(place.branch).tree:
                yield Sight(row, self._is_on_path(row, place))

    def head_of(self, place: TextPlace) -> Head:
        return Head(self._reader.get_branch(place.branch).uid, place.position)

    def _session(self, sid: int) -> SessionRow | None:
        if sid not in self._sessions:
            try:
                row = self._reader.get_session(sid) if sid else None
            except CorruptError:
                row = None
            self._sessions[sid] = row if row is not None and self._is_shown(row) else None
        return self._sessions[sid]

    def _is_shown(self, row: SessionRow) -> bool:
        return row.deleted is None and self._may_show(row)

    def _relatives(self, tree: int) -> list[SessionRow]:
        if tree not in self._trees:
            try:
                relatives = self._reader.tree_sessions(tree)
            except CorruptError:
                relatives = []
            self._trees[tree] = [row for row in relatives if self._is_shown(row)]
        return self._trees[tree]

    def _is_on_path(self, row: SessionRow, place: TextPlace) -> bool:
        if row.sid not in self._paths:
            try:
                self._paths[row.sid] = path_of(self._reader, row.head)
            except CorruptError:  # a damaged session shows nothing; the others are found
                self._paths[row.sid] = []
        return any(
            part.branch == place.branch and part.first <= place.position <= part.last
            for part in self._paths[row.sid]
        )


# ── From a query to a page of hits ────────────────────────────────────────────────────────────────

RANKED: Final = 1000
"""So many of the newest hits are compared to find the best."""
MANY_SESSIONS: Final = 300
GONE: Final = 2**62

MOST_HITS: Final = 1000


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for, checked."""

    query: Query
    limit: int
    order: SearchOrder = "newest"
    tools: bool = False
    role: int | None = None
    sessions: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    """Sessions, by their ids, that show no hit."""
    workspace: str | None = None
    project: str | None = None
    tags: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    accepts: Callable[[SessionRow, Details], bool] | None = None
    """One more filter; asked of each session that could show a hit."""
    since: int | None = None
    until: int | None = None
    cursor: Cursor | None = None


_NO_TEXT: Final = Searched(ROLES.index("other"), "", "")
"""Of an entry that is no message."""


class Found(msgspec.Struct, frozen=True):
    """An entry that matches, and who can show it."""

    place: TextPlace
    sight: Sight
    text: Searched
    by_text: bool
    noted: str | None
    """The note beside it in this session, if that matches."""
    score: float = 0.0

    @property
    def note(self) -> str | None:
        """What of it is shown, if that is not its text."""
        return None if self.by_text else self.noted


class Search:
    """One search over one reader."""

    def __init__(self, reader: Reader, request: Request, find_texts: FindTexts) -> None:
        self._reader = reader
        self._request = request
        self._find_texts = find_texts
        shown, self._branches = self._scope()
        self._sightings = Sightings(reader, shown)

    def page(self) -> SearchPage:
        request = self._request
        if self._branches is not None and not self._branches:
            return SearchPage((), None)
        page: list[Candidate] = []
        shown: dict[TextPlace, tuple[Found, Excerpt]] = {}
        copies = Copies(self._reader, request.query)
        last: Found | None = None
        for found in self._best() if request.order == "best" else self._newest():
            text = found.text if found.note is None else Searched(found.text.role, found.note, "")
            excerpt, in_tool = self._excerpt(text)
            shown[found.place] = found, excerpt
            copies.add(Candidate(found.place, found.sight.session, text, in_tool), page)
            if len(page) > request.limit:
                break
            last = found
        hits = tuple(self._hit(*shown[each.place], each) for each in page[: request.limit])
        if len(page) <= request.limit or last is None:
            return SearchPage(hits, None)
        uid = self._reader.get_branch(last.place.branch).uid
        score = last.score if request.order == "best" else None
        return SearchPage(hits, make_cursor(Cursor(last.place.time, uid, last.place.position, score)))

    # -- where to look

    def _scope(self) -> tuple[Callable[[SessionRow], bool], frozenset[int] | None]:
        """Which sessions may show a hit, and the branches that these can show; None: all.

        A filter that fits few sessions bounds where is looked. One that fits many is asked of each session
        that could show a hit: going through all of them would take longer than the search."""
        request = self._request
        if request.sessions is None and not self._filters:
            return self._is_accepted, None
        rows = self._sessions()
        if rows is None:
            return self._fits, None
        trees = dict.fromkeys(row.tree for row in rows)
        branches = frozenset(branch for tree in trees for branch in self._branches_of(tree))
        sids = frozenset(row.sid for row in rows)
        return (lambda row: row.sid in sids and self._is_accepted(row)), branches

    def _is_accepted(self, row: SessionRow) -> bool:
        if row.id in self._request.without:
            return False
        accepts = self._request.accepts
        if accepts is None:
            return True
        try:
            return accepts(row, self._reader.get_details(row.sid))
        except (KeyError, CorruptError):
            return False  # the others are found

    def _fits(self, row: SessionRow) -> bool:
        request = self._request
        if request.workspace is not None and row.workspace != request.workspace:
            return False
        if request.project is not None and project_of(row.workspace) != request.project:
            return False
        tags = {(TAG, tag) for tag in request.tags}
        try:
            if tags or request.where:
                facets = set(facets_of(self._reader.get_details(row.sid)))
                if not any(facets.issuperset({*where, *tags}) for where in either(request.where)):
                    return False
        except (KeyError, CorruptError):
            return False
        return self._is_accepted(row)

    def _branches_of(self, tree: int) -> list[int]:
        try:
            return [branch.branch for branch in self._reader.tree_branches(tree)]
        except CorruptError:
            return []  # the others can be searched

    @property
    def _filters(self) -> bool:
        request = self._request
        places = (request.workspace, request.project)
        return places != (None, None) or bool(request.tags or request.where)

    def _sessions(self) -> list[SessionRow] | None:
        """Those that were named, or fit the filters. None: many fit."""
        request = self._request
        named = None if request.sessions is None else [self._find(id) for id in request.sessions]
        if named is not None:
            return [row for row in named if self._fits(row)]
        query = SessionQuery(
            limit=MANY_SESSIONS + 1, workspace=request.workspace, tags=request.tags, where=request.where
        )
        rows = [each.row for each in Source(self._reader, query, request.project).read(query)]
        return None if len(rows) > MANY_SESSIONS else rows

    def _find(self, id: str) -> SessionRow:
        row = find(self._reader, id)
        if row is None:
            raise SessionNotFoundError(id)
        return row

    # -- what is found

    def _newest(self) -> Iterator[Found]:
        return self._matching(self._before(), self._request.limit + 1)

    def _best(self) -> list[Found]:
        found = islice(self._matching(None, RANKED), RANKED)
        ranked = [msgspec.structs.replace(each, score=self._score(each)) for each in found]
        ranked.sort(key=lambda each: _rank(each.score, each.place))
        cursor, last = self._request.cursor, self._before()
        if cursor is None or cursor.score is None or last is None:
            return ranked
        seen = _rank(cursor.score, last)
        return [each for each in ranked if _rank(each.score, each.place) > seen]

    def _score(self, found: Found) -> float:
        """A note counts for itself: that it stands beside a long message makes it no worse."""
        query, text, note = self._request.query, found.text, found.noted
        points = score(query, text.said, text.tool if self._request.tools else "")
        return points if note is None else round(points + score(query, note), 6)

    def _before(self) -> TextPlace | None:
        cursor = self._request.cursor
        if cursor is None:
            return None
        branch = self._reader.find_branch(cursor.branch)
        return TextPlace(cursor.time, GONE if branch is None else branch.branch, cursor.position)

    def _matching(self, before: TextPlace | None, first: int) -> Iterator[Found]:
        """All that match and can be shown, newest first."""
        request = self._request
        query = TextQuery(
            query=request.query,
            limit=first + first // 4,
            tools=request.tools,
            role=request.role,
            branches=self._branches,
            since=request.since,
            until=request.until,
            before=before,
        )
        found = map(self._found, matches(self._reader, self._find_texts, query))
        return (each for each in found if each is not None)

    def _found(self, match: Match) -> Found | None:
        request, place = self._request, match.place
        if request.since is not None and place.time < request.since:
            return None
        if request.until is not None and place.time >= request.until:
            return None
        sights = self._sightings.sights(place)
        first = next(sights, None)
        if first is None and not match.notes:
            return None
        try:
            row = self._reader.get_entry(place.branch, place.position)
            if row is None or row.kind == REMOVED:
                return None
            if row.kind == MESSAGE:
                text = searched_text(checks.message(str(place.branch), row.position, row.body), row.flags)
            else:
                text = _NO_TEXT
        except CorruptError:
            return None
        if request.role is not None and text.role != request.role:
            return None
        notes = {note.sid: note for note in match.notes if self._is_beside(note, row.time)}
        if match.by_text and first is not None:
            return Found(place, first, text, True, self._note_of(first, notes))
        ordinary = () if first is None else (first, *sights)
        for sight in (*ordinary, *self._sightings.noting(place, notes)) if notes else ():
            note = self._note_of(sight, notes)
            if note is not None:
                return Found(place, sight, text, False, note)
        return None

    def _note_of(self, sight: Sight, notes: Mapping[int, Note]) -> str | None:
        """The note that matches beside an entry in a session: its own, else what came with the entry, unless
        the session changed that."""
        note = notes.get(sight.session.sid)
        if note is None and (came := notes.get(STORE_WIDE)) is not None:
            is_changed = self._reader.get_record(sight.session.sid, "annotation", came.name) is not None
            note = None if is_changed else came
        return None if note is None else note.text

    def _is_beside(self, note: Note, time: int) -> bool:
        """Whether the record of a note leads to its own entry, of this time."""
        return (self._sightings.head_of(note.place).branch, time) == (note.uid, note.place.time)

    # -- the hit as the caller sees it

    def _hit(self, found: Found, shown: Excerpt, one: Candidate) -> Hit:
        head = self._sightings.head_of(found.place)
        return Hit(
            session=found.sight.session.id,
            title=found.sight.session.title,
            entry_id=entry_id(head.branch, head.position),
            position=head.position,
            on_path=found.sight.on_path,
            role=ROLES[found.text.role],
            at=utc(found.place.time),
            snippet=shown.text,
            marks=shown.marks,
            in_tool=one.in_tool,
            in_note=found.note is not None,
            copies=one.copies,
        )

    def _excerpt(self, text: Searched) -> tuple[Excerpt, bool]:
        """Around the first hit in the text, or else in the arguments or results of tools. A phrase can be
        found where no words stand like that, such as in an identifier and its parts: then the beginning."""
        terms = self._request.query.wanted
        shown = excerpt(text.said, terms)
        if shown is None and self._request.tools:
            shown = excerpt(text.tool, terms)
            if shown is not None:
                return shown, True
        if shown is not None:
            return shown, False
        in_tool = self._request.tools and not self._request.query.matches(flat(text.said))
        return beginning(text.tool if in_tool else text.said), in_tool


def _rank(score: float, place: TextPlace) -> tuple[float, int, int, int]:
    """The order of the best: of equals the newest comes first, and no two hits have the same rank."""
    return -score, -place.time, -place.branch, -place.position


def request_of(
    query: str,
    *,
    role: str | None,
    session: str | Sequence[str] | None,
    workspace: str | os.PathLike[str] | None,
    project: str | None = None,
    tag: str | Sequence[str] | None,
    where: Mapping[str, Json] | None,
    agent: str | None = None,
    model: str | None = None,
    since: datetime | None,
    until: datetime | None,
    tools: bool,
    order: SearchOrder,
    limit: int,
    cursor: str | None,
) -> Request:
    """The arguments of `Store.search`, checked."""
    if role is not None and role not in ROLES:
        raise InvalidQueryError(f"role is one of {', '.join(ROLES)}; not {role!r}")
    if order not in ("newest", "best"):
        raise InvalidQueryError(f"order is 'newest' or 'best', not {order!r}")
    place, tags = filters(workspace, tag)
    sessions = (session,) if isinstance(session, str) else session
    return Request(
        query=parse(query),
        limit=check_limit(limit, most=MOST_HITS),
        order=order,
        tools=tools or role == "tool",
        role=None if role is None else ROLES.index(role),
        sessions=None if sessions is None else tuple(check_id(id) for id in sessions),
        workspace=place,
        project=project,
        tags=tags,
        where=facets_wanted(where, agent=agent, model=model),
        since=None if since is None else check_time(since, "since", InvalidQueryError),
        until=None if until is None else check_time(until, "until", InvalidQueryError),
        cursor=None if cursor is None else read_cursor(cursor, is_ranked=order == "best"),
    )


def search(engine: EngineLike, request: Request, tell: Tell | None = None) -> SearchPage:
    """A page of hits: from the index after it caught up, else from all messages."""
    if request.accepts is None:  # a function of the caller cannot travel
        with engine.read() as reader:
            page = reader.search_page(_sendable(request))
        if page is not None:
            return page
    try:
        return _page(engine, request, is_indexed=_caught_up(engine, tell))
    except CorruptError:
        return _page(engine, request, is_indexed=False)  # the index may be what is damaged


def _sendable(request: Request) -> PageQuery:
    wanted, unwanted = (
        tuple(SearchTerm(term.words, term.prefix) for term in terms)
        for terms in (request.query.wanted, request.query.unwanted)
    )
    fields = (name for name in PageQuery.__struct_fields__ if name not in ("wanted", "unwanted", "cursor"))
    return PageQuery(
        wanted=wanted,
        unwanted=unwanted,
        cursor=None if request.cursor is None else make_cursor(request.cursor),
        **{name: getattr(request, name) for name in fields},
    )


def request_from(query: PageQuery) -> Request:
    """The same on the side where the store is."""
    wanted, unwanted = (
        tuple(Term(term.words, term.prefix) for term in terms) for terms in (query.wanted, query.unwanted)
    )
    fields = (name for name in PageQuery.__struct_fields__ if name not in ("wanted", "unwanted", "cursor"))
    cursor = None if query.cursor is None else read_cursor(query.cursor, is_ranked=query.order == "best")
    return Request(
        query=Query(wanted, unwanted), cursor=cursor, **{name: getattr(query, name) for name in fields}
    )


def _caught_up(engine: EngineLike, tell: Tell | None) -> bool:
    """Whether all is in the index; not so in a store that cannot be written. Then all of it is read."""
    if engine.is_reading:
        return False
    try:
        catch_up(engine.read, engine.run, tell)
    except (ReadOnlyError, DiskFullError):
        return False
    return True


def _page(engine: EngineLike, request: Request, *, is_indexed: bool) -> SearchPage:
    with engine.read() as reader:
        find_texts = reader.find_texts if is_indexed else partial(scan_texts, reader)
        return Search(reader, request, find_texts).page()
