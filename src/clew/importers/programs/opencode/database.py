"""The database of OpenCode: a session in it, message by message, and which sessions changed since a place.

Rows change in place. An answer is written part by part and word by word, and only its end says that it is
whole; an entry in a store never changes. So a message waits until it is finished, or until its session has
gone on without it. What was read once is known again by the number of its rows and the sum of their times.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from clew.importers.contract import NotFollowedError, OnBytes, OnProblem, Problem
from clew.importers.programs.opencode.messages import StoredMessage
from clew.importers.programs.opencode.stored import IDS
from clew.importers.reading.seen import doubt
from clew.importers.reading.sqlite import reporting, rows, snapshot
from clew.importers.reading.values import decode_or_none, digest, flaw_of, mapping, without
from clew.model import Json

if TYPE_CHECKING:
    import apsw

_DATA: Final = {
    "message": "SELECT * FROM message WHERE id = ?",
    "part": "SELECT * FROM part WHERE id = ?",
}
_QUIET: Final = 5_000
"""Milliseconds after which a prompt surely has all its parts,"""
_DEAD: Final = 3_600_000
"""and after which nobody is writing an answer any more that was left unfinished."""
_SUMMARY: Final = (
    """SELECT data LIKE '%"summary":true%' OR data LIKE '%"summary": true%' AS yes"""
    " FROM message WHERE id = ?"
)
# Names only: so that SQLite sorts little, and where an index is missing makes one for itself.
_NAMES: Final = (
    "SELECT message.id AS message, part.id AS part FROM message"
    " LEFT JOIN part ON part.message_id = message.id WHERE message.session_id = ?"
    " ORDER BY message.time_created, message.id, part.id"
)
_LATER_NAMES: Final = _NAMES.replace(" ORDER", " AND (message.time_created, message.id) > (?, ?) ORDER")
_MOST_SESSIONS: Final = 64
"""So many are kept with a place: another one that changed is read as a whole."""


def now() -> int:
    """In the milliseconds of the database."""
    return int(time.time() * 1000)


# -- what is known of a database up to a place


class Sums(msgspec.Struct, array_like=True):
    """Rows, and the sums of the times at which they were written last."""

    messages: int = 0
    message_times: int = 0
    parts: int = 0
    part_times: int = 0


class Known(msgspec.Struct, array_like=True):
    """A session that was read, up to its last message that is whole."""

    id: str
    row: str
    """The digest of what its row says."""
    last: tuple[int, str] | None = None
    """When that message was made, and its id."""
    end: str | None = None
    """The uid of its last entry."""
    sums: Sums = msgspec.field(default_factory=Sums)
    model: str | None = None
    vendor: str | None = None
    """As messages told them."""
    waits: bool = False
    """For a message to be finished."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """The last row of a table: later ones are new. One that is gone may have left its number to another."""

    number: int = 0
    id: str = ""


class State(msgspec.Struct, array_like=True):
    messages: Mark = Mark()
    parts: Mark = Mark()
    updated: int = 0
    """The latest time of a session's row."""
    sessions: list[Known] = []
    """Those that changed last; the latest last."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(State).decode


def decode_state(state: bytes) -> State:
    try:
        return _decode(state)
    except msgspec.MsgspecError as error:
        raise NotFollowedError(f"the state of a database cannot be read: {error}") from error


def encode_state(state: State) -> bytes | None:
    """None: too many sessions wait, or a name in it is no UTF-8."""
    kept = state.sessions[-_MOST_SESSIONS:]
    if any(known.waits for known in state.sessions[:-_MOST_SESSIONS]):
        return None
    try:
        return _encode(msgspec.structs.replace(state, sessions=kept))
    except (UnicodeEncodeError, OverflowError):
        return None


def has_times(db: apsw.Connection) -> bool:
    """Whether rows tell when they were written last. Without that nothing tells what changed."""
    import apsw

    try:
        for table in ("session", "message", "part"):
            list(rows(db, f"SELECT rowid, id, time_updated FROM {table} LIMIT 1"))  # noqa: S608 (our names)
    except apsw.SQLError:
        return False
    return True


class Changes(NamedTuple):
    marks: State
    """Without sessions."""
    listed: list[dict[str, Json]]
    """The rows of sessions that are to be read, oldest first."""


def changes_since(db: apsw.Connection, before: State | None) -> Changes:
    """What was written since. None: everything."""
    with snapshot(db):
        listed = list(rows(db, "SELECT * FROM session ORDER BY time_created, id"))
        times = [row["time_updated"] for row in listed if isinstance(row["time_updated"], int)]
        marks = State(_mark(db, "message"), _mark(db, "part"), max(times, default=0))
        if before is None:
            return Changes(marks, listed)
        wanted = _new_rows(db, "message", before.messages) | _new_rows(db, "part", before.parts)
        is_sure = _is_there(db, "message", before.messages) and _is_there(db, "part", before.parts)
    known = {one.id: one for one in before.sessions}
    wanted |= {id for id, one in known.items() if one.waits or not is_sure}
    for row in listed:
        id, updated = str(row["id"]), row["time_updated"]
        is_recent = not isinstance(updated, int) or updated >= before.updated
        if is_recent and (id not in known or known[id].row != digest(row)):
            wanted.add(id)
    return Changes(marks, [row for row in listed if str(row["id"]) in wanted])


def _mark(db: apsw.Connection, table: Literal["message", "part"]) -> Mark:
    found = list(rows(db, f"SELECT rowid AS n, id FROM {table} ORDER BY rowid DESC LIMIT 1"))  # noqa: S608
    return Mark(found[0]["n"], str(found[0]["id"])) if found else Mark()


def _new_rows(db: apsw.Connection, table: Literal["message", "part"], mark: Mark) -> set[str]:
    wanted = f"SELECT DISTINCT session_id AS id FROM {table} WHERE rowid > ?"  # noqa: S608
    return {str(row["id"]) for row in rows(db, wanted, (mark.number,))}


def _is_there(db: apsw.Connection, table: Literal["message", "part"], mark: Mark) -> bool:
    wanted = f"SELECT id FROM {table} WHERE rowid = ?"  # noqa: S608
    return mark.number == 0 or [str(row["id"]) for row in rows(db, wanted, (mark.number,))] == [mark.id]


# -- one session


class _Row(NamedTuple):
    """A message that was read, still to be settled."""

    made: int
    id: str
    sums: Sums
    changed: int


class InDatabase:
    """`known`: only what stands behind the messages that were read before."""

    def __init__(
        self,
        db: apsw.Connection,
        row: dict[str, Json],
        path: Path,
        on_problem: OnProblem,
        on_bytes: OnBytes = lambda size: None,
        known: Known | None = None,
    ) -> None:
        self._db = db
        self._path = path
        self._on_problem = on_problem
        self._on_bytes = on_bytes
        self.key = str(row["id"])
        self.info = _as_in_files(row)
        self.known = known if known is not None and self._is_as_before(known) else None
        """What was read before; None: it is read from its first message on."""
        self._row = digest(row)
        self._read: list[_Row] = []
        self._sums = Sums() if self.known is None else msgspec.structs.replace(self.known.sums)
        self._last = None if self.known is None else self.known.last
        self._waits = False
        self.has_failed = False

    # -- whether what was read is still so

    def _is_as_before(self, known: Known) -> bool:
        if known.last is None or self.info.get("revert"):
            return False
        with snapshot(self._db):
            later = self._later(known.last)
            if any(next(rows(self._db, _SUMMARY, (id,)), {"yes": 1})["yes"] for id in later):
                return False  # it names a message before which all is left out: the first entries count
            parts = " WHERE message_id = ?"
            within = [self._sum("part", parts, id) for id in later]
            whole = (
                *self._sum("message", " WHERE session_id = ?"),
                *self._sum("part", " WHERE session_id = ?"),
            )
            times = [self._sum("message", " WHERE id = ?", id)[1] for id in later]
        rest = Sums(len(later), sum(times), sum(n for n, _ in within), sum(at for _, at in within))
        names = Sums.__struct_fields__
        return all(
            number - getattr(rest, name) == getattr(known.sums, name)
            for name, number in zip(names, whole, strict=True)
        )

    def _later(self, last: tuple[int, str]) -> list[str]:
        wanted = (
            "SELECT id FROM message WHERE session_id = ? AND (time_created, id) > (?, ?)"
            " ORDER BY time_created, id"
        )
        return [str(row["id"]) for row in rows(self._db, wanted, (self.key, *last))]

    def _sum(self, table: Literal["message", "part"], where: str, id: str | None = None) -> tuple[int, int]:
        wanted = f"SELECT count(*) AS n, sum(time_updated) AS times FROM {table}{where}"  # noqa: S608 (ours)
        (found,) = rows(self._db, wanted, (self.key if id is None else id,))
        return found["n"], found["times"] or 0

    # -- its messages

    def messages(self) -> Iterator[StoredMessage]:
        """Those that are whole, oldest first."""
        self.has_failed = True  # until it has come to the end
        with reporting(self._path, self._on_problem):
            waiting: list[StoredMessage] = []
            for stored in self._all():
                if stored.data.get("role") == "assistant":
                    # The session went on with another answer: nobody writes to what came before it.
                    yield from self._settled(waiting)
                    waiting = [stored]
                    if _is_finished(stored):
                        yield from self._settled(waiting)
                elif waiting and waiting[0].data.get("role") == "assistant":
                    waiting.append(stored)  # a prompt that waits for its turn
                else:
                    yield from self._settled(waiting)
                    waiting = [stored]
            if waiting and self._is_quiet(waiting):
                yield from self._settled(waiting)
            if waiting:
                self._waits = True
                doubt()
            self.has_failed = False

    def _settled(self, waiting: list[StoredMessage]) -> Iterator[StoredMessage]:
        """Give them out, and count their rows, and those of damaged messages before them."""
        for stored in waiting:
            while self._read:
                row = self._read.pop(0)
                self._count(row)
                if row.id == stored.id:
                    break
            yield stored
        waiting.clear()

    def _count(self, row: _Row) -> None:
        self._last = row.made, row.id
        for name in Sums.__struct_fields__:
            setattr(self._sums, name, getattr(self._sums, name) + getattr(row.sums, name))

    def _is_quiet(self, waiting: list[StoredMessage]) -> bool:
        """Whether all of them were left as they are long ago."""
        is_answer = waiting[0].data.get("role") == "assistant"
        ids = {stored.id for stored in waiting}
        changed = max((row.changed for row in self._read if row.id in ids), default=0)
        return now() - changed >= (_DEAD if is_answer else _QUIET)

    def _all(self) -> Iterator[StoredMessage]:
        for message, names in groupby(self._names(), key=itemgetter("message")):
            parts = [str(row["part"]) for row in names if row["part"] is not None]
            with snapshot(self._db):
                own = next(iter(list(rows(self._db, _DATA["message"], (str(message),)))), None)
                found = [row for name in parts for row in rows(self._db, _DATA["part"], (name,))]
            if own is None:
                continue  # it was deleted a moment ago
            self._note(own, found)
            data = self._data("message", own)
            whole = [(str(row["id"]), self._data("part", row)) for row in found]
            if data is not None:
                yield StoredMessage(
                    str(message), data, [(name, part) for name, part in whole if part is not None]
                )

    def _names(self) -> list[dict[str, Json]]:
        if self._last is None:
            return list(rows(self._db, _NAMES, (self.key,)))
        return list(rows(self._db, _LATER_NAMES, (self.key, *self._last)))

    def _note(self, message: dict[str, Json], parts: list[dict[str, Json]]) -> None:
        times = [_time(row, "time_updated") for row in (message, *parts)]
        sums = Sums(1, times[0], len(parts), sum(times[1:]))
        made = _time(message, "time_created")
        self._read.append(_Row(made, str(message["id"]), sums, max(made, *times)))

    def _data(self, table: Literal["message", "part"], row: dict[str, Json]) -> dict[str, Json] | None:
        raw = row["data"]
        self._on_bytes(len(raw) if isinstance(raw, str) else 0)
        data = decode_or_none(raw)
        if isinstance(data, dict):
            return without(data, IDS)
        reason = f"the data of {table} {row['id']} {flaw_of(raw, 'a JSON object')}"
        self._on_problem(Problem(path=str(self._path), line=None, reason=reason))
        return None

    # -- what is known of it now

    def known_now(self, end: str | None, model: str | None, vendor: str | None) -> Known:
        return Known(
            id=self.key,
            row=self._row,
            last=self._last,
            end=end,
            sums=self._sums,
            model=model,
            vendor=vendor,
            waits=self._waits,
        )


def _is_finished(answer: StoredMessage) -> bool:
    return mapping(answer.data.get("time")).get("completed") is not None


def _time(row: dict[str, Json], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def copied_calls(db: apsw.Connection, session: str, times: Iterable[int]) -> list[StoredMessage]:
    """Messages of other sessions that were made at one of these moments: a fork copies messages, and keeps
    their times."""
    wanted = set(times)
    with snapshot(db):
        scan = rows(db, "SELECT id, time_created AS made FROM message WHERE session_id <> ?", (session,))
        ids = [str(row["id"]) for row in scan if row["made"] in wanted]
        found = [row for id in ids for row in rows(db, _DATA["message"], (id,))]
    decoded = [(str(row["id"]), decode_or_none(row["data"])) for row in found]
    return [StoredMessage(id, without(data, IDS), []) for id, data in decoded if isinstance(data, dict)]


def _as_in_files(row: dict[str, Json]) -> dict[str, Json]:
    renamed = {"project_id": "projectID", "parent_id": "parentID"}
    info = {renamed.get(name, name): value for name, value in row.items() if value is not None}
    info["time"] = {name: row.get(f"time_{name}") for name in ("created", "updated")}
    for name in ("revert", "model", "permission"):
        if (value := decode_or_none(info.get(name))) is not None:
            info[name] = value
    return info
