"""Following what happens in a store, by whatever process.

There is no log of all that happens: an append would have to write to it. There is the order of the last
activity, which listing needs anyway. A look takes the sessions whose activity is at or after a mark, and
those with a notice since (see notices), and reports those that differ from the last look.
The mark stays behind the newest activity by SLACK: a writer takes the time before it waits for its turn
to commit, so what is older may come later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

from clew.backends.contract import Reader
from clew.backends.rows import make_cursor, read_cursor
from clew.core.conversation.points import head_of
from clew.core.engine.engine import Engine
from clew.core.engine.notices import noticed
from clew.core.log.ids import check_seconds
from clew.core.log.rows import HeadRow, SessionQuery, SessionRow
from clew.errors import CorruptError, StoreClosedError
from clew.model import STATUSES, Head, utc
from clew.model.session import Change, ChangeKind

SLACK: Final = 60_000_000
"""Microseconds: longer than any writer waits for its turn, and than clocks of machines differ."""
PAGE: Final = 200
LONGEST_PAUSE: Final = 3600.0

_Look: TypeAlias = tuple[int, int | None, HeadRow, int]


class Watcher:
    """One who looks again and again. Not for several threads at once."""

    def __init__(self, engine: Engine, after: str | None, every: float) -> None:
        self._engine = engine
        self._every = check_seconds(every, "every", most=LONGEST_PAUSE)
        self._seen: dict[int, _Look] = {}
        self._mark = engine.now() if after is None else read_cursor(after)[0]
        if after is None:
            self.look()  # what is there already is not news

    def follow(self) -> Iterator[Change]:
        """Every change from now on, until the store is closed."""
        process = os.getpid()
        while os.getpid() == process:
            try:
                yield from self.look()
                self.pause()
            except StoreClosedError:
                return

    def pause(self) -> None:
        """Wait until it may be worth looking again."""
        self._engine.backend.pause(self._every)

    def look(self) -> list[Change]:
        """What has happened since the last look, in the order of its time."""
        oldest = min(self._mark, self._engine.now()) - SLACK
        news: list[tuple[int, Change]] = []
        seen: dict[int, _Look] = {}
        with self._engine.read() as reader:
            noted = dict[int, int]()
            for time, sid in noticed(reader, oldest):
                noted[sid] = time
            for row in (*_recent(reader, oldest), *_noted(reader, noted)):
                look = (row.updated, row.deleted, row.head, row.status)
                if self._seen.get(row.sid) != look != seen.get(row.sid):
                    moment = max(_moment(row), noted.get(row.sid, 0))
                    with suppress(KeyError, CorruptError):  # it was purged just now, or is damaged
                        news.append((moment, _change(row, head_of(reader, row.head), moment)))
                seen[row.sid] = look
        self._seen = seen
        news.sort(key=lambda one: one[0])
        if news:
            self._mark = max(self._mark, news[-1][0])
        return [change for _, change in news]


def _recent(reader: Reader, oldest: int) -> Iterator[SessionRow]:
    """Sessions whose last activity, or deletion, is not older."""
    for deleted in (False, True):
        after: tuple[int, str] | None = None
        while True:
            page = reader.list_sessions(SessionQuery(limit=PAGE, after=after, deleted=deleted))
            recent = [one.row for one in page if _moment(one.row) >= oldest]
            yield from recent
            if len(recent) < PAGE:
                break
            after = _moment(recent[-1]), recent[-1].id


def _noted(reader: Reader, noted: Iterable[int]) -> Iterator[SessionRow]:
    """Those of these sessions that were not purged, and can be read."""
    for sid in noted:
        try:
            row = reader.get_session(sid)
        except CorruptError:
            continue
        if row is not None:
            yield row


def _change(row: SessionRow, head: Head, moment: int) -> Change:
    kind: ChangeKind = "changed"
    if row.deleted is not None:
        kind = "deleted"
    elif row.updated == row.created and not row.head.branch:
        kind = "created"
    return Change(
        kind=kind,
        session=row.id,
        at=utc(moment),
        head=head,
        messages=row.head.messages,
        status=STATUSES[row.status],
        cursor=make_cursor(moment, row.id),
    )


def _moment(row: SessionRow) -> int:
    return row.updated if row.deleted is None else row.deleted
