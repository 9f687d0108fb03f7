"""Moving the head: rewind, clear, undo, redo. Nothing is ever removed by it.

Every move is a record that is never changed. Undo and redo are moves too. Each move remembers which
one to undo (or redo) after it: `link`. So both are one read, and survive a restart.

    move n        undo stack: n above what it was          redo stack: empty
    undo of n     goes to n.came_from; undo stack: n.link  redo stack: this move above what it was
    redo of u     goes to u.came_from; undo stack: this    redo stack: u.link
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from clew.backends.contract import Reader, Transaction
from clew.core.conversation.append import PREVIEW_KEPT, TITLE_LENGTH
from clew.core.conversation.points import Point, head_of, path_of, resolve, tip_at
from clew.core.log import checks
from clew.core.log.records import Count, Time, decoder
from clew.core.log.rows import EMPTY, MESSAGE, NOWHERE, EntryRow, HeadRow, SessionRow
from clew.core.log.tree import clip, locate
from clew.core.messages.dialects import is_human_turn, prompt_of
from clew.core.messages.text import snippet
from clew.core.runs.access import Access, live, require_write
from clew.errors import CorruptEntryError, CorruptError, InvalidError, NothingToUndoError
from clew.model import Head, Json, Moved, MoveInfo, MoveKind, utc

if TYPE_CHECKING:
    from clew.model.files import RestoreReport

FIRST_WORDS: Final = 4
"""Entries that are read at once to find the user's first message: it is usually among the first few."""


class FileMove(msgspec.Struct, frozen=True):
    """The files that went with a move: restored under `root` to the snapshot `target`, as they were
    before in the snapshot `safety`."""

    root: bytes
    safety: str
    target: str


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """One move of a head, as it is logged."""

    kind: MoveKind
    time: Time
    came_from: Head
    went_to: Head
    link: Count
    files: FileMove | None = None
    """Of a move that restored files too: how to bring them back."""


decode_move = decoder(Move, "the record of a move")


def _get_move(reader: Reader, row: SessionRow, number: int) -> Move:
    value = reader.get_record(row.sid, "move", f"{number:012d}")
    if value is None:
        raise CorruptError(f"move {number} of session {row.id!r} is missing")
    move = decode_move(value)
    if not is_before(move, number):
        raise CorruptError(f"move {number} of session {row.id!r} leads to move {move.link}, which came later")
    return move


def is_before(move: Move, number: int) -> bool:
    """Whether a move leads to an earlier one, or to none: else undo and redo could go round for ever."""
    return 0 <= move.link < number


def logged(
    tx: Transaction,
    row: SessionRow,
    tip: HeadRow,
    kind: MoveKind,
    now: int,
    *,
    link: int,
    undo: int,
    redo: int,
    files: FileMove | None = None,
) -> SessionRow:
    """Write the record of a move; the row that goes with it. `undo` or `redo` -1: this move."""
    number = row.moves + 1
    move = Move(kind, now, head_of(tx, row.head), head_of(tx, tip), link, files)
    tx.put_record(row.sid, "move", f"{number:012d}", msgspec.json.encode(move))
    return msgspec.structs.replace(
        row,
        head=tip,
        updated=max(row.updated, now),
        moves=number,
        undo=number if undo < 0 else undo,
        redo=number if redo < 0 else redo,
    )


def step(
    tx: Transaction, row: SessionRow, tip: HeadRow, kind: MoveKind, now: int, files: FileMove | None = None
) -> SessionRow:
    """Log a move that a user may undo."""
    return logged(tx, row, tip, kind, now, link=row.undo, undo=-1, redo=0, files=files)


def settle(tx: Transaction, row: SessionRow) -> Head:
    """Store a row whose head moved to entries that exist already."""
    tip = row.head
    tx.set_session(msgspec.structs.replace(row, grows=can_grow(tx, row, tip), preview=preview_at(tx, tip)))
    return head_of(tx, tip)


def can_grow(reader: Reader, row: SessionRow, tip: HeadRow) -> bool:
    """Whether a place is the end of a branch of this session's own."""
    is_own = bool(tip.branch) and reader.get_branch(tip.branch).owner == row.sid
    return is_own and reader.get_tip(tip.branch, tip.position + 1) is None


def preview_at(reader: Reader, tip: HeadRow) -> str:
    """The beginning of the user's last message on a path."""
    if tip.last_user_turn == NOWHERE:
        return ""
    try:
        entry = reader.get_entry(locate(path_of(reader, tip), tip.last_user_turn), tip.last_user_turn)
        message = {} if entry is None else checks.message("?", tip.last_user_turn, entry.body)
    except CorruptEntryError:
        return ""  # a preview is not worth a refused rewind
    return prompt_of(message)[:PREVIEW_KEPT]


def title_at(reader: Reader, tip: HeadRow) -> str | None:
    """The automatic title of a path: the first words of its user. Reads up to there."""
    segments = path_of(reader, tip)
    for low in range(0, tip.last_user_turn + 1, FIRST_WORDS):
        for part in clip(segments, low, min(low + FIRST_WORDS - 1, tip.last_user_turn)):
            for entry in reader.read_entries(part.branch, part.first, part.last, on_damage=_pass_over):
                message = _message(entry)
                if message is not None and is_human_turn(message, entry.flags):
                    title = snippet(prompt_of(message), TITLE_LENGTH)
                    if title:
                        return title
    return None


