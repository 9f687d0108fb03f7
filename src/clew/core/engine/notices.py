"""Notices for watchers: sessions that changed though their last activity lies in the past.

`watch` finds changes by the order of the last activity. What is imported, copied, closed, expired,
interrupted, brought back from the trash, appended with an old date, given other settings or another model
call keeps the activity that it had, so it leaves a notice: one for each session, of the last time, found by
its time and by its session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.log.records import number_in
from clew.errors import CorruptError

PAGE: Final = 500
RECENT: Final = 30_000_000
"""Microseconds: activity that is not older is found without a notice."""
_BY_TIME: Final = "t"
_BY_SESSION: Final = "s"


def notice(tx: Transaction, sid: int, now: int) -> None:
    """Make watchers look at a session."""
    forget(tx, sid)
    name = f"{_BY_TIME}{max(now, 0):016x}.{sid}"
    tx.put_record(STORE_WIDE, "notice", name, b"")
    tx.put_record(STORE_WIDE, "notice", f"{_BY_SESSION}{sid}", name.encode())


def forget(tx: Transaction, sid: int) -> None:
    """The session is purged, or there is a newer notice."""
    before = tx.get_record(STORE_WIDE, "notice", f"{_BY_SESSION}{sid}")
    if before is not None:
        tx.drop_record(STORE_WIDE, "notice", before.decode(errors="replace"))
        tx.drop_record(STORE_WIDE, "notice", f"{_BY_SESSION}{sid}")


def noticed(reader: Reader, since: int) -> Iterator[tuple[int, int]]:
    """(time, sid) of the notices from a time on, oldest first."""
    first = f"{_BY_TIME}{max(since, 0):016x}"
    while True:
        found = reader.scan_records(STORE_WIDE, "notice", first, f"{_BY_TIME}~", limit=PAGE)
        for name, _ in found:
            time, _, sid = name[1:].partition(".")
            try:
                yield number_in(time, "a notice", 16), number_in(sid, "a notice")
            except CorruptError:
                continue  # damage is not the watcher's business
        if len(found) < PAGE:
            return
        first = found[-1][0] + "\0"
