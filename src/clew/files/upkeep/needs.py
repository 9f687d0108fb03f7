"""What needs a snapshot: who asked for it, a checkpoint, a restore, a move that can be undone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.conversation.checkpoints import decode_checkpoint
from clew.core.conversation.moves import decode_move
from clew.core.retention.rules import DAY
from clew.errors import CorruptError
from clew.files import journal, records

SAFETY_AGE: Final = 30 * DAY
"""How long a restore can be undone at least."""


def unneeded(reader: Reader, now: int) -> list[str]:
    """Ids of snapshots. It is looked at again before they go: what names them may change meanwhile."""
    needs = _Needs(reader, now)
    return [id for id, value in records.scan(reader) if not needs.need(id, value)]


def drop_unneeded(tx: Transaction, ids: Iterable[str], now: int) -> int:
    """Forget those of these snapshots that are still not needed, and restores that are too old to be undone;
    how many snapshots there were."""
    needs = _Needs(tx, now)
    count = 0
    for id in ids:
        value = tx.get_record(STORE_WIDE, "snapshot", id)
        if value is not None and not needs.need(id, value):
            count += records.delete(tx, id)
    for id in needs.old_restores:
        tx.drop_record(STORE_WIDE, "restore", id)
    return count


class Left(msgspec.Struct, frozen=True):
    """Records of files that belong to sessions which are gone."""

    snapshots: tuple[str, ...]
    restores: tuple[str, ...]
    roots: set[bytes]

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.restores)


def left_by_purged(reader: Reader, *, drops_pending: bool) -> Left:
    """What cannot be asked for any more, because the session is gone that could. Of a tree of which a fork
    lives on, too: what no session of it names. `drops_pending`: restores that are not over count."""
    gone = [
        record
        for record in journal.readable(reader)
        if _is_session_gone(reader, record) and (drops_pending or record.state != "pending")
    ]
    restores = {record.id for record in gone}
    needs = _Needs(reader, 0, without=restores)
    found = [
        (id, kept.root)
        for id, value in records.scan(reader)
        if (kept := _readable_kept(id, value)) is not None and needs.is_left(id, kept)
    ]
    roots = {root for _, root in found} | {record.root for record in gone}
    return Left(tuple(id for id, _ in found), tuple(sorted(restores)), roots)


def _is_session_gone(reader: Reader, record: journal.Restore) -> bool:
    sid = journal.moved_by(record).sid
    try:
        return bool(sid) and reader.get_session(sid) is None
    except CorruptError:
        return False


def _readable_kept(id: str, value: bytes) -> records.SnapshotRecord | None:
    try:
        return records.decode_record(id, value)
    except CorruptError:
        return None


def trees_of_restores(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Trees that restores need to be finished or undone, with the ids of the restores: the snapshots that
    they are of may have been deleted."""
    for id, _ in reader.scan_records(STORE_WIDE, "restore"):
        record = _restore(reader, id)
        if record is not None:
            trees = {record.target, record.now, record.last, record.known}
            yield from ((id, tree) for tree in trees if tree and reader.find_objects([tree]))


class _Needs:
    """What names snapshots, read once."""

    def __init__(self, reader: Reader, now: int, *, without: Collection[str] = ()) -> None:
        """`without`: restores that do not count."""
        self._reader = reader
        self._now = now
        self._is_in_doubt = bool(reader.damaged_sessions())
        """To which tree a damaged session belongs is not known."""
        self._by_sessions: dict[int, set[str | None]] = {}
        self._restores: list[bytes] = []
        self.old_restores: list[str] = []
        for id, value in reader.scan_records(STORE_WIDE, "restore"):
            if id in without:
                continue
            if self._is_old(_restore(reader, id)):
                self.old_restores.append(id)
            else:
                self._restores.append(value)

    def need(self, id: str, value: bytes) -> bool:
        kept = records.decode_record(id, value)
        if kept.kind == "snapshot" or self.is_named_by_restore(id):
            return True
        try:
            if kept.sessions and not self._reader.tree_sessions(kept.sessions):
                return self._is_in_doubt
            if kept.kind == "safety" and self._now - kept.time < SAFETY_AGE:
                return True
            return bool(kept.sessions) and id in self._named_by(kept.sessions)
        except CorruptError:
            return True  # a session that cannot be read may name it

    def is_left(self, id: str, kept: records.SnapshotRecord) -> bool:
        """Whether it was of sessions, and none of them, nor a restore, names it."""
        if not kept.sessions or kept.kind == "snapshot" or self.is_named_by_restore(id):
            return False
        try:
            if self._is_in_doubt and not self._reader.tree_sessions(kept.sessions):
                return False
            return id not in self._named_by(kept.sessions)
        except CorruptError:
            return False  # a session that cannot be read may name it

    def is_named_by_restore(self, id: str) -> bool:
        # A record that is damaged counts: an id that stands nowhere in it is not named by it.
        return any(id.encode() in value for value in self._restores)

    def _is_old(self, record: journal.Restore | None) -> bool:
        if record is None or record.state == "pending":
            return False
        sid = journal.moved_by(record).sid
        if _is_session_gone(self._reader, record):
            return True  # it was purged, and its files go with it
        if self._now - record.created < SAFETY_AGE:
            return False
        return not sid or record.safety not in _named_by_moves(self._reader, sid)

    def _named_by(self, tree: int) -> set[str | None]:
        """What the checkpoints of these sessions name, and the moves that may be undone; a session in
        the trash counts too."""
        if tree not in self._by_sessions:
            names: set[str | None] = set()
            for row in self._reader.tree_sessions(tree):
                found = self._reader.scan_records(row.sid, "checkpoint")
                names.update(named_by_checkpoint(value) for _, value in found)
                names |= _named_by_moves(self._reader, row.sid)
            self._by_sessions[tree] = names
        return self._by_sessions[tree]


def _restore(reader: Reader, id: str) -> journal.Restore | None:
    """None: it is damaged."""
    try:
        return journal.get(reader, id)
    except CorruptError:
        return None


def named_by_checkpoint(value: bytes) -> str | None:
    return decode_checkpoint(value).snapshot


def _named_by_moves(reader: Reader, sid: int) -> set[str | None]:
    found = reader.scan_records(sid, "move")
    return {id for _, value in found for id in named_by_move(value)}


def named_by_move(value: bytes) -> set[str | None]:
    files = decode_move(value).files
    return set() if files is None else {files.safety, files.target}
