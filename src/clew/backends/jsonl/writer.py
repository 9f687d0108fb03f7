"""Writes: to the index at once, and to the logs when the transaction ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from clew.backends.contract import RecordKind
from clew.backends.jsonl.book import Book
from clew.backends.jsonl.layout import Layout
from clew.backends.jsonl.names import pack_file
from clew.backends.jsonl.packs import write_pack
from clew.backends.jsonl.reader import Care, JsonlReader
from clew.backends.jsonl.references import column_values
from clew.backends.jsonl.replay import pack_content
from clew.backends.jsonl.statements import (
    ADD_PLACE,
    DROP_PLACE,
    LAST_NUMBER,
    PACK_FILE,
    PUT_PACK,
    START_NUMBER,
)
from clew.backends.sqlite.rows import POSITION_BITS
from clew.backends.sqlite.statements import ADD_ENTRY
from clew.backends.sqlite.statements_objects import ADD_OBJECT
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.log import jsonl
from clew.core.log.rows import BranchRow, Details, EntryRow, EventRow, SessionRow, Tip, UsageRow

PASSING: Final = ("lease", "notice", "unscrubbed")
"""Records that come and go and hold nothing of anybody's: no reason to write a log anew."""


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
        self.book = Book(connection, layout)
        self.new_packs: list[str] = []
        self.old_packs: list[str] = []
        self._soiled = False

    def settle_book(self) -> None:
        """Before the end: what was dropped is still in the logs."""
        if self._soiled:
            self.book.soil()

    def add_session(self, row: SessionRow, details: Details) -> int:
        sid = super().add_session(row, details)
        stored = self.get_session(sid)
        assert stored is not None
        sheet = self.book.new_session(sid, row.id)
        sheet.add(jsonl.SessionLine(stored))
        sheet.add(jsonl.DetailsLine(sid, details))
        return sid

    def set_session(self, row: SessionRow) -> None:
        super().set_session(row)
        if self.connection.changes():
            self.book.of_session(row.sid).add(jsonl.SessionLine(row))

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
        super().set_head(sid, head, updated, title, preview)
        self.book.of_session(sid).add(jsonl.HeadLine(sid, head, updated, title, preview))

    def set_details(self, sid: int, details: Details) -> None:
        super().set_details(sid, details)
        if self.book.knows(sid):  # of a session that is being added: `add_session` writes the line
            self.book.of_session(sid).add(jsonl.DetailsLine(sid, details))

    def drop_session(self, sid: int) -> None:
        super().drop_session(sid)
        self._soiled = True
        self.book.of_session(sid).add(jsonl.SessionGoneLine(sid))

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        branch = super().add_branch(uid, tree, owner, parent, fork)
        sheet = self.book.of_session(owner)
        sheet.add(jsonl.BranchLine(BranchRow(branch, uid, tree, owner, parent, fork)))
        self._execute(ADD_PLACE, (branch, sheet.log))
        return branch

    def disown_branch(self, branch: int) -> None:
        super().disown_branch(branch)
        self.book.of_branch(branch).add(jsonl.DisownedLine(branch))

    def drop_branch(self, branch: int) -> None:
        super().drop_branch(branch)
        self._soiled = True
        self.book.of_branch(branch).add(jsonl.BranchGoneLine(branch))
        self._execute(DROP_PLACE, (branch,))

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        sheet = self.book.of_branch(branch)
        values = []
        for row in rows:
            line = jsonl.entry_line(branch, row)
            end = sheet.add(line)
            offset = None if line.base64 else end - len(row.body)
            if offset is not None:
                self.fresh[sheet.log, offset] = row.body
            values.append(column_values(branch, row, sheet.log, offset))
        self.connection.executemany(ADD_ENTRY, values)

    def drop_entries(self, branch: int, after: int) -> None:
        super().drop_entries(branch, after)
        self._soiled = True
        self.book.of_branch(branch).add(jsonl.EntriesGoneLine(branch, after))

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        before = self.writes
        super().erase_entries(branch, positions)
        if self.writes != before:
            self._soiled = True
            self.book.of_branch(branch).add(jsonl.ErasedLine(branch, tuple(positions)))

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        super().add_events(sid, rows)
        for row in rows:
            self.book.of_session(sid).add(jsonl.event_line(sid, row))

    def drop_events(self, sid: int, upto: int) -> None:
        before = self.writes
        super().drop_events(sid, upto)
        if self.writes != before:
            self._soiled = True
            self.book.of_session(sid).add(jsonl.EventsGoneLine(sid, upto))

    def add_usage(self, sid: int, row: UsageRow) -> None:
        super().add_usage(sid, row)
        self.book.of_session(sid).add(jsonl.UsageLine(sid, row))

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        super().put_record(sid, kind, name, value)
        self.book.of_session(sid).add(jsonl.record_line(sid, kind, name, value))

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        dropped = super().drop_record(sid, kind, name)
        if dropped:
            self._soiled = self._soiled or kind not in PASSING
            self.book.of_session(sid).add(jsonl.RecordGoneLine(sid, kind, name))
        return dropped

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        self.writes += 1
        self._execute(START_NUMBER, ("packs",))
        pack = int(self._execute(LAST_NUMBER, ("packs",)).get) + 1
        line = write_pack(self._layout, pack, codec, blob, size, members, durable=self._durable)
        self.new_packs.append(line.file)
        content = pack_content(line.file, line.stored)
        self._execute(PUT_PACK, (pack, size, codec, line.checksum, content))
        first = pack << POSITION_BITS
        rows = [(name, first | number, offset, size) for number, (name, offset, size) in enumerate(members)]
        if rows:
            self.connection.executemany(ADD_OBJECT, rows)
        self.book.of_store().add(line)
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        before = self.writes
        super().drop_objects(names)
        if self.writes != before:
            self.book.of_store().add(jsonl.ObjectsGoneLine(tuple(names)))

    def drop_pack(self, pack: int) -> None:
        row = self._one(PACK_FILE, pack)
        before = self.writes
        super().drop_pack(pack)
        if self.writes != before:
            self.book.of_store().add(jsonl.PackGoneLine(pack))
        if row is not None:
            self.old_packs.append(pack_file(pack, row[2]))
