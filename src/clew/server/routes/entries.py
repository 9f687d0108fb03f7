"""Entries: the messages of a session, and the marks between them."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from clew.core.conversation.annotations import annotate, fields_of
from clew.core.log.ids import parse_entry_id
from clew.errors import (
    CheckpointNotFoundError,
    CorruptEntryError,
    EntryNotFoundError,
    InvalidError,
    InvalidQueryError,
)
from clew.exporters.blocks import RASTER, blocks_of
from clew.model import Entry, Head, Json
from clew.server.access.guard import attachment
from clew.server.access.shared import SharedSession
from clew.server.call import Answer, Call, head_tag
from clew.server.problems import Problem
from clew.server.routes.sessions import merged, place_of
from clew.server.routing import Routes
from clew.server.wire.entries import (
    AnnotationsView,
    Appended,
    ContextQuery,
    ContextView,
    DamagedEntry,
    EntriesQuery,
    EntryPage,
    EntryQuery,
    EntryView,
    MessagePage,
    MessagesQuery,
    NewEntries,
    OutlineQuery,
    OutlineView,
)
from clew.server.wire.views import mark_of, viewer_of
from clew.session import Session

routes = Routes()

T = TypeVar("T")

PAGE_BYTES: Final = 8 * 1024 * 1024
"""About so large may a page be."""
MOST_DAMAGED: Final = 200
"""Entries that cannot be read, and are named on a page."""


# -- reading


@routes.get("/sessions/{id}/entries", answer=EntryPage)
def list_entries(call: Call, id: str, query: EntriesQuery) -> Answer:
    """The entries on the path of a session, page by page.

    A page has at most 200 entries and about 8 MB. A cursor stays right while the session grows: it names an
    entry, and the next page begins behind it. If the session was rewound to before that entry, it is answered
    with 404 `entry_not_found`: begin again. `last=50` is the end of the conversation, and its cursor leads
    to what came before. A message of more than 256 KiB is given as a link, unless `large` is set.

    `view`: `raw` is the message, byte for byte as it was stored; `blocks` are its parts with their HTML, each
    tool call with a line about it; `html` is one piece of HTML; `line` is one line of text.
    """
    session = call.session(id)
    head = session.head
    viewer = viewer_of(call, session, query.view, large=query.large)
    damaged: list[CorruptEntryError] = []
    shown: list[EntryView] = []
    cursor, room = None, PAGE_BYTES
    size = query.last or query.limit
    skips = query.damaged == "skip"
    for entry in _on_path(call, session, query, label=query.label, damaged=damaged if skips else None):
        if len(shown) == size or room <= 0:
            cursor = shown[-1].id
            break
        try:
            one = viewer.show(entry)
        except CorruptEntryError as damage:
            if not skips:
                raise
            damaged.append(damage)
            continue
        shown.append(one)
        room -= weight_of(one)
    backwards = _is_backwards(query)
    if cursor is not None:  # those behind it are told on the next page
        end = shown[-1].position
        damaged = [one for one in damaged if (one.position > end if backwards else one.position < end)]
    if query.last is not None and not query.newest_first:
        shown.reverse()
    page = EntryPage(
        data=shown,
        cursor=cursor,
        head=head,
        damaged=[DamagedEntry(position=one.position, reason=one.reason) for one in damaged[:MOST_DAMAGED]],
    )
    return Answer(value=page, headers=call.next_page(cursor))


def _is_backwards(query: EntriesQuery | MessagesQuery) -> bool:
    return query.newest_first or query.last is not None


def _on_path(
    call: Call,
    session: Session,
    query: EntriesQuery | MessagesQuery,
    *,
    label: str | None = None,
    damaged: list[CorruptEntryError] | None = None,
) -> Iterator[Entry]:
    """The entries that are asked for, in the direction of reading. The cursor is a bound that the page before
    has set; nothing of it is believed."""
    before, after = call.point_of(session, query.before), call.point_of(session, query.after)
    backwards = _is_backwards(query)
    if query.cursor is not None:
        place = parse_entry_id(query.cursor)
        if place is None:
            raise InvalidQueryError("cursor is not one that a page gave: begin without it")
        if backwards:
            before = call.point(session, place)
        else:
            after = call.point(session, place)
    return session.entries(
        before=before,
        after=after,
        at=call.point_of(session, query.at),
        newest_first=backwards,
        label=label,
        damaged="raise" if damaged is None else "skip",
        on_damage=None if damaged is None else damaged.append,
    )


def weight_of(shown: EntryView) -> int:
    """About how many bytes an entry takes in an answer."""
    size = 200
    if isinstance(shown.message, msgspec.Raw):
        size += len(bytes(shown.message))
    if isinstance(shown.blocks, tuple):
        size += sum(len(block.text) + len(block.html) for block in shown.blocks)
    return size + (len(shown.html) if isinstance(shown.html, str) else 0)


@routes.get("/sessions/{id}/entries/{entry}", answer=EntryView)
def get_entry(call: Call, id: str, entry: str, query: EntryQuery) -> Answer:
    """One entry of a session, on whatever branch.

    It never changes, so with `view=raw` its ETag is its hash: a program that kept it asks with
    `If-None-Match`. Browsers keep no copy. Annotations, which do change, are not part of it: see
    `…/annotations`.
    """
    session = call.session(id)
    found = one_entry(call, session, entry)
    is_raw = query.view == "raw"
    shown = viewer_of(call, session, query.view, large=True, notes=not is_raw).show(found)
    if not is_raw or call.principal.redact:
        return Answer(value=shown)
    return Answer(value=shown, etag=_tag(found))


def _tag(entry: Entry) -> str:
    """What a retention rule took away keeps its hash."""
    return f'"{entry.hash}"' if entry.kind != "removed" else f'"{entry.hash}.removed"'


def one_entry(call: Call, session: Session, id: str) -> Entry:
    """An entry of a session's tree by its id, if it is the caller's to see."""
    if isinstance(session, SharedSession):
        return session.entry(id)
    place = parse_entry_id(id)
    try:
        if place is not None:
            return next(session.entries(at=call.point(session, place), last=1))
    except (CheckpointNotFoundError, StopIteration):
        pass
    raise EntryNotFoundError(session.id, id)


@routes.get(
    "/sessions/{id}/entries/{entry}/media/{number}",
    answer=bytes,
    media_type="application/octet-stream",
    other_types=tuple(sorted(RASTER)),
)
def get_media(call: Call, id: str, entry: str, number: str) -> Answer:
    """An image or a file inside a message: the one that a block links to.

    Only PNG, JPEG, GIF and WebP have their own content type; all else is bytes to be saved.
    """
    session = call.session(id)
    found = one_entry(call, session, entry)
    blocks = blocks_of(found.message) if found.kind == "message" else []
    every = [(block.media, block.text) for block in blocks if block.media is not None]
    at = int(number[:6]) if number.isascii() and number.isdigit() else len(every)
    media, name = every[at] if at < len(every) else (None, "")
    if media is None or media.data is None:
        raise _no_media(f"entry {entry!r} has none of this number")
    try:
        content = base64.b64decode(media.data, validate=True)
    except ValueError as exc:  # whoever appended the message wrote it so
        raise _no_media(f"those of entry {entry!r} are not base64") from exc
    kind = media.type if media.type in RASTER else "application/octet-stream"
    headers = attachment(name or "file", media_type=kind)
    return Answer(value=content, media_type=kind, headers=headers, etag=f'"{found.hash}.{at}"')


def _no_media(detail: str) -> Problem:
    return Problem(404, "no_such_media", "There are no such media", detail)


@routes.get("/sessions/{id}/messages", answer=MessagePage)
def list_messages(call: Call, id: str, query: MessagesQuery) -> Answer:
    """The messages on the path, as they were appended, without the marks between them.

    Whatever was compacted or truncated: `…/context` is what a model should get. Pages as for entries. A
    message that cannot be read is an error: `…/entries` leaves it out, and names it.
    """
    session = call.session(id)
    found: list[msgspec.Raw] = []
    cursor, last, room = None, "", PAGE_BYTES
    for entry in _on_path(call, session, query):
        if entry.kind != "message":
            continue
        if len(found) == (query.last or query.limit) or room <= 0:
            cursor = last
            break
        _ = entry.message  # CorruptEntryError: it is no JSON object
        found.append(msgspec.Raw(entry.raw))
        room -= len(entry.raw)
        last = entry.id
    if query.last is not None and not query.newest_first:
        found.reverse()
    return Answer(value=MessagePage(data=found, cursor=cursor), headers=call.next_page(cursor))


@routes.get("/sessions/{id}/context", answer=ContextView)
def get_context(call: Call, id: str, query: ContextQuery) -> ContextView:
    """The messages for a model: from the latest compaction or truncation on, inside the budget.

    Every tool call has its result, and the history is well-formed whatever a crash left behind. `report` says
    what was left out or repaired.
    """
    session = call.session(id)
    context = session.context(
        max_messages=query.max_messages,
        max_tokens=query.max_tokens,
        at=call.point_of(session, query.at),
        repair=query.repair,
    )
    return ContextView(data=list(context), report=context.report)


@routes.get("/sessions/{id}/outline", answer=OutlineView)
def outline(call: Call, id: str, query: OutlineQuery) -> OutlineView:
    """The prompts of people, compactions and checkpoints on the whole path, a line for each.

    A checkpoint comes behind the entry at which it was set, with its name as the text, and with the id of its
    snapshot if it holds files.
    """
    session = call.session(id)
    found = session.outline(at=call.point_of(session, query.at))
    first = 0
    if query.after is not None:
        first = bisect_right(found.items, query.after, key=attrgetter("position"))
    return OutlineView(data=list(found.items[first:]), entries=found.entries, head=found.head)


# -- writing


@routes.post("/sessions/{id}/entries", answer=Appended, status=201)
async def append_entries(call: Call, id: str, body: NewEntries) -> Answer:
    """Append messages, all of them or none; durable when it is answered.

    `Idempotency-Key` names this batch: a second request with the same key and the same messages writes
    nothing and has the same answer, for ever; with other messages it is refused with 422 `key_reused`. After
    an answer that was lost, send it again with the same key. `If-Match` with the ETag of the head refuses the
    append with 412 `head_moved` if the session stands elsewhere; the answer has the present `head`.
    """
    check_batch(call, len(body.messages))
    messages = [bytes(message) for message in body.messages]
    written = await call.append(id, messages, strict=body.strict, at=body.at)
    newest = written[-1]
    head = parse_entry_id(newest.id) or Head("", -1)
    return Answer(
        value=Appended(data=[mark_of(entry) for entry in written], head=head),
        status=201,
        etag=head_tag(head),
        headers={"location": f"{place_of(call, id)}/entries/{newest.id}"},
    )


def check_batch(call: Call, count: int, most: int | None = None) -> None:
    """413: too many messages for one request."""
    most = call.server.settings.max_batch if most is None else most
    if count > most:
        raise Problem(
            413,
            "too_many",
            "There are too many messages in one request",
            f"there are {count}; at most {most} are taken",
            next="send them in several requests",
        )


# -- beside an entry


@routes.get("/sessions/{id}/entries/{entry}/annotations", answer=AnnotationsView)
def get_annotations(call: Call, id: str, entry: str) -> AnnotationsView:
    """What stands beside an entry in this session, and is never part of the message: a label, a note, a star.

    Forks share entries, and not what is put beside them: a fork begins with what its base had put there.
    """
    found = one_entry(call, call.session(id), entry)
    return AnnotationsView(id=found.id, annotations=dict(found.annotations))


@routes.patch("/sessions/{id}/entries/{entry}/annotations", answer=AnnotationsView)
def annotate_entry(call: Call, id: str, entry: str, body: dict[str, Json]) -> AnnotationsView:
    """Change what stands beside an entry, by a merge patch (RFC 7396): null takes a field away.

    Entries are found again by their `label`: `…/entries?label=…`.
    """

    def work(session: Session) -> AnnotationsView:
        found = one_entry(call, session, entry)
        fields = {
            name: None if value is None else merged(found.annotations.get(name), value)
            for name, value in body.items()
        }
        for name, value in fields.items():
            if name == "label" and value is not None and not isinstance(value, str):
                raise InvalidError("a label is a text")
        noted = fields_of(fields, session._scope.redactor())
        changed = session._write(annotate, found, noted)
        return AnnotationsView(id=changed.id, annotations=dict(changed.annotations))

    return call.change(call.session(id), work)
