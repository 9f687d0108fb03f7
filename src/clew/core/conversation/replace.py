"""Putting a new history in the place of the old one. What both begin with is kept, not written again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.append import Batch, place, title_after
from clew.core.conversation.history import entry_of, read_path
from clew.core.conversation.marks import decode_summary
from clew.core.conversation.moves import can_grow, step
from clew.core.conversation.points import path_of, tip_at
from clew.core.log.rows import EMPTY, NOWHERE, REPLACED, SUMMARY, TURNS, Draft, HeadRow, SessionRow
from clew.core.log.tree import Segment, locate
from clew.core.runs.access import Access, require_write
from clew.errors import CorruptEntryError, CorruptError
from clew.model import Entry

PAGE: Final = 256
"""Entries that are compared at once."""


def replace(tx: Transaction, access: Access, batch: Batch, user_turns: int | None, now: int) -> list[Entry]:
    """Let the path hold these messages and no others; the old one stays where it is.

    The new path leaves the old one behind the last entry that they have in common. The summary stays.
    """
    row = require_write(tx, access)
    after, kept = _in_common(tx, row, batch.drafts)
    rest = batch.drafts[len(kept) :]
    drafts = [*rest, *_turns(after, rest, batch, user_turns), *_summary(tx, row, after)]
    title = title_after(row, batch)
    if not drafts and (after.branch, after.position) == (row.head.branch, row.head.position):
        if title != row.title:
            tx.set_session(msgspec.structs.replace(row, title=title))
        return kept
    begun = msgspec.structs.replace(row, head=after, grows=can_grow(tx, row, after))
    tip, written = after, list[Entry]()
    if drafts:
        uid, rows, tip = place(tx, begun, drafts, now, access.epoch)
        written = [entry_of(uid, entry) for entry in rows[: len(rest)]]
    moved = step(tx, row, tip, "replace", now)
    grows = begun.grows or bool(drafts)
    tx.set_session(msgspec.structs.replace(moved, grows=grows, title=title, preview=batch.last_said or ""))
    return [*kept, *written]


def _in_common(reader: Reader, row: SessionRow, drafts: Sequence[Draft]) -> tuple[HeadRow, list[Entry]]:
    """The last place up to which the path says what these messages say, and the entries of those.

    It lies before the first compaction or truncation, which would hide messages from the model, before
    the first message that was removed, and before the first entry that cannot be read.
    """
    try:
        segments = path_of(reader, row.head)
    except CorruptError:
        return EMPTY, []
    last, kept = NOWHERE, list[Entry]()
    for low in range(0, row.head.position + 1, PAGE):
        high = min(low + PAGE - 1, row.head.position)
        for entry in read_path(reader, row.sid, segments, low, high, on_damage=_stop):
            if entry.position != last + 1 or not _fits(entry, drafts, len(kept)):
                return _tip(reader, segments, last), kept
            last = entry.position
            if entry.kind == "message":
                kept.append(entry)
        if last != high:  # the page ends with an entry that cannot be read
            break
    return _tip(reader, segments, last), kept


def _stop(damage: CorruptEntryError) -> None:
    """It leaves a gap in the positions, at which the comparison ends."""


def _fits(entry: Entry, drafts: Sequence[Draft], index: int) -> bool:
    if entry.kind != "message":
        return entry.kind in ("summary", "turns")
    if index == len(drafts) or entry.injected:
        return False
    return entry.raw == drafts[index].body and entry.replaced == bool(drafts[index].flags & REPLACED)


def _tip(reader: Reader, segments: Sequence[Segment], position: int) -> HeadRow:
    return tip_at(reader, locate(segments, position), position) if position >= 0 else EMPTY


def _turns(after: HeadRow, rest: Sequence[Draft], batch: Batch, user_turns: int | None) -> list[Draft]:
    """The mark that sets the counter of user turns, if it would be another one without it."""
    wanted = sum(draft.is_turn for draft in batch.drafts) if user_turns is None else user_turns
    if after.turns + sum(draft.is_turn for draft in rest) == wanted:
        return []
    return [Draft(TURNS, msgspec.json.encode({"user_turns": wanted}), turns=wanted)]


def _summary(reader: Reader, row: SessionRow, after: HeadRow) -> list[Draft]:
    """The latest summary once more, if it does not lie on what is kept."""
    position = row.head.summary
    if position == after.summary:
        return []
    try:
        entry = reader.get_entry(locate(path_of(reader, row.head), position), position)
    except CorruptError:
        return []  # what cannot be read is not kept either
    if entry is None or (after.summary == NOWHERE and decode_summary(entry.body).text is None):
        return []
    return [Draft(SUMMARY, entry.body, entry.flags)]
