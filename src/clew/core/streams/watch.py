"""Following what happens in a store, by whatever process.

There is no log of all that happens: an append would have to write to it. There is the order of the last
activity, which listing needs anyway. A look takes the sessions whose activity is at or after a mark, and
those with a notice since (see notices), and reports those that differ from the last look.

The mark stays behind the newest activity by SLACK: a writer takes the time before it waits for its turn
to commit, so what is older may come later. That is rare, and a look so far back costs as much as there are
active sessions. So the look that follows a commit goes back by SHORT_SLACK at most, and one that goes back
all the way follows soon, once for many commits.

Storage says when something was committed (see wakes): no look without a reason, but a rare one in case that
a writer was killed before it could say so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from clew.backends.contract import Reader
from clew.backends.rows import make_cursor, read_cursor
from clew.core.conversation.points import head_of
from clew.core.engine.engine import Engine
from clew.core.engine.notices import noticed
from clew.core.engine.wakes import Wakes
from clew.core.log.ids import check_seconds
from clew.core.log.rows import Details, HeadRow, SessionQuery, SessionRow
from clew.core.streams.families import last_usages
from clew.errors import CorruptError, StoreClosedError
from clew.model import STATUSES, Head, utc
from clew.model.session import Change, ChangeKind

SLACK: Final = 60_000_000
"""Microseconds: longer than any writer waits for its turn, and than clocks of machines differ."""
SHORT_SLACK: Final = 2_000_000
SHORTEST_SLACK: Final = 200_000
"""Where very many sessions are active."""
MANY: Final = 200
"""Sessions that a look after a commit is to read, at most."""
FULL_AFTER: Final = 1.0
"""Seconds from a commit to the look that goes back all the way;"""
FULL_SHARE: Final = 20
"""and so many times as long as the last of that kind took."""
EVERY: Final = 10.0
"""Seconds between two looks, if storage tells of nothing."""
GAP: Final = 0.02
"""Seconds between two looks, at least;"""
SHARE: Final = 4
"""and so many times as long as the last one took: no watcher takes more than a fifth of the time."""
PAGE: Final = 200
LONGEST_PAUSE: Final = 3600.0

_Look: TypeAlias = tuple[int, int | None, HeadRow, int, int, int]


class News(msgspec.Struct, frozen=True):
    """A change, and the row of the session that it tells of."""

    row: SessionRow
    change: Change


class Watcher:
    """One who looks again and again. Not for several threads at once."""

    def __init__(
        self, engine: Engine, after: str | None, every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._wakes = engine.service(Wakes)
        self._every = check_seconds(every, "every", most=LONGEST_PAUSE)
        self._seen: dict[int, _Look] = {}
        self._mark = engine.now() if after is None else read_cursor(after)[0]
        self._is_full = True
        """The next look goes back all the way."""
        self._full_at: float | None = None
        """When that is due; None: there is no reason."""
        self._full_took = 0.0
        self._slack = SHORT_SLACK
        self._count = -1
        self._began = self._ended = self._clock()
        if after is None:
            self.news()  # what is there already is no news

    def follow(self) -> Iterator[Change]:
        """Every change from now on, until the store is closed."""
        process = os.getpid()
        while os.getpid() == process:
            try:
                yield from self.look()
                while not self.pause(self._every):
                    pass
            except StoreClosedError:
                return

    def pause(self, seconds: float) -> bool:
        """Wait until it is worth looking again, but at most so long; whether it is."""
        now = self._clock()
        deadline = now + seconds
        rest = self._ended + max(GAP, SHARE * (self._ended - self._began)) - now
        if rest > 0:
            time.sleep(min(rest, seconds))
        due = self._ended + self._every
        if self._full_at is not None:
            due = min(due, self._full_at)
        left = min(due, deadline) - self._clock()
        if self._wakes.wait(self._count, max(left, 0)):
            return True
        is_due = self._clock() >= due
        self._is_full = self._is_full or is_due
        return is_due

    def look(self) -> list[Change]:
        """What has happened since the last look, in the order of its time."""
        return [each.change for each in self.news()]

    def news(self) -> list[News]:
        """The same, with the rows."""
        self._began = self._clock()
        is_full = self._is_full or (self._full_at is not None and self._began >= self._full_at)
        count = self._wakes.count
        newest = min(self._mark, self._engine.now())
        seen, news = self._changes(newest - (SLACK if is_full else self._slack))
        self._ended = self._clock()
        self._count = count
        if is_full:
            self._seen, self._is_full, self._full_at = seen, False, None
            self._full_took = self._ended - self._began
        else:
            self._seen.update(seen)
            self._slack = _next_slack(self._slack, len(seen))
            if self._full_at is None:
                self._full_at = self._began + max(FULL_AFTER, FULL_SHARE * self._full_took)
        if news:
            self._mark = max(self._mark, news[-1][0])
        return [one for _, one in news]

    def _changes(self, oldest: int) -> tuple[dict[int, _Look], list[tuple[int, News]]]:
        news: list[tuple[int, News]] = []
        seen: dict[int, _Look] = {}
        with self._engine.read() as reader:
            noted = dict[int, int]()
            for moment, sid in noticed(reader, oldest):
                noted[sid] = moment
            found = [*_recent(reader, oldest), *_noted(reader, noted)]
            used = last_usages(reader, [row.sid for row, _ in found])
            for row, details in found:
                calls = used[row.sid].number if row.sid in used else 0
                look = (row.updated, row.deleted, row.head, row.status, calls, _settings(row, details))
                if self._seen.get(row.sid) != look != seen.get(row.sid):
                    moment = max(moment_of(row), noted.get(row.sid, 0))
                    with suppress(KeyError, CorruptError):  # it was purged just now, or is damaged
                        news.append((moment, News(row, change_of(reader, row, moment))))
                seen[row.sid] = look
        news.sort(key=lambda one: one[0])
        return seen, news


def _next_slack(slack: int, found: int) -> int:
    """Shorter where a look finds very many sessions, and longer again where it does not."""
    if found > MANY:
        return max(slack // 2, SHORTEST_SLACK)
    return min(slack * 2, SHORT_SLACK) if found < MANY // 4 else slack


def _settings(row: SessionRow, details: Details) -> int:
    """Another number if the title, the tags or another setting is another one."""
    values = (getattr(details, name) for name in Details.__struct_fields__ if name != "metadata")
    return hash((row.title, row.has_title, row.workspace, bytes(details.metadata), *values))


def _recent(reader: Reader, oldest: int) -> Iterator[tuple[SessionRow, Details]]:
    """Sessions whose last activity, or deletion, is not older."""
    for deleted in (False, True):
        after: tuple[int, str] | None = None
        while True:
            query = SessionQuery(limit=PAGE, after=after, deleted=deleted, since=max(oldest, 0))
            page = reader.list_sessions(query)
            yield from ((one.row, one.details) for one in page)
            if len(page) < PAGE:
                break
            after = moment_of(page[-1].row), page[-1].row.id


def _noted(reader: Reader, noted: Iterable[int]) -> Iterator[tuple[SessionRow, Details]]:
    """Those of these sessions that were not purged, and can be read."""
    for sid in noted:
        try:
            row = reader.get_session(sid)
            details = Details() if row is None else reader.get_details(sid)
        except CorruptError:
            continue
        if row is not None:
            yield row, details


def change_of(reader: Reader, row: SessionRow, moment: int) -> Change:
    """What there is to say of a session. KeyError: its branch was purged."""
    head: Head = head_of(reader, row.head)
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


def moment_of(row: SessionRow) -> int:
    """By which it is listed."""
    return row.updated if row.deleted is None else row.deleted
