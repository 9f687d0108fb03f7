"""Short names for people, beside those of sessions: of snapshots, and of entries.

An entry goes by the last letters of its branch and its position: `9f3a.12`. Unlike a bare position, this name
leads to the same entry after a rewind, and to entries that a rewind left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import clew
from clew.core.log.ids import parse_entry_id
from clew.importers.short_ids import LETTERS, MANY, WHOLE, common_letters, short_id, short_ids

__all__ = [
    "MANY", "beginnings", "branch_names", "entry_name", "find_entry", "short_id", "short_ids",
]  # fmt: skip


def beginnings(ids: Collection[str]) -> dict[str, str]:
    """Of each of these ids, of snapshots for example, as much as tells it from the others."""
    every = sorted(set(ids))
    found = {}
    for at, id in enumerate(every):
        beside = (every[other] for other in (at - 1, at + 1) if 0 <= other < len(every))
        shared = max((common_letters(id, other) for other in beside), default=0)
        found[id] = id if len(id) <= WHOLE else id[: max(shared + 1, LETTERS)]
    return found


# -- entries

BRANCH_LETTERS: Final = 4
"""Of a branch's id, from its end: its beginning is the time, which branches made together share."""


def branch_names(branches: Iterable[str]) -> dict[str, str]:
    """For the id of each branch of a tree the shortest end of it, of four letters or more, that no other
    branch of the tree has."""
    turned = sorted({id[::-1] for id in branches})
    named = {}
    for at, id in enumerate(turned):
        beside = (turned[other] for other in (at - 1, at + 1) if 0 <= other < len(turned))
        shared = max((common_letters(id, other) for other in beside), default=0)
        named[id[::-1]] = id[: max(shared + 1, BRANCH_LETTERS)][::-1]
    return named


def entry_name(names: dict[str, str], place: clew.Head) -> str:
    """The short name of an entry; `names` are those of `branch_names`."""
    return f"{names.get(place.branch, place.branch)}.{place.position}"


def find_entry(branches: Iterable[clew.Branch], text: str) -> list[clew.Head]:
    """The entries of a tree with this short name, or this id: one, if the name is good; none, if there is no
    such entry; several, if it is too short."""
    place = parse_entry_id(text)
    if place is None:
        return []
    return [
        clew.Head(branch.id, place.position)
        for branch in branches
        if branch.id.endswith(place.branch) and branch.first <= place.position <= branch.last
    ]
