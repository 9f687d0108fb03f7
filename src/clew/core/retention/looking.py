"""A look at one session: all that a verdict on it needs, read outside of any transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from clew.backends.contract import Reader
from clew.core.engine.host import Here
from clew.core.log.rows import EXPIRED, Details, SessionRow
from clew.core.retention.rules import Verdict, may_be_silent, verdict_on
from clew.core.retention.silence import nobody_spoke
from clew.core.runs.access import is_held
from clew.core.runs.status import decode_change
from clew.model import Retention


class Found(msgspec.Struct, frozen=True):
    """A session as it was found, and what is to be done with it."""

    row: SessionRow
    details: Details | None
    """None: they can not be read, or nobody looked."""
    verdict: Verdict

    @property
    def is_purge(self) -> bool:
        return any(step.verb == "purge" for step in self.verdict.steps)

    def has_details(self, reader: Reader) -> bool:
        """Whether the details are still those that were found."""
        return self.details is None or reader.get_details(self.row.sid) == self.details


def look(
    read: Callable[[], AbstractContextManager[Reader]],
    row: SessionRow,
    rules: Retention,
    now: int,
    here: Here,
) -> Found:
    with read() as reader:
        details = reader.get_details(row.sid)
        held = bool(row.fence) and is_held(reader, row, here)
        expired_at = _expired_at(reader, row)
    silent = None
    if may_be_silent(row, details, rules, now):
        silent = nobody_spoke(read, row)
    verdict = verdict_on(row, details, rules, now, held=held, expired_at=expired_at, silent=silent)
    return Found(row, details, verdict)


def _expired_at(reader: Reader, row: SessionRow) -> int | None:
    if row.status != EXPIRED:
        return None
    newest = reader.scan_records(row.sid, "status", reverse=True, limit=1)
    return decode_change(newest[0][1]).time if newest else None
