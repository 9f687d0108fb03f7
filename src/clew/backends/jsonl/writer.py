"""Writes: to the index at once, and to the logs when the transaction ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from clew.backends.contract import RecordKind
from clew.backends.jsonl import disk
from clew.backends.jsonl.layout import SESSIONS, STORE_LOG, Layout, encoded, pack_file
from clew.backends.jsonl.log_file import TAIL, LogRow, new_mark, pack_reference, write_pack
from clew.backends.jsonl.reader import Care, JsonlReader, column_values
from clew.backends.jsonl.recover import catch_up_log
from clew.backends.jsonl.sql import (
    ADD_BRANCH_PLACE,
    ADD_LOG,
    DROP_BRANCH_PLACE,
    LAST_NUMBER,
    LOG_BY_NAME,
    LOG_BY_NUMBER,
    LOG_OF_BRANCH,
    LOG_OF_SESSION,
    PACK_FILE,
    PUT_PACK,
    SET_INODE,
    SET_LOG,
    START_NUMBER,
    UNREADABLE_STRANGERS,
)
from clew.backends.sqlite.rows import POSITION_BITS
from clew.backends.sqlite.sql import ADD_ENTRY, ADD_OBJECT
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.log import jsonl
from clew.core.log.rows import BranchRow, Details, EntryRow, EventRow, HeadRow, SessionRow, UsageRow
from clew.errors import BackendUnavailableError

# -- what a transaction will write: the lines of each log, in order, and where each will lie


class LogAppend:
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


class LogBatch:
    """What a transaction appends, log by log."""

    def __init__(self, connection: apsw.Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._appends: dict[int, LogAppend] = {}
        self._of_session: dict[int, LogAppend] = {}
        self._of_branch: dict[int, LogAppend] = {}
        self._store: LogAppend | None = None

    @property
    def written(self) -> list[LogAppend]:
        return [append for append in self._appends.values() if append.texts]

    def mark_dirty(self) -> None:
        """Something was dropped: every log that has part in it will be rewritten by a scrub."""
        for append in self.written:
            append.dirty = True

    def of_store(self) -> LogAppend:
        if self._store is None:
            row = self._connection.execute(LOG_BY_NAME, (STORE_LOG,)).fetchone()
            self._store = self._new(STORE_LOG, 0, "") if row is None else self._append(row[0])
        return self._store

    def of_session(self, sid: int) -> LogAppend:
        """The log of a session; the store's, if it has none."""
        append = self._of_session.get(sid)
        if append is None:
            row = self._connection.execute(LOG_OF_SESSION, (sid,)).fetchone() if sid > 0 else None
            append = self._of_session[sid] = self.of_store() if row is None else self._append(row[0])
        return append

    def of_branch(self, branch: int) -> LogAppend:
        """The log that holds a branch; the store's, if none does."""
        append = self._of_branch.get(branch)
        if append is None:
            row = self._connection.execute(LOG_OF_BRANCH, (branch,)).fetchone()
            append = self._of_branch[branch] = self.of_store() if row is None else self._append(row[0])
        return append

    def knows(self, sid: int) -> bool:
        """Whether a session has a log: one that is being added has none yet."""
        return sid in self._of_session or self._connection.execute(LOG_OF_SESSION, (sid,)).get is not None

    def new_session(self, sid: int, id: str) -> LogAppend:
        """A log for a session. An id may have been used before: then the name says which one it is."""
        self._refuse_twin(id)
        ends = itertools.chain(("", f"~{sid}"), (f"~{sid}~{number}" for number in itertools.count(2)))
        names = (f"{SESSIONS}/{encoded(id)}{end}.jsonl" for end in ends)
        name = next(name for name in names if not self._is_taken(name))
        append = self._of_session[sid] = self._new(name, sid, id)
        return append

    def _is_taken(self, name: str) -> bool:
        taken = self._connection.execute(LOG_BY_NAME, (name,)).fetchone()
        return taken is not None or disk.exists(self._layout.file(name))

    def _refuse_twin(self, id: str) -> None:
        """A log that could not be read yet may hold this very session."""
        for name, reason in self._connection.execute(UNREADABLE_STRANGERS):
            if (
                name.removeprefix(f"{SESSIONS}/").removesuffix(".jsonl").partition("~")[0]
                == encoded(id).partition("~")[0]
            ):
                raise BackendUnavailableError(
                    f"{self._layout.path(name)} cannot be read ({reason}), and may hold session {id!r}:"
                    " make it readable, or move it away"
                )

    def _new(self, name: str, sid: int, id: str) -> LogAppend:
        self._connection.execute(ADD_LOG, (name, sid))
        row = next(LogRow(*row) for row in self._connection.execute(LOG_BY_NAME, (name,)))
        append = self._appends[row.log] = LogAppend(row, is_new=True)
        append.add(jsonl.first_line(sid, id, new_mark()))
        return append

    def _append(self, log: int) -> LogAppend:
        append = self._appends.get(log)
        if append is None:
            row = next((LogRow(*row) for row in self._connection.execute(LOG_BY_NUMBER, (log,))), None)
            if row is None:
                raise apsw.CorruptError(f"the index names a log {log} that it does not know")
            if disk.length(self._layout.file(row.name)) != row.applied:
                row = catch_up_log(self._connection, self._layout, row.name, repair=True)
            append = self._appends[log] = LogAppend(row, is_new=False)
        return append

    def note_new(self, appends: Iterable[tuple[LogAppend, bytes]]) -> None:
        """Write into the index which files the new logs are, once they are there."""
        for append, _ in appends:
            if append.is_new:
                found = disk.status(self._layout.file(append.name))
                self._connection.execute(SET_INODE, (found.st_ino if found else 0, append.log))

    def note(self, appends: Iterable[tuple[LogAppend, bytes]], *, durable: bool) -> None:
        """Write into the index how long the logs are going to be."""
        for append, data in appends:
            length = append.start + len(data)
            begin = data.rfind(b"\n", 0, -1) + 1
            self._connection.execute(
                SET_LOG,
                (
                    append.log, append.sid, length, append.lines + len(append.texts), append.inode,
                    append.start + begin, data[begin : begin + TAIL], int(append.dirty), append.stale,
                    length if durable else append.safe, data[:TAIL] if append.is_new else append.head,
                ),
            )  # fmt: skip


