"""Put loaded entries in their places, and remember what was loaded before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Final, NamedTuple

import msgspec
from blake3 import blake3

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.annotations import put_annotation
from clew.core.conversation.append import new_branch
from clew.core.conversation.history import note_name
from clew.core.conversation.points import find, tip_at
from clew.core.log.ids import MAX_ID_BYTES, MAX_POSITION, check_id
from clew.core.log.records import LOAD_STATE, decoder
from clew.core.log.rows import (
    COMPACTION,
    EMPTY,
    MESSAGE,
    NOT_HUMAN,
    REDACTED,
    REPLACED,
    SUMMARY,
    Draft,
    EntryRow,
    HeadRow,
    SessionRow,
)
from clew.core.log.tree import chain
from clew.core.messages.codec import encode_json, prepare
from clew.core.messages.dialects import is_user_turn, prompt_of, role_of
from clew.core.messages.search_text import TextPlace
from clew.core.messages.validate import MAX_DEPTH, MAX_MESSAGE_BYTES
from clew.core.redact.incoming import Incoming
from clew.errors import ConflictError, InvalidError
from clew.model import Head, Json
from clew.model.session import EPOCH
from clew.model.source import SourceEntry

# ── What was loaded before ────────────────────────────────────────────────────────────────────────
# What a session remembers of the source that it was loaded from: which of its entries are here, and where.
#
# The names of a source's entries lie in records of kind "key", one for each batch: they are keys by which
# something was appended once. A batch is a few runs of entries, each on one branch; so a name costs its own
# bytes, and no record of its own.

PREFIX: Final = "clew load "
STATE: Final = LOAD_STATE
SMALL: Final = 64
"""Names up to which the record of a batch grows."""
_BITS: Final = MAX_POSITION.bit_length()

_encode_memory = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="deterministic").encode


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Entries at consecutive positions of a branch: a `KeyUse`, and the names of them."""

    uid: str
    first: int
    count: int
    digest: str
    names: tuple[str, ...]


class State(msgspec.Struct, frozen=True):
    """How the last load left the session."""

    head: Head = Head("", -1)
    settings: dict[str, str] = {}
    """Name by name, what stands for the value that was set: a value that differs is the user's."""
    ended: bool = False
    """The source was read to its end."""
    title: str | None = None
    """The title that the source gives, for a user who gives none any more."""


class StateUse(msgspec.Struct, frozen=True, array_like=True):
    """A `KeyUse` that names the empty beginning, and the state."""

    uid: str
    first: int
    count: int
    digest: str
    state: State


_decode_runs: Callable[[bytes], list[Run]] = decoder(list[Run], "the record of an import")
_decode_state: Callable[[bytes], list[StateUse]] = decoder(list[StateUse], "the record of an import")


def sign(value: object) -> str:
    """What stands for a value in the state."""
    return blake3(_sorted(value)).hexdigest(8)


def signed(values: Mapping[str, object]) -> dict[str, str]:
    return {name: sign(value) for name, value in values.items()}


def packed(branch: int, position: int) -> int:
    """A place as one number, to be small. Those of entries one behind the other are consecutive."""
    return branch << _BITS | position


def unpacked(place: int) -> tuple[int, int]:
    return place >> _BITS, place & MAX_POSITION


