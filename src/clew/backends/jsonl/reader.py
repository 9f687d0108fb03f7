"""Reads: of the index, and of the logs where the bodies are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import apsw

from clew.backends.jsonl import disk, log_file
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.log_file import OF_THE_PROCESS, pack_place, read_pack
from clew.backends.jsonl.sql import (
    ALL_DAMAGE,
    BODY_PLACE,
    DAMAGE_OF_LOG,
    LIST_PACKS,
    LOG_AND_SESSION,
    LOG_NAME,
    LOG_OF_BRANCH,
    PACK_FILE,
)
from clew.backends.rows import MISSING
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.rows import POSITION_BITS, Row, entry_values
from clew.backends.sqlite.sql import BEGIN, ROLLBACK
from clew.core.log.digest import RAW, checksum
from clew.core.log.rows import BranchRow, EntryRow, Listed, PackInfo, SessionQuery
from clew.errors import CorruptEntryError, CorruptSessionError, UnreadableEntryError

# -- where a body lies: the index holds a reference, the log the body

LOGGED: Final = 64
"""The codec of a body that lies in a log."""
AHEAD: Final = 128 * 1024
_reference = struct.Struct("<qqq")


def referring_values(branch: int, row: EntryRow, log: int, offset: int) -> Row:
    """The columns of an entry whose body lies in a log."""
    return (
        branch << POSITION_BITS | row.position, row.kind, row.time, row.flags, LOGGED,
        checksum(row.body, row.position, row.time, row.kind, RAW, row.flags), row.digest,
        row.messages, row.turns, row.size, row.view_start, row.summary, row.last_user_turn, row.epoch,
        _reference.pack(log, offset, len(row.body)),
    )  # fmt: skip


def column_values(branch: int, row: EntryRow, log: int, offset: int | None) -> Row:
    """The columns of an entry; without an offset its body is kept in the index."""
    return entry_values(branch, row) if offset is None else referring_values(branch, row, log, offset)


class Bodies:
    """Gives rows their bodies. Reads ahead: the entries of a history lie side by side.

    Files are opened for one pass and closed after it: their number is bounded, and a log that was
    rewritten is seen as it is.
    """

    def __init__(
        self, connection: apsw.Connection, layout: Layout, fresh: Mapping[tuple[int, int], bytes]
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._fresh = fresh
        """Bodies that this transaction has written and that are in no file yet."""
        self._handle: int | None = None
        self._log = 0
        self._start = 0
        self._window = b""
        self._sequential = False

    def fill(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows with their bodies instead of the references, their codec RAW."""
        try:
            for row in rows:
                codec_at = 4 if len(row) > 6 else 3
                if row[codec_at] == LOGGED:
                    yield (*row[:codec_at], RAW, *row[codec_at + 1 : -1], self.body(row[-1]))
                else:
                    yield row
        finally:
            self.close()

    def body(self, reference: Any) -> bytes:
        """What is not there, or cannot be read, is empty: its checksum will not match."""
        try:
            log, offset, length = _reference.unpack(reference)
        except (struct.error, TypeError):
            return b""
        fresh = self._fresh.get((log, offset))
        if fresh is not None:
            return fresh
        if log != self._log:
            self._open(log)
        if self._handle is None or offset < 0 or length < 0:
            return b""
        start = offset - self._start
        if start >= 0 and start + length <= len(self._window):
            return self._window[start : start + length]
        if length > AHEAD and length > disk.size(self._handle):
            return b""  # a damaged reference must not fill the memory
        begin, count = offset, length
        if self._sequential and length < AHEAD:
            begin, count = (
                (offset, AHEAD) if offset > self._start else (max(offset + length - AHEAD, 0), AHEAD)
            )
        self._sequential = True
        self._start, self._window = begin, self._read(count, begin)
        return self._window[offset - begin : offset - begin + length]

    def _read(self, count: int, begin: int) -> bytes:
        assert self._handle is not None
        try:
            return disk.read_at(self._handle, count, begin)
        except OSError as exc:
            if exc.errno in OF_THE_PROCESS:
                raise
            return b""

    def _open(self, log: int) -> None:
        self.close()
        self._log = log
        row = self._connection.execute(LOG_NAME, (log,)).fetchone()
        if row is not None:
            try:
                self._handle = disk.open_for_reading(self._layout.file(row[0]))
            except OSError as exc:
                if exc.errno in OF_THE_PROCESS:
                    raise
                self._handle = None

    def close(self) -> None:
        handle, self._handle = self._handle, None
        self._log, self._start, self._window, self._sequential = 0, 0, b"", False
        if handle is not None:
            disk.close(handle)


def log_and_place(reference: bytes) -> tuple[int, int, int]:
    """The log in which a body lies, where it begins there, and how long it is."""
    log, offset, length = _reference.unpack(reference)
    return log, offset, length


# -- the reader

T = TypeVar("T")

TRIES: Final = 3
"""How often a full look begins again because others scrub."""
NOTHING_FRESH: Final[Mapping[tuple[int, int], bytes]] = {}


class Care(Protocol):
    """What looks after the index: the backend."""

    def undisturbed(self, look: Callable[[], T]) -> T:
        """Look while no process writes: for a reader whose log was rewritten meanwhile."""

    def suspect(self, exc: BaseException | None) -> None:
        """Say that the index may be damaged."""


class NoCare:
    """For a caller that holds the lock of the store."""

    def undisturbed(self, look: Callable[[], T]) -> T:
        return look()

    def suspect(self, exc: BaseException | None) -> None: ...


