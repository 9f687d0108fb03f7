"""Entries of another program's session, put in their places with their own times.

A batch is one transaction. Each entry goes behind its parent: on the branch of that one if it is its tip
and this session's, else on a new branch. So what a program abandoned is a branch, and what the user said
here since stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.codec import encode_json, prepare
from clew.core.dialects import is_user_turn, text_of
from clew.core.exact import MAX_DEPTH, MAX_MESSAGE_BYTES
from clew.core.rows import COMPACTION, EMPTY, MESSAGE, REPLACED, SUMMARY, Draft, EntryRow, SessionRow, Tip
from clew.core.tree import chain
from clew.errors import InvalidError
from clew.model import Json
from clew.model.loading import SourceEntry
from clew.work.append import new_branch
from clew.work.history import note_name
from clew.work.loading_memory import Memory, Run
from clew.work.places import tip_at

LABEL: Final = "label"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Item(msgspec.Struct, frozen=True):
    """An entry that passed the door."""

    name: str
    parent: str | None
    draft: Draft
    time: int
    note: bytes | None
    """Encoded."""
    said: str
    """The words of a human in it."""
    start: str | None = None
    """Of a compaction: from where on entries stay in view."""


def item_of(entry: SourceEntry, time: int) -> Item:
    """Check an entry. InvalidEntryError: what it holds can not be kept."""
    notes = entry.notes
    said = ""
    start = None
    if entry.kind == "message":
        message = entry.message
        body, flags = _sealed(message), 0
        if body is None:
            found = prepare(message)
            body, flags, message = found.body, REPLACED if found.replaced else 0, found.value
        # The counter of turns goes by the shape of a message, as `verify` does; who spoke is in the notes.
        is_turn = message.get("role") != "assistant" and not _holds_results(message) and is_user_turn(message)
        human = entry.human is not False and notes.get("human") is not False
        said = text_of(message) if is_turn and human else ""
        draft = Draft(MESSAGE, body, flags, is_turn)
        if entry.human is False:
            notes = {**notes, "human": False}
    elif entry.kind == "summary":
        found = prepare({"text": entry.message.get("text")})
        draft = Draft(SUMMARY, found.body, REPLACED if found.replaced else 0)
    else:
        draft, start = _compaction(entry.message), entry.message.get("from")
    # A label is a name that leads back to its entry; what a file calls so is not.
    if LABEL in notes:
        notes = {"source_label" if key == LABEL else key: value for key, value in notes.items()}
    note = None
    if notes:
        note = _sealed(notes) or encode_json(dict(notes), what="notes", strict=False)
    return Item(entry.uid, entry.parent, draft, time, note, said, start)


def _holds_results(message: Mapping[str, Json]) -> bool:
    """The quick answer for a third of what agents write: nothing in it but a tool's result."""
    content = message.get("content")
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return False
    return bool(content[0].get("type") == "tool_result" and content[0].get("tool_use_id"))


def _sealed(value: Mapping[str, Json]) -> bytes | None:
    """The JSON text of what surely is JSON, because it comes back equal; None: `prepare` has to judge.
    Nearly all that is loaded was JSON a moment ago: this is the fast way for it."""
    try:
        body = _encode(value)
        small = len(body) <= MAX_MESSAGE_BYTES and body.count(b"{") + body.count(b"[") <= MAX_DEPTH
        return body if small and _decode(body) == value else None
    except (ValueError, TypeError, RecursionError):
        return None


def _compaction(message: dict[str, Json]) -> Draft:
    """The messages and tokens of a compaction; its `start` follows when its place is known."""
    given = message.get("messages") or [{"role": "user", "content": message.get("text") or ""}]
    if not isinstance(given, list):
        raise InvalidError(f"a compaction needs a list of messages, not {type(given).__name__}")
    tokens = message.get("tokens")
    prepared = [prepare(one, index=index) for index, one in enumerate(given)]
    counted = b"null"
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        counted = b"%d" % tokens
    body = b'"tokens":%s,"messages":[%s]}' % (counted, b",".join(found.body for found in prepared))
    return Draft(COMPACTION, body, REPLACED if any(found.replaced for found in prepared) else 0)


