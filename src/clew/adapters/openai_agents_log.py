"""The items of an Agents SDK session in the log: the latest ones, taken away, and replaced."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import clew
from clew.adapters.common.tail import BEGINNING, newest, rewind_before

Item: TypeAlias = dict[str, Any]
Point: TypeAlias = clew.Checkpoint | clew.Entry | clew.Head | str | int
Change: TypeAlias = Callable[[Callable[[clew.Store], bool]], Awaitable[bool]]

T = TypeVar("T")

MOST: Final = 2**32 - 1
"""More items than this no session can have."""


@dataclass(frozen=True)
class Snapshot:
    """The latest items at one moment, in the shape in which the SDK looks for it."""

    items: list[Item]
    complete: bool
    """There are no others before them."""
    replace_suffix: Callable[[int, list[Any]], Awaitable[bool]]


async def as_json(write: Callable[[list[Item]], Awaitable[T]], items: Sequence[Any]) -> T:
    """Write items as the SDK's own stores do: they take what `json` can write, as tuples, and answer the rest
    with its errors."""
    given = list(items)  # who called may change it while it is written
    try:
        return await write(given)
    except clew.InvalidEntryError:
        return await write(json.loads(json.dumps(given)))


def latest_items(session: clew.Session | None, last: int) -> list[Item]:
    return [] if session is None else session.messages(last=min(last, MOST))


def pop_newest(session: clew.Session | None, validate: Callable[[Any], None] | None = None) -> Item | None:
    """Go back to before the newest item; what lies behind it (a summary, say) is left with it."""
    latest = [] if session is None else newest(session, 1)
    if session is None or not latest:
        return None
    item = latest[0].message
    if validate is not None:
        validate(item)
    rewind_before(session, latest[0])
    return item


def replace_all(session: clew.Session | None, items: Sequence[Item | bytes]) -> None:
    if session is None or (not items and session.head == BEGINNING):
        return
    if items:
        session.replace(items)
    else:
        session.clear()


async def take_snapshot(
    store: clew.AsyncStore,
    find: Callable[[clew.Store], clew.Session | None],
    limit: int,
    is_expired: Callable[[Item], bool] | None,
    change: Change,
) -> Snapshot:
    """The latest `limit` items. What is at the beginning and `is_expired` goes when others are replaced."""

    def look(inside: clew.Store) -> list[clew.Entry]:
        session = find(inside)
        return [] if session is None else newest(session, limit + 1)

    latest = await store.read(look)
    entries = latest[:limit][::-1]

    async def replace_suffix(start: int, items: list[Any]) -> bool:
        """False: there is nothing from `start` on, or somebody wrote meanwhile."""
        expected = entries[start:]
        if not expected:
            return False

        async def replace(given: list[Item]) -> bool:
            def work(inside: clew.Store) -> bool:
                session = find(inside)
                return session is not None and _replace(session, expected, given, is_expired)

            return await change(work)

        return await as_json(replace, items)

    return Snapshot([entry.message for entry in entries], len(latest) <= limit, replace_suffix)


def _replace(
    session: clew.Session,
    expected: Sequence[clew.Entry],
    items: Sequence[Item],
    is_expired: Callable[[Item], bool] | None,
) -> bool:
    present = newest(session, len(expected))[::-1]
    if [entry.id for entry in present] != [entry.id for entry in expected]:
        return False
    kept = None if is_expired is None else _without_expired(session, expected[0], is_expired)
    if kept is not None:
        replace_all(session, [*kept, *items])
        return True
    rewind_before(session, expected[0])
    session.append(*items)
    return True


def _without_expired(
    session: clew.Session, until: clew.Entry, is_expired: Callable[[Item], bool]
) -> list[bytes] | None:
    """What is left of the items before `until`; None: all of them."""
    earlier = (entry for entry in session.entries(before=until) if entry.kind == "message")
    for count, entry in enumerate(earlier):
        if not is_expired(entry.message):
            return [entry.raw, *(later.raw for later in earlier)] if count else None
    return [] if until.position else None
