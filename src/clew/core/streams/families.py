"""What sessions have used together with their subagents: of a whole list in a few questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from clew.backends.contract import Reader
from clew.core.log.rows import SessionName, SessionRow, UsageRow
from clew.core.streams.usage import amount_of
from clew.errors import CorruptError
from clew.model import FamilyUsage

Counts: TypeAlias = Callable[[Reader, int], bool]
"""Whether a subagent, by its `sid`, counts: for a caller who may not see all sessions."""
_Children: TypeAlias = Mapping[str, Sequence[SessionName]]


def roll_up(reader: Reader, rows: Sequence[SessionRow], counts: Counts | None = None) -> list[FamilyUsage]:
    """The sums of each of these sessions and its subagents, at any depth. `counts`: which of them count."""
    children = children_of(reader, [row.id for row in rows], counts)
    families = [list(_below(children, row.sid, row.id)) for row in rows]
    sids = [row.sid for row in rows]
    used = last_usages(reader, [*sids, *(one.sid for family in families for one in family)])
    return [
        _sum(
            [used[sid] for sid in dict.fromkeys((row.sid, *(one.sid for one in family))) if sid in used],
            sum(not one.deleted for one in family),
        )
        for row, family in zip(rows, families, strict=True)
    ]


def subagents_below(reader: Reader, sid: int, id: str) -> list[int]:
    """The `sid` of each subagent of a session, and of theirs, those in the trash too."""
    return [one.sid for one in _below(children_of(reader, [id]), sid, id)]


def children_of(reader: Reader, ids: Iterable[str], counts: Counts | None = None) -> _Children:
    """The subagents of these sessions, of those, and so on: by the id of the session that started them. A
    question for each level, in which no session is asked for twice: what is read back may run in a circle."""
    found: dict[str, list[SessionName]] = {}
    level = list(dict.fromkeys(ids))
    while level:
        found |= {id: [] for id in level}
        for parent, name in reader.find_subagents(level):
            if counts is None or counts(reader, name.sid):
                found[parent].append(name)
        below = (name.id for id in level for name in found[id])
        level = [id for id in dict.fromkeys(below) if id not in found]
    return found


def _below(children: _Children, sid: int, id: str) -> Iterator[SessionName]:
    seen = {sid}
    waiting = [id]
    asked = {id}
    while waiting:
        for one in children[waiting.pop()]:
            if one.sid not in seen:
                seen.add(one.sid)
                yield one
            if one.id not in asked:
                asked.add(one.id)
                waiting.append(one.id)


def last_usages(reader: Reader, sids: Sequence[int]) -> dict[int, UsageRow]:
    """The last call of each of these sessions, which has the sums over all of them; without those that have
    none, or a damaged one."""
    wanted = list(dict.fromkeys(sids))
    try:
        return reader.last_usages(wanted)
    except CorruptError:
        found: dict[int, UsageRow] = {}
        for sid in wanted:  # a damaged call costs the sums of its session
            with suppress(CorruptError):
                found |= reader.last_usages([sid])
        return found


_NAMES: Final = {
    "calls": "number", "input_tokens": "all_input", "output_tokens": "all_output",
    "cache_read_tokens": "all_cache_read", "cache_write_tokens": "all_cache_write",
    "reasoning_tokens": "all_reasoning", "unpriced": "all_unpriced", "estimated": "all_estimated",
}  # fmt: skip
"""Sums as they are shown, and as the last call of a session has them."""


def _sum(used: Sequence[UsageRow], subagents: int) -> FamilyUsage:
    sums = {name: sum(getattr(row, stored) for row in used) for name, stored in _NAMES.items()}
    return FamilyUsage(**sums, cost=amount_of(sum(row.all_cost for row in used)), subagents=subagents)
