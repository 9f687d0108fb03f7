"""From lines of a log to the index: each line does there what the call that wrote it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import apsw
import msgspec

from clew.backends.jsonl.layout import STORE_LOG, pack_file
from clew.backends.jsonl.log_file import pack_reference
from clew.backends.jsonl.reader import column_values
from clew.backends.jsonl.sql import (
    ADD_BRANCH_PLACE,
    DROP_BRANCH_PLACE,
    LOG_OF_BRANCH,
    OTHER_LOG,
    PUT_BRANCH,
    PUT_ENTRY,
    PUT_EVENT,
    PUT_PACK,
    PUT_SESSION,
    PUT_USAGE,
    RAISE_NUMBER,
    START_NUMBER,
    USUAL_DETAILS,
)
from clew.backends.sqlite.rows import POSITION_BITS, details_values, session_values
from clew.backends.sqlite.sql import ADD_OBJECT
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.log import jsonl
from clew.core.log.rows import Details, EventRow, UsageRow

_DROPS: Final = (
    jsonl.SessionGoneLine, jsonl.BranchGoneLine, jsonl.EntriesGoneLine, jsonl.ErasedLine,
    jsonl.EventsGoneLine, jsonl.RecordGoneLine, jsonl.ObjectsGoneLine, jsonl.PackGoneLine,
)  # fmt: skip
_OF_STORE: Final = (jsonl.PackLine, jsonl.ObjectsGoneLine, jsonl.PackGoneLine)


class TwinError(Exception):
    """Two files say that they hold the same session: only one of them can be used."""

    def __init__(self, other: str) -> None:
        super().__init__(other)
        self.other = other


class Replay:
    """Puts the lines of one log into the index."""

    def __init__(self, connection: apsw.Connection, log: int, name: str) -> None:
        self._log = log
        self._is_of_store = name == STORE_LOG
        self._tx = SqliteTransaction(connection, {})
        self._execute = connection.execute
        self._places: dict[int, int] = {}
        self.dropped = False
        """Whether a line said that something is gone: what it was still stands in the log."""
        self.said_anew = False
        """Whether the last line may have taken the place of an earlier one."""
        self.ahead: tuple[int, int] | None = None
        """(branch, position) of the last entry, if no line behind it says where its session stands."""
        self.id = self.mark = ""
        self.format = 0
        """Of the log, if its first line was read; else 0."""
        self.session_gone = False
        self.sid = 0
        """Of the session whose log this is."""

    def apply(self, line: jsonl.AnyLine, body_at: int) -> None:
        """Do what a line says. `body_at` is where the body of an entry lies."""
        self.said_anew = isinstance(line, jsonl.ANEW)
        if isinstance(line, jsonl.EntryLine):
            self._entry(line, body_at)
            return
        if isinstance(line, _OF_STORE) and not self._is_of_store:
            raise jsonl.BadLineError("only the log of the store itself says where packs are")
        self.dropped = self.dropped or isinstance(line, _DROPS)
        _ACTIONS[type(line)](self, line)

    def _check_branch(self, branch: int) -> None:
        """A file from elsewhere must not put entries into the branches of others."""
        place = self._places.get(branch)
        if place is None:
            row = self._execute(LOG_OF_BRANCH, (branch,)).fetchone()
            place = self._places[branch] = row[0] if row else self._log
        if place != self._log:
            raise jsonl.BadLineError(f"branch {branch} is in another log")

    def _entry(self, line: jsonl.EntryLine, body_at: int) -> None:
        self._check_branch(line.branch)
        offset = None if line.base64 else body_at
        self._execute(PUT_ENTRY, column_values(line.branch, jsonl.entry_row(line), self._log, offset))
        self.ahead = line.branch, line.position

    def _begin(self, line: jsonl.LogLine) -> None:
        other = self._execute(OTHER_LOG, (line.sid, self._log)).fetchone() if line.sid else None
        if other is not None:
            raise TwinError(other[0])
        self.sid, self.id, self.mark, self.format = line.sid, line.id, line.mark, line.format
        self._raise("sessions", line.sid)

    def _session(self, line: jsonl.SessionLine) -> None:
        self.sid = self.sid or line.row.sid
        self.ahead = None
        self._execute(PUT_SESSION, (line.row.sid, *session_values(line.row)))
        self._execute(USUAL_DETAILS, (line.row.sid, _USUAL))  # a bad line costs the settings, not the session

    def _details(self, line: jsonl.DetailsLine) -> None:
        self.sid = self.sid or line.sid
        self._tx.set_details(line.sid, line.details)

    def _head(self, line: jsonl.HeadLine) -> None:
        self.sid = self.sid or line.sid
        self.ahead = None
        self._tx.set_head(line.sid, line.head, line.updated, line.title, line.preview)

    def _session_gone(self, line: jsonl.SessionGoneLine) -> None:
        self.session_gone = True
        self._tx.drop_session(line.sid)

    def _branch(self, line: jsonl.BranchLine) -> None:
        self._check_branch(line.row.branch)
        if not self._is_of_store:  # there it was adopted, by a session with a log of its own
            self.sid = self.sid or line.row.owner
        self._execute(PUT_BRANCH, msgspec.structs.astuple(line.row))
        self._execute(ADD_BRANCH_PLACE, (line.row.branch, self._log))

    def _disowned(self, line: jsonl.DisownedLine) -> None:
        self._check_branch(line.branch)
        self._tx.disown_branch(line.branch)

    def _adopted(self, line: jsonl.AdoptedLine) -> None:
        self._check_branch(line.branch)
        self._tx.adopt_branch(line.branch, line.owner)

    def _branch_gone(self, line: jsonl.BranchGoneLine) -> None:
        self._check_branch(line.branch)
        self._tx.drop_branch(line.branch)
        self._execute(DROP_BRANCH_PLACE, (line.branch,))

    def _entries_gone(self, line: jsonl.EntriesGoneLine) -> None:
        self._check_branch(line.branch)
        self._tx.drop_entries(line.branch, line.after)

    def _erased(self, line: jsonl.ErasedLine) -> None:
        self._check_branch(line.branch)
        self._tx.erase_entries(line.branch, line.positions)

    def _event(self, line: jsonl.EventLine) -> None:
        self._execute(PUT_EVENT, _keyed(line.sid, jsonl.event_row(line)))

    def _events_gone(self, line: jsonl.EventsGoneLine) -> None:
        self._tx.drop_events(line.sid, line.upto)

    def _usage(self, line: jsonl.UsageLine) -> None:
        self._execute(PUT_USAGE, _keyed(line.sid, line.row))

    def _record(self, line: jsonl.RecordLine) -> None:
        if line.sid == 0 and self.sid and self._tx.get_record(0, line.type, line.name) is not None:  # type: ignore[arg-type]
            return  # a file that was put here brought it; what the store says is newer
        value = jsonl.extract(line.base64, line.value)
        self._tx.put_record(line.sid, line.type, line.name, value)  # type: ignore[arg-type]

    def _record_gone(self, line: jsonl.RecordGoneLine) -> None:
        self._tx.drop_record(line.sid, line.type, line.name)  # type: ignore[arg-type]

    def _pack(self, line: jsonl.PackLine) -> None:
        if line.file != pack_file(line.pack, line.checksum):
            raise jsonl.BadLineError(f"pack {line.pack} does not lie in a file {line.file!r}")
        content = pack_reference(line.file, line.stored)
        self._execute(PUT_PACK, (line.pack, line.size, line.codec, line.checksum, content))
        first = line.pack << POSITION_BITS
        for number, (name, offset, size) in enumerate(line.members):
            self._execute(ADD_OBJECT, (name, first | number, offset, size))

    def _objects_gone(self, line: jsonl.ObjectsGoneLine) -> None:
        self._tx.drop_objects(line.names)

    def _pack_gone(self, line: jsonl.PackGoneLine) -> None:
        self._tx.drop_pack(line.pack)

    def _numbers(self, line: jsonl.NumbersLine) -> None:
        self._raise("sessions", line.sid)
        self._raise("branches", line.branch)
        self._raise("packs", line.pack)

    def _raise(self, table: str, number: int) -> None:
        self._execute(START_NUMBER, (table,))
        self._execute(RAISE_NUMBER, (table, number))


_USUAL: Final = details_values(Details())
_ACTIONS: Final[dict[type, Callable[[Replay, Any], None]]] = {
    jsonl.LogLine: Replay._begin,
    jsonl.SessionLine: Replay._session,
    jsonl.DetailsLine: Replay._details,
    jsonl.HeadLine: Replay._head,
    jsonl.SessionGoneLine: Replay._session_gone,
    jsonl.BranchLine: Replay._branch,
    jsonl.DisownedLine: Replay._disowned,
    jsonl.AdoptedLine: Replay._adopted,
    jsonl.BranchGoneLine: Replay._branch_gone,
    jsonl.EntriesGoneLine: Replay._entries_gone,
    jsonl.ErasedLine: Replay._erased,
    jsonl.EventLine: Replay._event,
    jsonl.EventsGoneLine: Replay._events_gone,
    jsonl.UsageLine: Replay._usage,
    jsonl.RecordLine: Replay._record,
    jsonl.RecordGoneLine: Replay._record_gone,
    jsonl.PackLine: Replay._pack,
    jsonl.ObjectsGoneLine: Replay._objects_gone,
    jsonl.PackGoneLine: Replay._pack_gone,
    jsonl.NumbersLine: Replay._numbers,
}


def _keyed(sid: int, row: EventRow | UsageRow) -> tuple[Any, ...]:
    return (sid << POSITION_BITS | row.number, *msgspec.structs.astuple(row)[1:])
