"""Reads: of the index, and of the logs where the bodies are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import apsw

from clew.backends.jsonl import disk, scan
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.packs import read_pack
from clew.backends.jsonl.references import Bodies
from clew.backends.jsonl.replay import pack_place
from clew.backends.jsonl.statements import (
    ALL_DAMAGE,
    DAMAGE_OF_LOG,
    LIST_PACKS,
    LOG_AND_SESSION,
    LOG_OF_BRANCH,
    PACK_FILE,
)
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.rows import Row
from clew.core.log.rows import BranchRow, EntryRow, Listed, PackInfo, SessionQuery
from clew.errors import CorruptEntryError, CorruptSessionError, UnreadableEntryError

T = TypeVar("T")

TRIES: Final = 3
"""How often a full look begins again because others scrub."""
NOTHING_FRESH: Final[Mapping[tuple[int, int], bytes]] = {}


class Care(Protocol):
    """Whoever looks after the index."""

    def undisturbed(self, look: Callable[[], T]) -> T:
        """Look while nobody writes: for whoever read a log while it was written anew."""

    def suspect(self, exc: BaseException | None) -> None:
        """Say that the index may be damaged."""


class NoCare:
    """For those who hold the store's lock."""

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

    def _entry_rows(self, sql: str, bindings: Row) -> Any:
        # All at once, without bodies they are small: while a statement is open this connection sees the
        # index as it was, and whoever scrubs waits for it.
        rows = self._execute(sql, bindings).fetchall()
        return Bodies(self.connection, self._layout, self._fresh).fill(rows)

    def list_sessions(self, query: SessionQuery) -> list[Listed]:
        """A session that is damaged may be so in the index only."""
        found = super().list_sessions(query)
        for listed in found:
            if listed.damage:
                self._care.suspect(CorruptSessionError(listed.row.id, listed.damage))
        return found

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
        return self._located(branch, position, "it is missing")

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
        """OSError: its body can not be read."""
        from clew.backends.jsonl.references import LOGGED, log_and_place
        from clew.backends.sqlite.rows import key

        row = self._one("SELECT codec, body FROM entries WHERE key = ?", key(branch, position))
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
            return scan.line_number(handle, offset)
        finally:
            disk.close(handle)

    def problems(self, *, full: bool, go_on: Callable[[], None]) -> list[str]:
        """What is known to be damaged in the logs, by file and line. `full`: read the index and the logs from
        end to end, too, and whether the one says what the others say. An index that does not is made anew."""
        known = [_damaged(self._layout, *row) for row in self._execute(ALL_DAMAGE, ())]
        known += self._layout.strangers()
        if not full:
            return known
        from clew.backends.sqlite.integrity import check

        broken = check(self.connection, go_on, f"the index {self._layout.index} is made anew, for it")
        if broken:
            self._care.suspect(apsw.CorruptError(broken[0]))
            return [*known, *broken]
        return list(dict.fromkeys([*known, *self._compared(go_on)]))

    def _compared(self, go_on: Callable[[], None]) -> list[str]:
        from clew.backends.jsonl.comparing import WrittenAnewError

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
        from clew.backends.jsonl.comparing import compare

        self._execute("BEGIN", ())  # one moment of the index, however long it takes
        try:
            damaged, differing = compare(self.connection, self._layout, go_on)
        finally:
            if self.connection.in_transaction:
                self._execute("ROLLBACK", ())
        if differing:
            self._care.suspect(apsw.CorruptError(differing[0]))
        return [*(_damaged(self._layout, *row) for row in damaged), *differing]

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


def _damaged(layout: Layout, name: str, line: int, reason: str) -> str:
    where = layout.path(name)
    return f"line {line} of {where} is damaged: {reason}" if line else f"{where} can not be read: {reason}"