# -- the transaction

PASSING: Final = ("lease", "notice", "unscrubbed")
"""Records that come and go and hold nothing of a user: no reason to rewrite a log."""


class JsonlTransaction(JsonlReader, SqliteTransaction):
    """`Transaction`: what the SQLite backend does in the index, and a line for each of it."""

    def __init__(
        self,
        connection: apsw.Connection,
        branches: dict[int, BranchRow],
        layout: Layout,
        care: Care,
        *,
        durable: bool,
    ) -> None:
        self.fresh: dict[tuple[int, int], bytes] = {}
        super().__init__(connection, branches, layout, care, self.fresh)
        self._durable = durable
        self.batch = LogBatch(connection, layout)
        self.new_packs: list[str] = []
        self.old_packs: list[str] = []
        self._has_dropped = False

    def settle_batch(self) -> None:
        """Before the end: what was dropped is still in the logs."""
        if self._has_dropped:
            self.batch.mark_dirty()

    # -- sessions

    def add_session(self, row: SessionRow, details: Details) -> int:
        sid = super().add_session(row, details)
        stored = self.get_session(sid)
        assert stored is not None
        append = self.batch.new_session(sid, row.id)
        append.add(jsonl.SessionLine(stored))
        append.add(jsonl.DetailsLine(sid, details))
        return sid

    def set_session(self, row: SessionRow) -> None:
        super().set_session(row)
        if self.connection.changes():
            self.batch.of_session(row.sid).add(jsonl.SessionLine(row))

    def set_head(self, sid: int, head: HeadRow, updated: int, title: str | None, preview: str) -> None:
        super().set_head(sid, head, updated, title, preview)
        self.batch.of_session(sid).add(jsonl.HeadLine(sid, head, updated, title, preview))

    def set_details(self, sid: int, details: Details) -> None:
        super().set_details(sid, details)
        if self.batch.knows(sid):  # of a session that is being added: `add_session` writes the line
            self.batch.of_session(sid).add(jsonl.DetailsLine(sid, details))

    def drop_session(self, sid: int) -> None:
        super().drop_session(sid)
        self._has_dropped = True
        self.batch.of_session(sid).add(jsonl.SessionGoneLine(sid))

    # -- log

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        branch = super().add_branch(uid, tree, owner, parent, fork)
        append = self.batch.of_session(owner)
        append.add(jsonl.BranchLine(BranchRow(branch, uid, tree, owner, parent, fork)))
        self._execute(ADD_BRANCH_PLACE, (branch, append.log))
        return branch

    def disown_branch(self, branch: int) -> None:
        super().disown_branch(branch)
        self.batch.of_branch(branch).add(jsonl.DisownedLine(branch))

    def adopt_branch(self, branch: int, owner: int) -> None:
        super().adopt_branch(branch, owner)
        self.batch.of_branch(branch).add(jsonl.AdoptedLine(branch, owner))

    def drop_branch(self, branch: int) -> None:
        super().drop_branch(branch)
        self._has_dropped = True
        self.batch.of_branch(branch).add(jsonl.BranchGoneLine(branch))
        self._execute(DROP_BRANCH_PLACE, (branch,))

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        append = self.batch.of_branch(branch)
        values = []
        for row in rows:
            line = jsonl.entry_line(branch, row)
            end = append.add(line)
            offset = None if line.base64 else end - len(row.body)
            if offset is not None:
                self.fresh[append.log, offset] = row.body
            values.append(column_values(branch, row, append.log, offset))
        self.connection.executemany(ADD_ENTRY, values)

    def drop_entries(self, branch: int, after: int) -> None:
        super().drop_entries(branch, after)
        self._has_dropped = True
        self.batch.of_branch(branch).add(jsonl.EntriesGoneLine(branch, after))

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        before = self.writes
        super().erase_entries(branch, positions)
        if self.writes != before:
            self._has_dropped = True
            self.batch.of_branch(branch).add(jsonl.ErasedLine(branch, tuple(positions)))

    # -- records

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        super().put_record(sid, kind, name, value)
        self.batch.of_session(sid).add(jsonl.record_line(sid, kind, name, value))

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        dropped = super().drop_record(sid, kind, name)
        if dropped:
            self._has_dropped = self._has_dropped or kind not in PASSING
            self.batch.of_session(sid).add(jsonl.RecordGoneLine(sid, kind, name))
        return dropped

    # -- streams

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        super().add_events(sid, rows)
        for row in rows:
            self.batch.of_session(sid).add(jsonl.event_line(sid, row))

    def drop_events(self, sid: int, upto: int) -> None:
        before = self.writes
        super().drop_events(sid, upto)
        if self.writes != before:
            self._has_dropped = True
            self.batch.of_session(sid).add(jsonl.EventsGoneLine(sid, upto))

    def add_usage(self, sid: int, row: UsageRow) -> None:
        super().add_usage(sid, row)
        self.batch.of_session(sid).add(jsonl.UsageLine(sid, row))

    # -- objects

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        self.writes += 1
        self._execute(START_NUMBER, ("packs",))
        pack = int(self._execute(LAST_NUMBER, ("packs",)).get) + 1
        line = write_pack(self._layout, pack, codec, blob, size, members, durable=self._durable)
        self.new_packs.append(line.file)
        content = pack_reference(line.file, line.stored)
        self._execute(PUT_PACK, (pack, size, codec, line.checksum, content))
        first = pack << POSITION_BITS
        rows = [(name, first | number, offset, size) for number, (name, offset, size) in enumerate(members)]
        if rows:
            self.connection.executemany(ADD_OBJECT, rows)
        self.batch.of_store().add(line)
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        before = self.writes
        super().drop_objects(names)
        if self.writes != before:
            self.batch.of_store().add(jsonl.ObjectsGoneLine(tuple(names)))

    def drop_pack(self, pack: int) -> None:
        row = self._one(PACK_FILE, pack)
        before = self.writes
        super().drop_pack(pack)
        if self.writes != before:
            self.batch.of_store().add(jsonl.PackGoneLine(pack))
        if row is not None:
            self.old_packs.append(pack_file(pack, row[2]))
