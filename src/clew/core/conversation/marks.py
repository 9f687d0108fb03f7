"""Marks on the path: compaction, truncation, summary. They change what a model gets, never the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.append import MessageLike, flags_of, place, without_secrets
from clew.core.conversation.history import entry_of, read_messages
from clew.core.conversation.moves import step
from clew.core.conversation.points import Point, path_of, position_on_path
from clew.core.log.ids import check_count
from clew.core.log.records import Count, decoder
from clew.core.log.rows import COMPACTION, NOWHERE, SUMMARY, TRUNCATION, Draft, EntryRow, SessionRow
from clew.core.log.tree import Segment, locate
from clew.core.messages.codec import Prepared, prepare
from clew.core.messages.tool_calls import Placed, nearest_cut
from clew.core.runs.access import Access, require_write
from clew.errors import CorruptEntryError, CorruptError, InvalidError
from clew.model import Entry, Json, MoveKind

if TYPE_CHECKING:
    from clew.core.redact.incoming import Incoming

CHUNK: Final = 64


class Cut(msgspec.Struct, frozen=True):
    """Where the model's view begins, and what stands for everything before."""

    start: Count
    """The first position that is still in view."""
    messages: list[dict[str, Json]] | None = None
    """None: it is a truncation, or the beginning of the history."""


class Summary(msgspec.Struct, frozen=True):
    """What the mark of a summary says."""

    text: str | None


_decode_cut = decoder(Cut, "the mark of a compaction or truncation")
decode_summary = decoder(Summary, "the mark of a summary")


def cut_of(reader: Reader, row: SessionRow, segments: Sequence[Segment]) -> Cut:
    """The latest compaction or truncation on the path."""
    if row.head.view_start == NOWHERE:
        return Cut(0)
    return _decode_cut(_mark_at(reader, row, segments, row.head.view_start).body)


def _mark_at(reader: Reader, row: SessionRow, segments: Sequence[Segment], position: int) -> EntryRow:
    entry = reader.get_entry(locate(segments, position), position)
    if entry is None:
        raise CorruptError(f"the mark at {position} of session {row.id!r} is missing")
    return entry


def _mark(tx: Transaction, access: Access, row: SessionRow, draft: Draft, kind: MoveKind, now: int) -> Entry:
    uid, rows, tip = place(tx, row, [draft], now, access.epoch)
    tx.set_session(msgspec.structs.replace(step(tx, row, tip, kind, now), grows=True))
    return entry_of(uid, rows[0])


def truncate(tx: Transaction, access: Access, keep_last: int, now: int) -> Entry | None:
    row = require_write(tx, access)
    if keep_last > row.head.messages:
        return None
    segments = path_of(tx, row.head)
    cut = cut_of(tx, row, segments)
    start = row.head.position + 1
    if keep_last:
        kept = read_messages(
            tx, segments, cut.start, row.head.position, reverse=True, limit=keep_last, on_damage=_pass_over
        )
        if len(kept) < keep_last:
            return None
        start = _safe_start(tx, segments, kept[-1][0], cut.start, row.head.position)
    older = read_messages(tx, segments, cut.start, start - 1, limit=1, on_damage=_pass_over)
    if not older and not cut.messages:
        return None
    draft = Draft(TRUNCATION, msgspec.json.encode({"start": start}))
    return _mark(tx, access, row, draft, "truncate", now)


class Digest(msgspec.Struct, frozen=True):
    """What a compaction puts in the place of a history, checked and encoded before any lock is taken."""

    bodies: bytes
    """The messages, separated by commas."""
    bodies_in_parts: bytes | None
    """Of a text: the same for a session whose messages have `parts`."""
    flags: int
    tokens: bytes


def digest_of(
    given: str | Sequence[MessageLike], tokens: int | None, redactor: Incoming | None = None
) -> Digest:
    """Check what a compaction is given. A text becomes a user message."""
    counted = b"null" if tokens is None else b"%d" % check_count(tokens, "tokens")
    if isinstance(given, str):
        if not given.strip():
            raise InvalidError(
                "a compaction needs a text that is not empty: the history would be lost to the model"
            )
        plain = _ready({"role": "user", "content": given}, 0, redactor)
        in_parts = _ready({"role": "user", "parts": [{"text": given}]}, 0, redactor)
        return Digest(plain.body, in_parts.body, flags_of(plain), counted)
    if given is None or isinstance(given, (bytes, dict)):
        raise InvalidError("a compaction needs a text, or a list of messages")
    prepared = [_ready(message, index, redactor) for index, message in enumerate(given)]
    bodies = b",".join(item.body for item in prepared)
    flags = 0
    for item in prepared:
        flags |= flags_of(item)
    return Digest(bodies, None, flags, counted)


def _ready(message: MessageLike, index: int | None, redactor: Incoming | None) -> Prepared:
    item = prepare(message, index=index)
    return item if redactor is None else without_secrets(item, redactor)


def compact(tx: Transaction, access: Access, digest: Digest, upto: Point | None, now: int) -> Entry:
    row = require_write(tx, access)
    segments = path_of(tx, row.head)
    last = row.head.position if upto is None else position_on_path(tx, row, upto)
    view = cut_of(tx, row, segments).start
    start = _safe_start(tx, segments, last + 1, min(view, last + 1), row.head.position)
    bodies = digest.bodies
    if digest.bodies_in_parts is not None and _speaks_in_parts(tx, row, segments):
        bodies = digest.bodies_in_parts
    body = b'{"start":%d,"tokens":%s,"messages":[%s]}' % (start, digest.tokens, bodies)
    return _mark(tx, access, row, Draft(COMPACTION, body, digest.flags), "compact", now)


def _speaks_in_parts(tx: Transaction, row: SessionRow, segments: Sequence[Segment]) -> bool:
    """Whether the newest message of a session is in the dialect whose messages have `parts`."""
    newest = read_messages(tx, segments, 0, row.head.position, reverse=True, limit=1, on_damage=_pass_over)
    return bool(newest) and "parts" in newest[0][1]


def _safe_start(tx: Transaction, segments: Sequence[Segment], wished: int, lowest: int, head: int) -> int:
    """The nearest position at or before `wished` where no tool call is parted from its result,
    be it recorded or still to come."""

    def before(most: int) -> Placed:
        found = read_messages(
            tx, segments, lowest, wished - 1, reverse=True, limit=most, on_damage=_pass_over
        )
        return found[::-1]

    after = read_messages(tx, segments, wished, head, on_damage=_pass_over)
    return nearest_cut(before, after, wished, goes_on=True, reach=CHUNK)


def _pass_over(damage: CorruptEntryError) -> None:
    """A damaged entry costs itself: it cannot be asked what it calls or answers."""


def summary_of(text: str | None, redactor: Incoming | None = None) -> Draft:
    """Check a summary."""
    if text is not None and not isinstance(text, str):
        raise InvalidError(f"a summary is a text, not {type(text).__name__}")
    item = _ready({"text": text}, None, redactor)
    return Draft(SUMMARY, item.body, flags_of(item))


def set_summary(tx: Transaction, access: Access, draft: Draft, now: int) -> Entry:
    row = require_write(tx, access)
    return _mark(tx, access, row, draft, "summary", now)


def summary(reader: Reader, row: SessionRow) -> str | None:
    if row.head.summary == NOWHERE:
        return None
    entry = _mark_at(reader, row, path_of(reader, row.head), row.head.summary)
    return decode_summary(entry.body).text
