"""P18: what only purged sessions held of files leaves the store in the purge, not with the next `gc`.

The records go first, with a note that their content may still be there; then that is collected and packs
with gaps are packed again; then the note goes. A process that is killed in between leaves the note, and the
next purge goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from uuid_utils import uuid7

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.retention.purge import FILES
from clew.errors import ConflictError, LeaseHeldError, StoreBusyError
from clew.files import journal, records
from clew.files.snapshot.statcache import forget_root
from clew.files.upkeep.gc import gc
from clew.files.upkeep.needs import Left, left_by_purged

if TYPE_CHECKING:
    from clew.core.engine.engine import Engine

T = TypeVar("T")

WAIT: Final = 30.0
PAUSE: Final = 0.02


def unless_cut_off(tx: Transaction, purge: Callable[[Transaction], T]) -> T:
    """Purge, and refuse it if files of a session that goes are half restored: its safety snapshot is all that
    has what they were."""
    waiting = {journal.moved_by(record).sid: record for record in journal.pending(tx)}
    there = [sid for sid in waiting if sid and tx.get_session(sid) is not None]
    result = purge(tx)
    for sid in there:
        if tx.get_session(sid) is None:
            record = waiting[sid]
            raise ConflictError(
                f"restore {record.id} of {journal.moved_by(record).session!r} is not over: finish or undo it"
                " first; with force=True what it replaced is lost"
            )
    return result


def erase_files_of_purged(engine: Engine, *, drops_pending: bool) -> None:
    """StoreBusyError: others collect, and did not end; repeat it."""
    with engine.read() as reader:
        left = left_by_purged(reader, drops_pending=drops_pending)
        is_noted = reader.get_record(STORE_WIDE, "unscrubbed", FILES) is not None
    if not left and not is_noted:
        return
    note = uuid7().hex.encode()
    for root in engine.run(lambda tx: _drop_records(tx, note, drops_pending=drops_pending)):
        forget_root(engine.backend.location, root)
    _collect(engine)
    engine.run(lambda tx: _drop_note(tx, note))


def _drop_records(tx: Transaction, note: bytes, *, drops_pending: bool) -> set[bytes]:
    """The directories that they were of."""
    left: Left = left_by_purged(tx, drops_pending=drops_pending)
    for id in left.snapshots:
        records.delete(tx, id)
    for id in left.restores:
        tx.drop_record(STORE_WIDE, "restore", id)
    tx.put_record(STORE_WIDE, "unscrubbed", FILES, note)
    return left.roots


def _collect(engine: Engine) -> None:
    until = time.monotonic() + WAIT
    while True:
        try:
            gc(engine, thorough=True)
        except LeaseHeldError as exc:
            if time.monotonic() > until:
                raise StoreBusyError(
                    "the session is removed, but others keep what only its files held from being removed:"
                    " purge again, or gc(thorough=True)"
                ) from exc
            time.sleep(PAUSE)
        else:
            return


def _drop_note(tx: Transaction, note: bytes) -> None:
    if tx.get_record(STORE_WIDE, "unscrubbed", FILES) == note:
        tx.drop_record(STORE_WIDE, "unscrubbed", FILES)
