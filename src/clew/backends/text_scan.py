"""Finding texts without an index: every entry is looked at."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from clew.core.log import checks
from clew.core.log.rows import MESSAGE, SessionQuery
from clew.core.messages.search_text import TextPlace, TextQuery, TextRow
from clew.errors import CorruptEntryError, CorruptError

if TYPE_CHECKING:
    from clew.backends.contract import OnDamage, Reader

AT_ONCE: Final = 500
ROOM: Final = 4 * 1024 * 1024
"""Bytes of bodies that are in memory at once, unless a single one is larger."""
EVERYTHING: Final = 2**31


def scan_texts(reader: Reader, query: TextQuery) -> list[TextPlace]:
    """What `find_texts` answers, by reading the log. Keeps no more in memory than the answer."""
    return heapq.nlargest(query.limit, _matching(reader, query))


def read_texts(
    reader: Reader, branch: int, first: int, last: int, on_damage: OnDamage = lambda damage: None
) -> Iterator[TextRow]:
    """The texts of the messages at these positions; damaged ones are passed over.

    `on_damage` is told of them."""
    from clew.core.messages.search_text import searched_text

    while first <= last:
        end = min(first + AT_ONCE - 1, last)
        rows = reader.read_entries(branch, first, end, room=ROOM, on_damage=on_damage)
        is_full = sum(len(row.body) for row in rows) >= ROOM
        first = (rows[-1].position if is_full else end) + 1
        for row in rows:
            if row.kind != MESSAGE:
                continue
            try:
                message = checks.message(str(branch), row.position, row.body)
            except CorruptEntryError as damage:
                on_damage(damage)
                continue
            yield TextRow(TextPlace(row.time, branch, row.position), *searched_text(message, row.flags))


def _matching(reader: Reader, query: TextQuery) -> Iterator[TextPlace]:
    for branch, first, last in _ranges(reader, query.branches):
        for row in read_texts(reader, branch, first, last):
            if _is_wanted(row, query) and _matches(row, query):
                yield row.place


def is_match(reader: Reader, place: TextPlace, query: TextQuery) -> bool:
    """Whether the entry at this place matches."""
    rows = read_texts(reader, place.branch, place.position, place.position)
    return any(_matches(row, query) for row in rows)


def _matches(row: TextRow, query: TextQuery) -> bool:
    from clew.core.messages.words import flat

    text = flat(row.said)
    if query.tools and row.tool:
        text = f"{text} {BETWEEN} {flat(row.tool)}"
    return query.query.matches(text)


BETWEEN: Final = "\n"
"""No word: a phrase does not reach from what was said into what a tool answered."""


def _is_wanted(row: TextRow, query: TextQuery) -> bool:
    return (
        (query.role is None or row.role == query.role)
        and (query.before is None or row.place < query.before)
        and (query.since is None or row.place.time >= query.since)
        and (query.until is None or row.place.time < query.until)
    )


def _ranges(reader: Reader, branches: Iterable[int] | None) -> Iterator[tuple[int, int, int]]:
    for branch in _all_branches(reader) if branches is None else branches:
        try:
            fork = reader.get_branch(branch).fork
        except (KeyError, CorruptError):
            continue  # purged meanwhile, or damaged
        yield branch, fork + 1, reader.last_position(branch)


def _all_branches(reader: Reader) -> Iterator[int]:
    found = reader.list_sessions(SessionQuery(limit=EVERYTHING))
    for tree in dict.fromkeys(each.row.tree for each in found):
        for branch in reader.tree_branches(tree):
            yield branch.branch