def _message(entry: EntryRow) -> dict[str, Json] | None:
    """None: it is no message, or cannot be read."""
    try:
        return checks.message("?", entry.position, entry.body) if entry.kind == MESSAGE else None
    except CorruptEntryError:
        return None


def _pass_over(damage: CorruptEntryError) -> None:
    """A title is not worth a refused fork."""


def rewind(tx: Transaction, access: Access, to: Point, now: int, files: FileMove | None = None) -> Head:
    row = require_write(tx, access)
    tip = tip_at(tx, *resolve(tx, row, to))
    return settle(tx, step(tx, row, tip, "rewind", now, files))


def follow(tx: Transaction, access: Access, now: int) -> Head:
    """Go to where the program stands that the session is loaded from. What it writes next moves the head."""
    row = require_write(tx, access)
    tip = tip_at(tx, *agent_place(tx, row))
    if tip == row.head:
        return head_of(tx, tip)
    return settle(tx, step(tx, row, tip, "rewind", now))


def agent_place(reader: Reader, row: SessionRow) -> tuple[int, int]:
    """(branch, position) of where that program stands. InvalidError: the session comes from none."""
    agent = reader.get_details(row.sid).agent
    if agent is None:
        raise InvalidError(f"no agent's file was read into session {row.id!r}: there is nothing to follow")
    return resolve(reader, row, Head(agent.uid, agent.position))


def abort(tx: Transaction, access: Access, began: Head, now: int) -> None:
    """Go back to where a turn began, unless nothing has happened since."""
    if head_of(tx, live(tx, access.sid, access.id).head) != began:
        rewind(tx, access, began, now)


def clear(tx: Transaction, access: Access, now: int) -> Head:
    row = require_write(tx, access)
    return settle(tx, step(tx, row, EMPTY, "clear", now))


def files_of(reader: Reader, row: SessionRow, what: Literal["undo", "redo"]) -> FileMove | None:
    """The files that the next undo, or redo, brings back."""
    number = row.undo if what == "undo" else row.redo
    return _get_move(reader, row, number).files if number else None


def next_head(reader: Reader, row: SessionRow, what: Literal["undo", "redo"]) -> Head:
    """Where the next undo, or redo, goes."""
    number = row.undo if what == "undo" else row.redo
    if not number:
        raise NothingToUndoError(row.id, what)
    return _get_move(reader, row, number).came_from


def undo(tx: Transaction, access: Access, now: int, files: FileMove | None = None) -> Head:
    """Take back the last operation that was not an append."""
    row = require_write(tx, access)
    if not row.undo:
        raise NothingToUndoError(row.id, "undo")
    undone = _get_move(tx, row, row.undo)
    tip = tip_at(tx, *resolve(tx, row, undone.came_from))
    return settle(
        tx, logged(tx, row, tip, "undo", now, link=row.redo, undo=undone.link, redo=-1, files=files)
    )


def redo(tx: Transaction, access: Access, now: int, files: FileMove | None = None) -> Head:
    row = require_write(tx, access)
    if not row.redo:
        raise NothingToUndoError(row.id, "redo")
    redone = _get_move(tx, row, row.redo)
    tip = tip_at(tx, *resolve(tx, row, redone.came_from))
    return settle(
        tx, logged(tx, row, tip, "redo", now, link=row.undo, undo=-1, redo=redone.link, files=files)
    )


def moved_to(head: Head, files: RestoreReport | None = None) -> Moved:
    """What a move returns: the new head, and what was done to files with it."""
    return Moved(head.branch, head.position, files)


# -- the history of moves


def history(reader: Reader, row: SessionRow) -> list[MoveInfo]:
    """Every move of a session, newest first."""
    found: dict[int, Move] = {}
    told: list[MoveInfo] = []
    undo = redo = 0
    for name, value in reader.scan_records(row.sid, "move"):
        number, move = _checked(row, name, value)
        taken = undo if move.kind == "undo" else redo if move.kind == "redo" else None
        told.append(_told(number, move, taken, row))
        link = found[taken].link if taken in found else 0
        undo, redo = (link, number) if move.kind == "undo" else (number, link if move.kind == "redo" else 0)
        found[number] = move
    return told[::-1]


def _checked(row: SessionRow, name: str, value: bytes) -> tuple[int, Move]:
    move = decode_move(value)
    if not name.isdecimal() or not is_before(move, int(name)):
        raise CorruptError(f"move {name} of session {row.id!r} leads to move {move.link}, which came later")
    return int(name), move


def _told(number: int, move: Move, taken: int | None, row: SessionRow) -> MoveInfo:
    files = move.files
    return MoveInfo(
        number=number,
        kind=move.kind,
        at=utc(move.time),
        came_from=move.came_from,
        went_to=move.went_to,
        takes_back=taken or None,
        next="undo" if number == row.undo else "redo" if number == row.redo else None,
        root=None if files is None else os.fsdecode(files.root),
        snapshot=None if files is None else files.target,
        safety=None if files is None else files.safety,
    )
