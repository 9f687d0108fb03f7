"""Purges of large sessions: how much each transaction removes, and what is left of one that is cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pytest

from clew.backends.contract import Transaction
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import user

T = TypeVar("T")
MOST: Final = 1000
"""Entries that one transaction removes at most."""


class CutOffError(Exception):
    """Stands for the end of the process."""


def stop() -> None:
    raise CutOffError


def grow(session: Session, count: int) -> None:
    for first in range(0, count, 500):
        session.append(*(user(f"word {n}") for n in range(first, min(first + 500, count))))


@contextmanager
def counted(store: Store, *, most: int | None = None, end: Callable[[], None] = stop) -> Iterator[list[int]]:
    """How many entries each transaction removes; behind `most` of those that do, `end` is called."""
    engine = store._engine
    found: list[int] = []
    run = engine.run

    def counting(work: Callable[[Transaction], T]) -> T:
        if most is not None and len(found) == most:
            end()

        def work_and_count(tx: Transaction) -> tuple[T, int]:
            before = tx.totals(0).entries
            result = work(tx)
            return result, before - tx.totals(0).entries

        result, removed = run(work_and_count)
        if removed:
            found.append(removed)
        return result

    engine.run = counting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del engine.run


def cut_off(store: Store, purge: Callable[[], Any], batches: int = 1) -> None:
    """Begin a purge that ends behind so many transactions that removed entries."""
    with counted(store, most=batches) as removed, pytest.raises(CutOffError):
        purge()
    assert sum(removed) == MOST * batches


def leftovers_of(store: Store) -> int:
    """How many entries are stored that are not counted, because they are being removed."""
    with store._engine.read() as reader:
        return reader.totals(0).entries - store.stats().entries