class Placing:
    """One batch on its way to its places, inside a transaction."""

    def __init__(self, tx: Transaction, row: SessionRow, memory: Memory) -> None:
        self._tx = tx
        self._row = row
        self._memory = memory
        self.fresh: dict[str, tuple[int, int]] = {}
        self._tips: dict[int, Tip] = {}
        """Of the branches on which this session may go on."""
        self._uids: dict[int, str] = {}
        self._pending: dict[int, list[EntryRow]] = {}
        self._order: list[tuple[int, int, str]] = []
        self.last: Tip | None = None

    def put(self, items: Sequence[Item], before: str | None) -> None:
        """`before`: the entry behind which one goes whose parent is not here."""
        for item in items:
            if self.last is not None and item.parent == before:
                after = self.last
            else:
                after = self._after(item.parent, before)
            if not after.branch or self._tips.get(after.branch) is not after:
                after = self._open(after)
            branch = after.branch
            rows, tip = chain(after, branch, [self._ready(item, after)], item.time)
            self._pending.setdefault(branch, []).extend(rows)
            self._tips[branch] = tip
            self.fresh[item.name] = branch, tip.position
            self._order.append((branch, tip.position, item.name))
            self.last = tip
            before = item.name
            if item.note is not None:
                self._tx.put_record(
                    STORE_WIDE, "annotation", note_name(self._uid(branch), tip.position), item.note
                )
        self._flush()

    def runs(self) -> list[Run]:
        """Where the entries lie, in the order of their source."""
        found: list[Run] = []
        names: list[str] = []
        at, first, following = 0, 0, -1
        for branch, position, name in self._order:
            if names and (branch, position) != (at, following):
                found.append(Run(self._uid(at), first, len(names), "", tuple(names)))
                names = []
            if not names:
                at, first = branch, position
            names.append(name)
            following = position + 1
        if names:
            found.append(Run(self._uid(at), first, len(names), "", tuple(names)))
        return found

    def place(self, name: str | None) -> tuple[int, int] | None:
        return None if name is None else self.fresh.get(name) or self._memory.place(name)

    def _after(self, parent: str | None, before: str | None) -> Tip:
        """The place behind which an entry goes."""
        place = self.place(parent)
        if place is None:
            place = self.place(before) if parent is not None else None
            if place is None:
                return EMPTY
        branch, position = place
        if branch not in self._tips and self._tx.get_branch(branch).owner == self._row.sid:
            self._tips[branch] = tip_at(self._tx, branch, self._tx.last_position(branch))
        tip = self._tips.get(branch)
        if tip is not None and tip.position == position:
            return tip
        pending = self._pending.get(branch)
        if pending and position >= pending[0].position:
            return pending[position - pending[0].position].tip(branch)
        return tip_at(self._tx, branch, position)

    def _open(self, after: Tip) -> Tip:
        self._flush()
        branch, uid = new_branch(self._tx, self._row, after)
        self._uids[branch] = uid
        return msgspec.structs.replace(after, branch=branch)

    def _ready(self, item: Item, after: Tip) -> Draft:
        draft = item.draft
        if draft.kind != COMPACTION:
            return draft
        place = self.place(item.start)
        start = after.position + 1 if place is None else min(place[1], after.position + 1)
        return msgspec.structs.replace(draft, body=b'{"start":%d,' % start + draft.body)

    def _uid(self, branch: int) -> str:
        if branch not in self._uids:
            self._uids[branch] = self._tx.get_branch(branch).uid
        return self._uids[branch]

    def _flush(self) -> None:
        for branch, rows in self._pending.items():
            self._tx.add_entries(branch, rows)
        self._pending.clear()
