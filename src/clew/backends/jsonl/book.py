"""What a transaction will write: the lines of each log, in order, and where each will lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import apsw

from clew.backends.jsonl import disk
from clew.backends.jsonl.catching_up import catch_up_log
from clew.backends.jsonl.layout import SESSIONS, STORE_LOG, Layout
from clew.backends.jsonl.log_row import TAIL, LogRow
from clew.backends.jsonl.names import encoded
from clew.backends.jsonl.recognizing import new_mark
from clew.backends.jsonl.statements import (
    ADD_LOG,
    LOG_BY_NAME,
    LOG_BY_NUMBER,
    LOG_OF_BRANCH,
    LOG_OF_SESSION,
    SET_INODE,
    SET_LOG,
    UNREADABLE_STRANGERS,
)
from clew.core.log import jsonl
from clew.errors import BackendUnavailableError


class Sheet:
    """The lines that one log gets."""

    __slots__ = (
        "at", "dirty", "head", "inode", "is_new", "lines", "log", "name", "safe", "sid", "stale", "start",
        "texts",
    )  # fmt: skip

    def __init__(self, row: LogRow, *, is_new: bool) -> None:
        self.log = row.log
        self.name = row.name
        self.sid = row.sid
        self.start = self.at = row.applied
        self.lines = row.lines
        self.is_new = is_new
        self.inode = row.inode
        self.dirty = False
        self.stale = row.stale
        self.safe = row.safe
        self.head = row.head
        self.texts: list[bytes] = []

    def add(self, line: jsonl.AnyLine) -> int:
        """Put a line at the end; where its last field will end."""
        text = jsonl.encode(line)
        self.texts.append(text)
        size = jsonl.finished_size(text)
        self.at += size
        if isinstance(line, jsonl.ANEW):
            self.stale += size
        return self.at - len(b"}\n")

    def data(self) -> bytes:
        last = len(self.texts) - 1
        return b"".join(
            [jsonl.finish(text, is_last=number == last) for number, text in enumerate(self.texts)]
        )


class Book:
    """The sheets of a transaction."""

    def __init__(self, connection: apsw.Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._sheets: dict[int, Sheet] = {}
        self._of_session: dict[int, Sheet] = {}
        self._of_branch: dict[int, Sheet] = {}
        self._store: Sheet | None = None

    @property
    def written(self) -> list[Sheet]:
        return [sheet for sheet in self._sheets.values() if sheet.texts]

    def soil(self) -> None:
        """Something was dropped: every log that has part in it will be written anew by a scrub."""
        for sheet in self.written:
            sheet.dirty = True

    def of_store(self) -> Sheet:
        if self._store is None:
            row = self._connection.execute(LOG_BY_NAME, (STORE_LOG,)).fetchone()
            self._store = self._new(STORE_LOG, 0, "") if row is None else self._sheet(row[0])
        return self._store

    def of_session(self, sid: int) -> Sheet:
        """The log of a session; the store's, if it has none."""
        sheet = self._of_session.get(sid)
        if sheet is None:
            row = self._connection.execute(LOG_OF_SESSION, (sid,)).fetchone() if sid > 0 else None
            sheet = self._of_session[sid] = self.of_store() if row is None else self._sheet(row[0])
        return sheet

    def of_branch(self, branch: int) -> Sheet:
        """The log that holds a branch; the store's, if none does."""
        sheet = self._of_branch.get(branch)
        if sheet is None:
            row = self._connection.execute(LOG_OF_BRANCH, (branch,)).fetchone()
            sheet = self._of_branch[branch] = self.of_store() if row is None else self._sheet(row[0])
        return sheet

    def knows(self, sid: int) -> bool:
        """Whether a session has a log: one that is being added has none yet."""
        return sid in self._of_session or self._connection.execute(LOG_OF_SESSION, (sid,)).get is not None

    def new_session(self, sid: int, id: str) -> Sheet:
        """A log for a session. An id may have been used before: then the name says which one it is."""
        self._refuse_twin(id)
        ends = itertools.chain(("", f"~{sid}"), (f"~{sid}~{number}" for number in itertools.count(2)))
        names = (f"{SESSIONS}/{encoded(id)}{end}.jsonl" for end in ends)
        name = next(name for name in names if not self._is_taken(name))
        sheet = self._of_session[sid] = self._new(name, sid, id)
        return sheet

    def _is_taken(self, name: str) -> bool:
        taken = self._connection.execute(LOG_BY_NAME, (name,)).fetchone()
        return taken is not None or disk.exists(self._layout.file(name))

    def _refuse_twin(self, id: str) -> None:
        """A log that nobody could read yet may hold this very session."""
        for name, reason in self._connection.execute(UNREADABLE_STRANGERS):
            if (
                name.removeprefix(f"{SESSIONS}/").removesuffix(".jsonl").partition("~")[0]
                == encoded(id).partition("~")[0]
            ):
                raise BackendUnavailableError(
                    f"{self._layout.path(name)} can not be read ({reason}), and may hold session {id!r}:"
                    " make it readable, or move it away"
                )

    def _new(self, name: str, sid: int, id: str) -> Sheet:
        self._connection.execute(ADD_LOG, (name, sid))
        row = next(LogRow(*row) for row in self._connection.execute(LOG_BY_NAME, (name,)))
        sheet = self._sheets[row.log] = Sheet(row, is_new=True)
        sheet.add(jsonl.LogLine(jsonl.FORMAT, sid, id, new_mark()))
        return sheet

    def _sheet(self, log: int) -> Sheet:
        sheet = self._sheets.get(log)
        if sheet is None:
            row = next((LogRow(*row) for row in self._connection.execute(LOG_BY_NUMBER, (log,))), None)
            if row is None:
                raise apsw.CorruptError(f"the index names a log {log} that it does not know")
            if disk.length(self._layout.file(row.name)) != row.applied:
                row = catch_up_log(self._connection, self._layout, row.name, repair=True)
            sheet = self._sheets[log] = Sheet(row, is_new=False)
        return sheet

    def note_new(self, sheets: Iterable[tuple[Sheet, bytes]]) -> None:
        """Write into the index which files the new logs are, once they are there."""
        for sheet, _ in sheets:
            if sheet.is_new:
                found = disk.status(self._layout.file(sheet.name))
                self._connection.execute(SET_INODE, (found.st_ino if found else 0, sheet.log))

    def note(self, sheets: Iterable[tuple[Sheet, bytes]], *, durable: bool) -> None:
        """Write into the index how long the logs are going to be."""
        for sheet, data in sheets:
            length = sheet.start + len(data)
            begin = data.rfind(b"\n", 0, -1) + 1
            self._connection.execute(
                SET_LOG,
                (
                    sheet.log, sheet.sid, length, sheet.lines + len(sheet.texts), sheet.inode,
                    sheet.start + begin, data[begin : begin + TAIL], int(sheet.dirty), sheet.stale,
                    length if durable else sheet.safe, data[:TAIL] if sheet.is_new else sheet.head,
                ),
            )  # fmt: skip
