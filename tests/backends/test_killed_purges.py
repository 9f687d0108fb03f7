"""A process that is killed while it purges a large session: the next one finishes its work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.backends.sqlite.traces import traces
from tests.faults.crash.common import quick_directory, texts
from tests.support.children import Child
from tests.support.purges import MOST, counted, grow, leftovers_of

LARGE = 3500
WORD = b"word 2"
"""Stands in many messages, those that go first and those that go last."""


@pytest.fixture
def place() -> Iterator[Path]:
    with quick_directory() as directory:
        yield directory


def purge_and_die(tell: Callable[[Any], None], address: str, batches: int) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    store = clew.open(address)
    with counted(store, most=batches, end=die):
        store.delete("large", purge=True)


@pytest.mark.parametrize("batches", [0, 1, 3])
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_p18_a_purge_that_is_killed_between_its_transactions_is_finished_by_the_next_one(
    place: Path, kind: str, batches: int
) -> None:
    address = str(place / "a.db") if kind == "sqlite" else f"jsonl://{place / 'store'}"
    with clew.open(address) as store:
        grow(store.create("large"), LARGE)
        store.get("large").fork("fork", at=1).append({"role": "user", "content": "its own"})
        store.delete("fork", purge=True)
        store.create("other").append({"role": "user", "content": "stays"})
        store.search("word")

    with Child(purge_and_die, address, batches) as child:
        assert child.wait() == -signal.SIGKILL

    with clew.open(address) as store:
        is_there = batches == 0
        assert leftovers_of(store) == (0 if is_there else LARGE - MOST * batches)
        assert (store.find("large") is not None) == is_there
        assert bool(store.search("word").hits) == is_there
        assert store.verify(full=True).problems == ()

        if is_there:
            store.delete("large", purge=True)
        else:
            store.sweep(scrub=True)

        assert leftovers_of(store) == 0
        assert store.verify(full=True).problems == ()
        assert texts(store.get("other")) == ["stays"]
        assert traces(place, {WORD}) == {}
    assert traces(place, {WORD}) == {}


def test_the_log_of_a_session_that_is_being_removed_is_read_again_without_its_index(place: Path) -> None:
    """JSONL: the logs alone say what is still to be removed, and that nobody has it."""
    address = f"jsonl://{place / 'store'}"
    with clew.open(address) as store:
        grow(store.create("large"), LARGE)
    with Child(purge_and_die, address, 1) as child:
        assert child.wait() == -signal.SIGKILL
    for file in (place / "store").glob("index*"):
        file.unlink()

    with clew.open(address) as store:
        assert store.stats().sessions == store.stats().entries == 0
        assert leftovers_of(store) == LARGE - MOST
        assert store.verify(full=True).problems == ()

        store.sweep(scrub=True)

        assert leftovers_of(store) == 0
    assert traces(place, {WORD}) == {}
