"""Going through a store that others write to, or that is damaged: what can be read, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

import msgspec

from clew.backends.contract import Reader, RecordKind
from clew.core.log.rows import SessionRow
from clew.errors import CorruptError, StoreBusyError

PAGE: Final = 500
UNREADABLE: Final = (CorruptError, msgspec.MsgspecError, ValueError, TypeError, AttributeError)
"""What reading a damaged store may raise."""
MISSES: Final = 2000
"""Numbers in a row that stand for nothing: then there are no more of them."""
_PAGE_OF_DAMAGED: Final = 200

Read: TypeAlias = Callable[[], AbstractContextManager[Reader]]
"""A look at a store, such as `engine.read`."""


class ChangedError(StoreBusyError):
    """What is copied was written to meanwhile, or what it needs was collected: it is to be read again."""


class GoneError(ChangedError):
    """What was there when the image of a tree was read was removed since."""


def rows_by_number(read: Read) -> Iterator[SessionRow]:
    """The sessions of a store that cannot list them: those that can be read, one by one."""
    number = misses = 0
    while misses < MISSES:
        number += 1
        try:
            with read() as reader:
                row = reader.get_session(number)
        except (*UNREADABLE, KeyError):
            row = None
        misses = 0 if row is not None else misses + 1
        if row is not None:
            yield row


def scan(reader: Reader, sid: int, kind: RecordKind) -> Iterator[tuple[str, bytes]]:
    """All records of a kind, a page at a time."""
    first = ""
    while True:
        found = reader.scan_records(sid, kind, first, limit=PAGE)
        yield from found
        if len(found) < PAGE:
            return
        first = found[-1][0] + "\0"


def scan_damaged(
    read: Read,
    sid: int,
    kind: RecordKind,
    on_damage: Callable[[Exception], object],
    first: str = "",
    last: str | None = None,
) -> list[tuple[str, bytes]]:
    """All records of a kind that can be read from the front, and then from the back: between them is the
    damage, which is told once."""
    front, error = _forward(read, sid, kind, first, last)
    if error is None:
        return front
    back = _backward(read, sid, kind, front[-1][0] + "\0" if front else first, last)
    on_damage(error)
    return [*front, *reversed(back)]


def _forward(
    read: Read, sid: int, kind: RecordKind, first: str, last: str | None
) -> tuple[list[tuple[str, bytes]], Exception | None]:
    found: list[tuple[str, bytes]] = []
    limit = _PAGE_OF_DAMAGED
    while True:
        try:
            with read() as reader:
                some = reader.scan_records(sid, kind, first, last, limit=limit)
        except UNREADABLE as error:
            if limit == 1:
                return found, error
            limit = 1  # up to the damaged one
            continue
        found += [(name, value) for name, value in some if _is_record(name, value)]
        if len(some) < limit:
            return found, None
        first = some[-1][0] + "\0"


def _backward(
    read: Read, sid: int, kind: RecordKind, first: str, last: str | None
) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    seen: set[str] = set()
    while True:
        try:
            with read() as reader:
                some = reader.scan_records(sid, kind, first, last, reverse=True, limit=2)
        except UNREADABLE:
            return found
        fresh = [(name, value) for name, value in some if name not in seen]
        if not fresh:
            return found
        found += fresh
        seen.update(name for name, _ in fresh)
        last = fresh[-1][0]


def _is_record(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, bytes)