class JsonlReader(SqliteReader):
    """`Reader` over the index."""

    def __init__(
        self,
        connection: apsw.Connection,
        branches: dict[int, BranchRow],
        layout: Layout,
        care: Care,
        fresh: Mapping[tuple[int, int], bytes] = NOTHING_FRESH,
    ) -> None:
        super().__init__(connection, branches)
        self._layout = layout
        self._care = care
        self._fresh = fresh

    # -- sessions

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        """A session that is damaged may be so in the index only."""
        found = super().list_sessions(query)
        for listed in found:
            if listed.damage:
                self._care.suspect(CorruptSessionError(listed.row.id, listed.damage))
        return found

    # -- log

    def _entry_rows(self, sql: str, bindings: Row) -> Any:
        # All at once, without bodies they are small: while a statement is open this connection sees the
        # index as it was, and a scrub waits for it.
        rows = self._execute(sql, bindings).fetchall()
        return Bodies(self.connection, self._layout, self._fresh).fill(rows)

    def get_entry(self, branch: int, position: int) -> EntryRow | None:
        look = partial(super().get_entry, branch, position)
        try:
            return look()
        except CorruptEntryError:
            pass
        except apsw.CorruptError as exc:
            self._care.suspect(exc)
            raise
        try:
            return self._care.undisturbed(look)
        except CorruptEntryError as exc:
            raise self._located(branch, position, str(exc.reason)) from exc

    def _missing(self, branch: int, position: int) -> CorruptEntryError:
        return self._located(branch, position, MISSING)

    def _located(self, branch: int, position: int, reason: str) -> CorruptEntryError:
        """The error with the file, and the lines of it that are known to be bad."""
        uid = self.get_branch(branch).uid
        row = self._one(LOG_OF_BRANCH, branch)
        if row is None:
            return CorruptEntryError(uid, position, reason)
        (name, sid) = self._one(LOG_AND_SESSION, row[0]) or ("?", 0)
        session = self.get_session(sid)
        file = str(self._layout.path(name)) + (f", the log of session {session.id!r}" if session else "")
        try:
            number = self._line_of(branch, position, name)
        except OSError as exc:
            return UnreadableEntryError(uid, position, f"{exc} ({file})")
        bad = [str(line) for line, _ in self._execute(DAMAGE_OF_LOG, (row[0],))]
        where = f"line {number}" if number else f"bad lines: {', '.join(bad) or 'none'}"
        return CorruptEntryError(uid, position, f"{reason} ({file}, {where})")

    def _line_of(self, branch: int, position: int, name: str) -> int | None:
        """OSError: its body cannot be read."""
        from clew.backends.sqlite.rows import key

        row = self._one(BODY_PLACE, key(branch, position))
        if row is None or row[0] != LOGGED:
            return None
        try:
            _, offset, length = log_and_place(row[1])
        except (struct.error, TypeError):
            return None
        try:
            handle = disk.open_for_reading(self._layout.file(name))
        except FileNotFoundError:
            return None
        try:
            disk.read_at(handle, min(max(length, 0), disk.size(handle)), max(offset, 0))
            return log_file.line_number(handle, offset)
        finally:
            disk.close(handle)

    # -- objects

    def get_pack(self, pack: int) -> bytes:
        row = self._one(PACK_FILE, pack)
        if row is None:
            raise KeyError(pack)
        size, codec, recorded, _ = row
        return read_pack(self._layout, pack, codec, size, recorded)

    def list_packs(self, after: int, limit: int) -> list[PackInfo]:
        return [
            PackInfo(pack, size, pack_place(content)[1], objects)
            for pack, size, content, objects in self._execute(LIST_PACKS, (after, limit))
        ]

    # -- damage of logs and index

    def damage(self, *, full: bool, go_on: Callable[[], None]) -> list[str]:
        """What is known to be damaged in the logs, by file and line. `full`: read the index and the logs from
        end to end, too, and whether the one says what the others say. One that does not is made again."""
        known = [_damaged(self._layout, *row) for row in self._execute(ALL_DAMAGE, ())]
        known += self._layout.strangers()
        if not full:
            return known
        from clew.backends.sqlite.schema import check

        broken = check(self.connection, go_on, f"the index {self._layout.index} is made again, for it")
        if broken:
            self._care.suspect(apsw.CorruptError(broken[0]))
            return [*known, *broken]
        return list(dict.fromkeys([*known, *self._compared(go_on)]))

    def _compared(self, go_on: Callable[[], None]) -> list[str]:
        from clew.backends.jsonl.compare import WrittenAnewError

        look = partial(self._differences, go_on)
        for _ in range(TRIES):
            try:
                return look()
            except WrittenAnewError:
                pass
        try:
            return self._care.undisturbed(look)
        except WrittenAnewError:
            return ["the index knows a log that is not there, or is another one"]

    def _differences(self, go_on: Callable[[], None]) -> list[str]:
        from clew.backends.jsonl.compare import compare

        self._execute(BEGIN)  # one moment of the index, however long it takes
        try:
            damaged, differing = compare(self.connection, self._layout, go_on)
        finally:
            if self.connection.in_transaction:
                self._execute(ROLLBACK)
        if differing:
            self._care.suspect(apsw.CorruptError(differing[0]))
        return [*(_damaged(self._layout, *row) for row in damaged), *differing]


def _damaged(layout: Layout, name: str, line: int, reason: str) -> str:
    where = layout.path(name)
    return f"line {line} of {where} is damaged: {reason}" if line else f"{where} cannot be read: {reason}"
