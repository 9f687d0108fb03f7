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
from clew.core.streams.families import roll_up
from clew.core.streams.watch import SLACK, News, change_of, moment_of
from clew.errors import CorruptError
from clew.model import SessionInfo
from clew.model.session import Change
from clew.server.access.principal import Principal
from clew.server.wire.listed import counted_for, forks_of, seen_info
from clew.server.wire.sessions import ListedSession, listed

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


class ChangeFrame(Change, frozen=True, kw_only=True):
    """A change, and the session as lists with `usage=true` give it."""

    info: ListedSession | None
    """null: it is damaged, or was purged just now."""


def seen_by(principal: Principal, engine: Engine, news: list[News]) -> list[ChangeFrame]:
    """Those of these changes that a caller may know of."""
    found: list[ChangeFrame] = []
    with engine.read() as reader:
        sums = roll_up(reader, [each.row for each in news], counted_for(principal))
        forks = forks_of(reader, principal, [each.row for each in news])
        for each, used, below in zip(news, sums, forks, strict=True):
            info = _info(reader, each.row)
            if principal.is_bound and (info is None or not principal.sees(info)):
                continue
            shown = None if info is None else listed(seen_info(principal, reader, info), used, below)
            change = {name: getattr(each.change, name) for name in Change.__struct_fields__}
            found.append(ChangeFrame(**change, info=shown))
    return found


def _info(reader: Reader, row: SessionRow) -> SessionInfo | None:
    try:
        return info_of(reader, row, reader.get_details(row.sid), reader.get_record(row.sid, "run", ""))
    except (KeyError, CorruptError):
        return None
