"""Writes: gathered until something is asked, or the end is reached."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew.backends.contract import STORE_WIDE, RecordKind
from clew.backends.postgres.blobs import LARGE, blob_name
from clew.backends.postgres.ids import home_of
from clew.backends.postgres.rows import encode, erased_values
from clew.backends.postgres.search_writing import TextWriter
from clew.backends.postgres.sql import (
    ADD_BRANCH,
    DISOWN_BRANCH,
    DROP_BRANCH,
    DROP_ENTRIES,
    DROP_NAME,
    DROP_RECORD,
    DROP_SESSION,
    ENTRY_FRAMES,
    ERASE_ENTRY,
    REEXAMINE,
    TIMELINE,
)
from clew.backends.postgres.statements_streams import (
    ADD_EVENT,
    ADD_OBJECT,
    ADD_PACK,
    ADD_PACK_OUTSIDE,
    ADD_USAGE,
    DROP_EVENTS,
    DROP_OBJECTS,
    DROP_PACK,
    PACK_BLOB,
)
from clew.backends.postgres.streams import event_values, pack_checksum, usage_values
from clew.backends.postgres.write_buffer import HEAD, NEW, ROW, Held
from clew.core.rows import BranchRow, Details, EntryRow, EventRow, SessionRow, Tip, UsageRow


class PostgresTransaction(TextWriter):
    """`Transaction`."""

    # -- sessions

    @property
    def era(self) -> int:
        """How often a replica has taken the place of a server: each begins a timeline of its own."""
        ((name,),) = self.ask(TIMELINE)
        return int(name[:8], 16) - 1

    def add_session(self, row: SessionRow, details: Details) -> int:
        self.writes += 1
        sid = self._numbers.within(row.tree) if row.tree else self._numbers.root()
        held = Held(
            msgspec.structs.replace(row, sid=sid, tree=row.tree or sid), 0, is_locked=True, change=NEW
        )
        held.made = self._numbers.made()
        self._waiting.held[sid] = held
        self.set_details(sid, details)
        return sid

    def set_session(self, row: SessionRow) -> None:
        self._change(row.sid, row, ROW)

    def set_head(self, sid: int, head: Tip, updated: int, title: str | None, preview: str) -> None:
        held = self._hold(sid)
        if held is not None and held.row is not None:
            row = msgspec.structs.replace(
                held.row, head=head, grows=True, updated=updated, title=title, preview=preview
            )
            self._change(sid, row, HEAD)

    def set_due(self, sid: int, due: int) -> None:
        held = self._hold(sid)
        if held is not None and held.row is not None:
            self._change(sid, msgspec.structs.replace(held.row, due=due), ROW)

    def _change(self, sid: int, row: SessionRow, change: int) -> None:
        self.writes += 1
        held = self._hold(sid)
        if held is not None and held.row is not None:
            held.row = row
            held.change = max(held.change, change)

    def set_details(self, sid: int, details: Details) -> None:
        self.writes += 1
        self._waiting.details[sid] = details

    def get_details(self, sid: int) -> Details:
        waiting = self._waiting.details.get(sid)
        return waiting if waiting is not None else super().get_details(sid)

    def reexamine(self) -> None:
        ((count,),) = self.ask(REEXAMINE, self._numbers.version(0))
        self.writes += count > 0
        if count:
            self._memory.clear()
            self._waiting.held.clear()  # every version is another now; the locks stay

    def drop_session(self, sid: int) -> None:
        self.writes += 1
        held = self._hold(sid)
        self._push()
        self._waiting.forget_session(sid)
        if held is not None and held.name is not None:
            self._waiting.add(DROP_NAME, encode(held.name), sid)
        for statement in DROP_SESSION:
            self._waiting.add(statement, home_of(sid), sid)
        self._forget_searched(sid=sid)
        gone = Held(None, 0, is_locked=True)
        self._waiting.held[sid] = gone

    def _push(self) -> None:
        """Put what was gathered into its order, before a statement that depends on it."""
        self._confirm()
        for sql, given in self._waiting.take():
            self._waiting.add(sql, *given)

    # -- branches and entries

    def get_branch(self, branch: int) -> BranchRow:
        known = self._branches.get(branch)
        return known if known is not None else super().get_branch(branch)

    def add_branch(self, uid: str, tree: int, owner: int, parent: int, fork: int) -> int:
        self.writes += 1
        branch = self._numbers.within(tree)
        self._branches[branch] = BranchRow(branch, uid, tree, owner, parent, fork)
        self._waiting.add(
            ADD_BRANCH, home_of(branch), self._numbers.made(), branch, uid, tree, owner, parent, fork
        )
        return branch

    def disown_branch(self, branch: int) -> None:
        self._alter_branch(branch, DISOWN_BRANCH)

    def drop_branch(self, branch: int) -> None:
        self._alter_branch(branch, DROP_BRANCH)
        self._forget_searched(branch=branch)

    def _alter_branch(self, branch: int, statement: str) -> None:
        self.writes += 1
        self._branches.pop(branch, None)
        self._altered.add(branch)
        self._memory.forget_branch(branch)
        self._push()
        self._waiting.add(statement, home_of(branch), branch)

    def add_entries(self, branch: int, rows: Sequence[EntryRow]) -> None:
        self.writes += 1
        self._waiting.entries.setdefault(branch, []).extend(rows)

    def drop_entries(self, branch: int, after: int) -> None:
        self.writes += 1
        self._push()
        self._drop_texts(branch, after)
        self._waiting.add(DROP_ENTRIES, home_of(branch), branch, after)

    def erase_entries(self, branch: int, positions: Sequence[int]) -> None:
        frames = self.ask(ENTRY_FRAMES, home_of(branch), branch, list(positions))
        self.writes += bool(frames)
        if frames:
            self._erase_texts(branch, positions)
        for position, time, flags in frames:
            erased = erased_values(position, time, flags)
            self._waiting.add(ERASE_ENTRY, home_of(branch), branch, position, *erased)

    # -- records

    def get_record(self, sid: int, kind: RecordKind, name: str) -> bytes | None:
        key = (sid, kind, name)
        if key not in self._waiting.records:
            if sid == STORE_WIDE:
                self._waiting.lock_record(kind, name, to_read=True)
            self._waiting.records[key] = super().get_record(sid, kind, name)
        return self._waiting.records[key]

    def scan_records(
        self,
        sid: int,
        kind: RecordKind,
        first: str = "",
        last: str | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[tuple[str, bytes]]:
        if sid == STORE_WIDE:
            self._waiting.lock_kind(kind)
        return super().scan_records(sid, kind, first, last, reverse=reverse, limit=limit)

    def put_record(self, sid: int, kind: RecordKind, name: str, value: bytes) -> None:
        self.writes += 1
        self._waiting.records[sid, kind, name] = value
        self._waiting.unwritten.add((sid, kind, name))

    def drop_record(self, sid: int, kind: RecordKind, name: str) -> bool:
        if sid == STORE_WIDE:
            self._waiting.lock_record(kind, name)
        ((count,),) = self.ask(DROP_RECORD, home_of(sid), sid, kind, encode(name))
        self._waiting.records[sid, kind, name] = None
        self.writes += count
        return bool(count)

    # -- events, usage, objects

    def add_events(self, sid: int, rows: Sequence[EventRow]) -> None:
        self.writes += bool(rows)
        for row in rows:
            self._waiting.add(ADD_EVENT, home_of(sid), sid, *event_values(row))

    def drop_events(self, sid: int, upto: int) -> None:
        ((count,),) = self.ask(DROP_EVENTS, home_of(sid), sid, upto)
        self.writes += count > 0

    def add_usage(self, sid: int, row: UsageRow) -> None:
        self.writes += 1
        self._waiting.add(ADD_USAGE, home_of(sid), sid, *usage_values(row))

    def add_pack(self, codec: int, blob: bytes, size: int, members: Sequence[tuple[bytes, int, int]]) -> int:
        pack = self._numbers.root()
        recorded = pack_checksum(size, codec, blob)
        if self._blobs is not None and len(blob) > LARGE:
            outside = blob_name(blob)
            self._doubt(outside)
            self._blobs.put(outside, blob)
            self._waiting.add(ADD_PACK_OUTSIDE, pack, size, codec, recorded, len(blob), outside)
        else:
            self._waiting.add(ADD_PACK, pack, size, codec, recorded, blob)
        self.writes += 1
        for name, offset, length in sorted(members):
            self._waiting.add(ADD_OBJECT, name, pack, offset, length)
        return pack

    def drop_objects(self, names: Sequence[bytes]) -> None:
        ((count,),) = self.ask(DROP_OBJECTS, list(names))
        self.writes += count > 0

    def drop_pack(self, pack: int) -> None:
        for (outside,) in self.ask(PACK_BLOB, pack):
            self._doubt(outside)
        ((count,),) = self.ask(DROP_PACK, pack)
        self.writes += count > 0
