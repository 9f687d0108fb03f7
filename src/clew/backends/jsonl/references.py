"""Where a body lies: the index holds a reference, the log the body."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.recognizing import OF_THE_PROCESS
from clew.backends.jsonl.statements import LOG_NAME
from clew.backends.sqlite.rows import POSITION_BITS, Row, entry_values
from clew.core.log.digest import RAW, checksum
from clew.core.log.rows import EntryRow

LOGGED: Final = 64
"""The codec of a body that lies in a log."""
AHEAD: Final = 128 * 1024
_reference = struct.Struct("<qqq")


def referring_values(branch: int, row: EntryRow, log: int, offset: int) -> Row:
    """The columns of an entry whose body lies in a log."""
    return (
        branch << POSITION_BITS | row.position, row.kind, row.time, row.flags, LOGGED,
        checksum(row.body, row.position, row.time, row.kind, RAW, row.flags), row.digest,
        row.messages, row.turns, row.size, row.cut, row.summary, row.asked, row.epoch,
        _reference.pack(log, offset, len(row.body)),
    )  # fmt: skip


def column_values(branch: int, row: EntryRow, log: int, offset: int | None) -> Row:
    """The columns of an entry; without an offset its body is kept in the index."""
    return entry_values(branch, row) if offset is None else referring_values(branch, row, log, offset)


class Bodies:
    """Gives rows their bodies. Reads ahead: the entries of a history lie side by side.

    Files are opened for one pass and closed after it: their number is bounded, and a log that was
    written anew is seen as it is.
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
        """What is not there, or can not be read, is empty: its checksum will not match."""
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
