"""What a store in memory consists of, and how a write to it is taken back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from clew.backends.contract import RecordKind
from clew.core.log.rows import BranchRow, Details, EntryRow, EventRow, ObjectPlace, SessionRow, UsageRow

Undo: TypeAlias = Callable[[], object]
K = TypeVar("K")
V = TypeVar("V")


class Tables:
    """Sessions by sid, branches by number, entries by branch, events and usage by sid,
    packs by number, objects by name."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.sessions: dict[int, SessionRow] = {}
        self.ids: dict[str, int] = {}
        self.details: dict[int, Details] = {}
        self.branches: dict[int, BranchRow] = {}
        self.uids: dict[str, int] = {}
        self.entries: dict[int, list[EntryRow]] = {}
        self.records: dict[tuple[int, RecordKind, str], bytes] = {}
        self.events: dict[int, list[EventRow]] = {}
        self.event_ids: dict[tuple[int, str], EventRow] = {}
        self.usage: dict[int, list[UsageRow]] = {}
        self.usage_ids: dict[tuple[int, str], UsageRow] = {}
        self.packs: dict[int, tuple[int, bytes, int]] = {}
        self.objects: dict[bytes, ObjectPlace] = {}


class Journal:
    """Writes at once and remembers how to take each write back."""

    writes = 0
    is_certain = True
    era = 0

    def __init__(self, tables: Tables) -> None:
        self._of = tables
        self._undo: list[Undo] = []

    def rollback(self) -> None:
        for undo in reversed(self._undo):
            undo()

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        self.writes += 1
        if key in table:
            old = table[key]
            self._undo.append(lambda: table.__setitem__(key, old))
        else:
            self._undo.append(lambda: table.pop(key, None))
        table[key] = value

    def _drop(self, table: dict[K, V], key: K) -> bool:
        if key not in table:
            return False
        self.writes += 1
        old = table.pop(key)
        self._undo.append(lambda: table.__setitem__(key, old))
        return True

    def _extend(self, kept: list[V], rows: list[V]) -> None:
        self.writes += 1
        length = len(kept)
        self._undo.append(lambda: kept.__delitem__(slice(length, None)))
        kept.extend(rows)
