"""What happened in the store since a cursor, page by page: for streams of the store that resume.

The same as `store.watch(after)`, in bounded memory: however long ago the cursor was given, a page is held at
a time. What changes meanwhile moves behind the pages that are read, so nothing is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from typing import Final

import msgspec

from clew.backends.contract import Reader
from clew.backends.rows import read_cursor
from clew.core.conversation.sessions import info_of
from clew.core.engine.engine import Engine
from clew.core.engine.notices import noticed
from clew.core.log.rows import SessionQuery, SessionRow
from clew.core.streams.watch import SLACK, News, change_of, moment_of
from clew.errors import CorruptError
from clew.model.session import Change
from clew.server.access.principal import Principal

PAGE: Final = 100


class Backlog:
    """Changes since a cursor, oldest first. `read` blocks; for one thread at a time."""

    def __init__(self, engine: Engine, after: str) -> None:
        self._engine = engine
        since = max(read_cursor(after)[0] - SLACK, 0)
        self._found = merge(
            self._listed(since, deleted=False),
            self._listed(since, deleted=True),
            self._noticed(since),
            key=lambda one: one[0],
        )

    def read(self) -> list[News]:
        """The next page; an empty one is the end."""
        page: list[News] = []
        for moment, row in self._found:
            with self._engine.read() as reader, suppress(KeyError, CorruptError):
                page.append(News(row, change_of(reader, row, moment)))
            if len(page) >= PAGE:
                break
        return page

    def _listed(self, since: int, *, deleted: bool) -> Iterator[tuple[int, SessionRow]]:
        query = SessionQuery(limit=PAGE, oldest=True, deleted=deleted, since=since)
        while True:
            with self._engine.read() as reader:
                rows = [one.row for one in reader.list_sessions(query)]
            for row in rows:
                yield moment_of(row), row
            if len(rows) < PAGE:
                return
            query = msgspec.structs.replace(query, after=(moment_of(rows[-1]), rows[-1].id))

    def _noticed(self, since: int) -> Iterator[tuple[int, SessionRow]]:
        with self._engine.read() as reader:
            notices = list(noticed(reader, since))
        for moment, sid in notices:
            with self._engine.read() as reader:
                row = _get(reader, sid)
            if row is not None:
                yield max(moment, moment_of(row)), row


def _get(reader: Reader, sid: int) -> SessionRow | None:
    try:
        return reader.get_session(sid)
    except CorruptError:
        return None


def seen_by(principal: Principal, engine: Engine, news: list[News]) -> list[Change]:
    """Those of these changes that a caller may know of."""
    if not principal.is_bound:
        return [each.change for each in news]
    found: list[Change] = []
    with engine.read() as reader:
        for each in news:
            with suppress(KeyError, CorruptError):
                info = info_of(reader, each.row, reader.get_details(each.row.sid), None)
                if principal.sees(info):
                    found.append(each.change)
    return found
