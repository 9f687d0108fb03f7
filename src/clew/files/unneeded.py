"""Which snapshots nobody needs any more: of those that nobody asked to keep for themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.retention import DAY
from clew.work import snapshots
from clew.work.checkpoints import HIDDEN, Record
from clew.work.moves import Move

SAFETY_AGE: Final = 30 * DAY


def unneeded(reader: Reader, now: int) -> list[str]:
    """Ids. It is looked at again before they go: what names them may change while this looks."""
    needs = _Needs(reader, now)
    return [id for id, value in snapshots.scan_kept(reader) if not needs.need(id, value)]


def drop_unneeded(tx: Transaction, ids: Iterable[str], now: int) -> int:
    """Forget those of these snapshots that still nobody needs; how many."""
    needs = _Needs(tx, now)
    count = 0
    for id in ids:
        value = tx.get_record(STORE_WIDE, "snapshot", id)
        if value is not None and not needs.need(id, value):
            count += snapshots.delete(tx, id)
    return count


def is_named_by_restore(reader: Reader, id: str) -> bool:
    """Whether a restore is under way that needs this snapshot, or one that can be undone by it."""
    return _Needs(reader, 0).is_named_by_restore(id)


class _Needs:
    """What names snapshots, read once."""

    def __init__(self, reader: Reader, now: int) -> None:
        self._reader = reader
        self._now = now
        self._restores = [value for _, value in reader.scan_records(STORE_WIDE, "restore")]
        self._by_sessions: dict[int, set[str | None]] = {}

    def need(self, id: str, value: bytes) -> bool:
        kept = snapshots.decode_kept(id, value)
        if kept.kind == "snapshot" or self.is_named_by_restore(id):
            return True
        if kept.kind == "safety" and self._now - kept.time < SAFETY_AGE:
            return True
        return bool(kept.sessions) and id in self._named_by(kept.sessions)

    def is_named_by_restore(self, id: str) -> bool:
        # Whatever a journal looks like: an id that stands nowhere in it is not named by it.
        return any(id.encode() in value for value in self._restores)

    def _named_by(self, tree: int) -> set[str | None]:
        """What the checkpoints of these sessions name, and the moves that may be undone; a session in
        the trash counts, and so does a fork, which sees those of its base."""
        if tree not in self._by_sessions:
            names = self._by_sessions[tree] = set()
            for row in self._reader.tree_sessions(tree):
                names.update(_of_checkpoint(v) for _, v in self._reader.scan_records(row.sid, "checkpoint"))
                names.update(_of_move(v) for _, v in self._reader.scan_records(row.sid, "move"))
        return self._by_sessions[tree]


def _of_checkpoint(value: bytes) -> str | None:
    return None if value == HIDDEN else msgspec.json.decode(value, type=Record).snapshot


def _of_move(value: bytes) -> str | None:
    files = msgspec.json.decode(value, type=Move).files
    return None if files is None else files.safety