class Memory:
    """The places of the entries that were loaded, by name."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.batches = 0
        self.state = State()
        self.last = b""
        """The record of the last batch,"""
        self.names = 0
        """and how many names it has."""
        self.kept_state = b""
        """The record of the state."""

    def place(self, name: str) -> tuple[int, int] | None:
        """(branch, position)."""
        found = self.places.get(name)
        return None if found is None else unpacked(found)

    def is_current(self, reader: Reader, sid: int) -> bool:
        """Whether the store has just what is remembered here."""
        return (
            reader.get_record(sid, "key", STATE) == self.kept_state
            and (not self.batches or reader.get_record(sid, "key", batch_name(self.batches)) == self.last)
            and reader.get_record(sid, "key", batch_name(self.batches + 1)) is None
        )


class Memories:
    """What sessions that were loaded a short while ago remember, so that it is not read again for each line
    that a program writes. The store is asked whether it is still so."""

    def __init__(self, most: int = 32, most_names: int = 100_000) -> None:
        self._most = most
        self._most_names = most_names
        self._kept: dict[int, Memory] = {}
        """The last used last."""

    def find(self, reader: Reader, sid: int) -> Memory | None:
        known = self._kept.pop(sid, None)
        if known is not None and known.is_current(reader, sid):
            return known
        return recall(reader, sid)

    def keep(self, sid: int, memory: Memory) -> None:
        self._kept.pop(sid, None)
        self._kept[sid] = memory
        names = sum(len(one.places) for one in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > self._most or names > self._most_names):
            names -= len(self._kept.pop(next(iter(self._kept))).places)


def recall(reader: Reader, sid: int) -> Memory | None:
    """The memory of a session; None: it was never loaded."""
    value = reader.get_record(sid, "key", STATE)
    if value is None:
        return None
    memory = Memory()
    memory.kept_state = value
    memory.state = _decode_state(value)[0].state
    branches: dict[str, int | None] = {}
    after = batch_name(1)
    while found := reader.scan_records(sid, "key", after, batch_name(10**8 - 1), limit=64):
        for name, raw in found:
            runs = _decode_runs(raw)
            _take(reader, memory, runs, branches)
            memory.batches += 1
            memory.last, memory.names = raw, sum(len(run.names) for run in runs)
            after = name + "\x01"
    return memory


def state_of(reader: Reader, sid: int) -> State | None:
    """How the last load left a session; None: it was never loaded."""
    value = reader.get_record(sid, "key", STATE)
    return None if value is None else _decode_state(value)[0].state


def find_target(
    reader: Reader, id: str, *, rename: bool, remember: Callable[[Reader, int], Memory | None] | None = None
) -> tuple[str, SessionRow | None, Memory | None]:
    """The session that this source was loaded into, or the id for a new one. `remember`: asked instead of
    `recall`."""
    for number in count(1):
        name = id if number == 1 else f"{id}~{number}"
        holder = find(reader, name)  # asked once: another process may make the session meanwhile
        row = holder if holder is not None else reader.find_session(name, deleted=True)
        if row is not None and row.id != name:
            row = None
        memory = None if row is None else (remember or recall)(reader, row.sid)
        if memory is not None:
            return name, row, memory
        if holder is None:
            return name, None, None
        if not rename:
            raise ConflictError(
                f"the store has another session {name!r}; pass rename=True to give this one a new id"
            )
    raise AssertionError("not reached")


def _take(reader: Reader, memory: Memory, runs: Sequence[Run], branches: dict[str, int | None]) -> None:
    for run in runs:
        if run.uid not in branches:
            found = reader.find_branch(run.uid)
            branches[run.uid] = None if found is None else found.branch
        branch = branches[run.uid]
        if branch is not None:
            start = packed(branch, run.first)
            memory.places.update(zip(run.names, range(start, start + len(run.names)), strict=True))


def batch_name(number: int) -> str:
    return f"{PREFIX}{number:08d}"


def count_names(raw: bytes) -> int:
    """How many names the record of a batch has."""
    return sum(len(run.names) for run in _decode_runs(raw))


class KeptRuns(NamedTuple):
    """The record of a batch, as it was written."""

    number: int
    names: int
    raw: bytes


def keep_runs(tx: Transaction, sid: int, memory: Memory, runs: Sequence[Run]) -> KeptRuns | None:
    """Write down which names a batch has. The record of the last batch grows as long as it is small: a
    program that is followed line by line must not leave a record for each line. None: another process has
    loaded something since the memory was read; nothing is written."""
    number = memory.batches + 1
    if memory.batches and tx.get_record(sid, "key", batch_name(memory.batches)) != memory.last:
        return None
    if tx.get_record(sid, "key", batch_name(number)) is not None:
        return None
    names = sum(len(run.names) for run in runs)
    if memory.batches and memory.names + names <= SMALL:
        number -= 1
        names += memory.names
        runs = joined(_decode_runs(memory.last), runs)
    raw = _encode_memory(runs)
    tx.put_record(sid, "key", batch_name(number), raw)
    return KeptRuns(number, names, raw)


def joined(runs: Sequence[Run], more: Sequence[Run]) -> list[Run]:
    """Runs in their order; what goes on where the one before it ends is one run with it."""
    found = list(runs)
    for run in more:
        last = found[-1] if found else None
        if last is not None and last.uid == run.uid and last.first + last.count == run.first:
            names = last.names + run.names
            found[-1] = Run(last.uid, last.first, len(names), last.digest, names)
        else:
            found.append(run)
    return found


def keep_state(tx: Transaction, sid: int, state: State) -> bytes:
    raw = _encode_memory([StateUse("", 0, 0, "", state)])
    tx.put_record(sid, "key", STATE, raw)
    return raw


def settled(state: State, wanted: Mapping[str, object], present: Mapping[str, object]) -> dict[str, object]:
    """Those of the wanted values that are to be set: they are new, and the user set no others."""
    found = {}
    for name, value in wanted.items():
        before = state.settings.get(name)
        if sign(value) != before and (before is None or sign(present.get(name)) == before):
            found[name] = value
    return found


# ── Entries of another program's session, put in their places with their own times ────────────────
# A batch is one transaction. Each entry goes behind its parent: on the branch of that one if it is its tip
# and this session's, else on a new branch. So what a program abandoned is a branch, and what the user said
# here since stays where it is.

LABEL: Final = "label"
_SURELY_FLAT: Final = 2 * MAX_DEPTH
"""Each level has two brackets: what is shorter is not too deep."""
_COUNTED: Final = 1500
"""Bytes up to which counting brackets is quicker than looking at the value."""
_CONTAINERS: Final = frozenset({dict, list})

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Item(Draft, frozen=True, gc=False):
    """An entry that passed the door."""

    name: str = ""
    parent: str | None = None
    time: int = 0
    note: bytes | None = None
    """Encoded."""
    said: str = ""
    """The words of a human in it."""
    start: str | None = None
    """Of a compaction: from where on entries stay in view."""


def item_of(entry: SourceEntry, time: int, redactor: Incoming | None = None) -> Item:
    """Check an entry, and take definite secrets out of it. InvalidError: its name or what it holds cannot be
    kept."""
    name = entry.uid
    if not is_plain_name(name):
        check_id(name, "uid")
    note = _note(entry.notes, entry.decoded) if entry.notes else None
    if note is not None and redactor is not None:
        note = redactor.body(note)
    if entry.kind != "message":
        return _mark(entry, time, note, redactor)
    message = entry.message
    body, flags = sealed(message, entry.decoded), 0
    if body is None:
        found = prepare(message)
        body, flags, message = found.body, REPLACED if found.replaced else 0, found.value
    if redactor is not None and (clean := redactor.body(body)) is not body:
        body, flags, message = clean, flags | REDACTED, _decode(clean)
    is_turn, said = False, ""
    if _may_be_user(message):
        is_turn = is_user_turn(message)
        if entry.human is False and role_of(message) == "user":
            flags, is_turn = flags | NOT_HUMAN, False
        said = prompt_of(message) if is_turn else ""
    return Item(MESSAGE, body, flags, is_turn, None, name, entry.parent, time, note, said)


def _mark(entry: SourceEntry, time: int, note: bytes | None, redactor: Incoming | None) -> Item:
    """A summary or a compaction."""
    start = None
    if entry.kind == "summary":
        found = prepare({"text": entry.message.get("text")})
        kind, body, flags = SUMMARY, found.body, REPLACED if found.replaced else 0
    else:
        kind, start = COMPACTION, entry.message.get("from")
        body, flags = _compaction(entry.message)
    if redactor is not None and (clean := _clean_mark(kind, body, redactor)) is not body:
        body, flags = clean, flags | REDACTED
    return Item(kind, body, flags, False, None, entry.uid, entry.parent, time, note, "", start)


def _clean_mark(kind: int, body: bytes, redactor: Incoming) -> bytes:
    if kind != COMPACTION:
        return redactor.body(body)
    whole = b"{" + body  # its beginning follows when its place is known
    clean = redactor.body(whole)
    return body if clean is whole else clean[1:]


def _note(notes: Mapping[str, Json], decoded: bool) -> bytes:
    # A label is a name that leads back to its entry; what a file calls so is not.
    if LABEL in notes:
        notes = {"source_label" if key == LABEL else key: value for key, value in notes.items()}
    return sealed(notes, decoded) or encode_json(dict(notes), what="notes", strict=False)


def _may_be_user(message: Mapping[str, Json]) -> bool:
    """The quick answer for most of what agents write: another role, or nothing but a tool's result. Only
    Gemini leaves out the role of a user.

    Without it, loading files of `benchmarks/imports/files.py` (4 MB each) took 1.03 to 1.10 times as long.
    """
    role = message.get("role")
    if role != "user":
        return role is None and "parts" in message
    content, parts = message.get("content"), message.get("parts")
    if parts is None:
        block = content[0] if type(content) is list and len(content) == 1 else None
        return not (type(block) is dict and block.get("type") == "tool_result" and block.get("tool_use_id"))
    block = parts[0] if content is None and type(parts) is list and len(parts) == 1 else None
    response = block.get("functionResponse") if type(block) is dict and len(block) == 1 else None
    return not (type(response) is dict and type(name := response.get("name")) is str and name)


def sealed(value: Json, decoded: bool) -> bytes | None:
    """The JSON text of a value that surely is JSON; None: `prepare` has to judge. Nearly all that is loaded
    was JSON a moment ago. `decoded`: the reader says so; else it is JSON if it comes back equal.

    Without it, loading files of `benchmarks/imports/files.py` (4 MB each) took 1.00 to 1.08 times as long.
    """
    try:
        body = _encode(value)
        if len(body) > _SURELY_FLAT and not _is_fit(body, value):
            return None
        return body if decoded or _decode(body) == value else None
    except (ValueError, TypeError, RecursionError):
        return None


def _is_fit(body: bytes, value: Json) -> bool:
    """Whether it is neither too large nor too deep, as far as a quick look tells."""
    if len(body) <= _COUNTED:
        return body.count(b"{") + body.count(b"[") <= MAX_DEPTH
    return len(body) <= MAX_MESSAGE_BYTES and _levels_are_few(value)


def _levels_are_few(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        within = (node.values() if type(node) is dict else node for node in level)
        level = [item for items in within for item in items if type(item) in _CONTAINERS]
        if not level:
            return True
    return False


def _compaction(message: dict[str, Json]) -> tuple[bytes, int]:
    """The messages and tokens of a compaction, and its flags; its `start` follows when its place is known."""
    given = message.get("messages") or [{"role": "user", "content": message.get("text") or ""}]
    if not isinstance(given, list):
        raise InvalidError(f"a compaction needs a list of messages, not {type(given).__name__}")
    tokens = message.get("tokens")
    prepared = [prepare(one, index=index) for index, one in enumerate(given)]
    counted = b"null"
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        counted = b"%d" % tokens
    body = b'"tokens":%s,"messages":[%s]}' % (counted, b",".join(found.body for found in prepared))
    return body, REPLACED if any(found.replaced for found in prepared) else 0


class Placing:
    """One batch on its way to its places, inside a transaction."""

    def __init__(self, tx: Transaction, row: SessionRow, memory: Memory) -> None:
        self._tx = tx
        self._row = row
        self._memory = memory
        self.fresh: dict[str, int] = {}
        """The places of its entries, as the memory holds them."""
        self._tips: dict[int, HeadRow] = {}
        """Of the branches on which this session may go on."""
        self._uids: dict[int, str] = {}
        self._pending: dict[int, list[EntryRow]] = {}
        self._order: list[tuple[int, int, list[str]]] = []
        """Branch, first position and names of what lies together."""
        self.last: HeadRow | None = None

    def put(self, items: Sequence[Item], before: str | None) -> None:
        """`before`: the entry behind which one goes whose parent is not here."""
        first = 0
        while first < len(items):
            end = _end_of_row(items, first)
            parent = items[first].parent
            if self.last is not None and parent == before:
                after = self.last
            else:
                after = self._after(parent, before)
            if not after.branch or self._tips.get(after.branch) is not after:
                after = self._open(after)
            self._extend(after, items[first:end])
            first, before = end, items[end - 1].name
        self._flush()

    def _extend(self, tip: HeadRow, items: Sequence[Item]) -> None:
        """Put items one behind the other on the branch of this tip."""
        branch, first = tip.branch, tip.position + 1
        pending = self._pending.setdefault(branch, [])
        for item in items:
            ready = item if item.kind != COMPACTION else self._ready(item, tip)
            (row,), tip = chain(tip, branch, (ready,), item.time)
            pending.append(row)
            if item.note is not None:
                name = note_name(self._uid(branch), tip.position)
                place = TextPlace(row.time, branch, row.position)
                put_annotation(self._tx, STORE_WIDE, name, item.note, place=place)
        self._tips[branch] = self.last = tip
        names = [item.name for item in items]
        start = packed(branch, first)
        self.fresh.update(zip(names, range(start, start + len(names)), strict=True))
        self._order.append((branch, first, names))

    def runs(self) -> list[Run]:
        """Where the entries lie, in the order of their source."""
        found: list[tuple[int, int, list[str]]] = []
        for branch, first, names in self._order:
            if found and found[-1][0] == branch:  # a branch grows at its tip only: they go on from there
                found[-1][2].extend(names)
            else:
                found.append((branch, first, [*names]))
        return [Run(self._uid(branch), first, len(names), "", tuple(names)) for branch, first, names in found]

    def place(self, name: str | None) -> tuple[int, int] | None:
        if name is None:
            return None
        found = self.fresh.get(name)
        return self._memory.place(name) if found is None else unpacked(found)

    def _after(self, parent: str | None, before: str | None) -> HeadRow:
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

    def _open(self, after: HeadRow) -> HeadRow:
        self._flush()
        branch, uid = new_branch(self._tx, self._row, after)
        self._uids[branch] = uid
        return msgspec.structs.replace(after, branch=branch)

    def _ready(self, item: Item, after: HeadRow) -> Draft:
        """A compaction that says where the view begins."""
        place = self.place(item.start)
        start = after.position + 1 if place is None else min(place[1], after.position + 1)
        return msgspec.structs.replace(item, body=b'{"start":%d,' % start + item.body)

    def _uid(self, branch: int) -> str:
        if branch not in self._uids:
            self._uids[branch] = self._tx.get_branch(branch).uid
        return self._uids[branch]

    def _flush(self) -> None:
        for branch, rows in self._pending.items():
            self._tx.add_entries(branch, rows)
        self._pending.clear()


def _end_of_row(items: Sequence[Item], first: int) -> int:
    """Up to where each item goes behind the one before it. What a compaction names has its place by then."""
    end = first + 1
    while end < len(items) and items[end].parent == items[end - 1].name and items[end].start is None:
        end += 1
    return end


# -- times and names as other programs give them


_LATEST: Final = 2**57


def time_of(at: datetime | None, otherwise: int) -> int:
    """Microseconds; a time that no store can hold is none."""
    if at is None or at.tzinfo is None:
        return otherwise
    since = at - EPOCH
    time = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return time if 0 <= time < _LATEST else otherwise


def is_plain_name(text: str) -> bool:
    """The quick yes for what nearly all names are: `check_id` would take it."""
    return type(text) is str and text.isascii() and text.isprintable() and 0 < len(text) <= MAX_ID_BYTES
