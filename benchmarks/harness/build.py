"""Clew stores that are large from the start, built by large batches."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import clew
from benchmarks.harness.script import HERE
from benchmarks.harness.work import Conversation

SESSION = "talk"
BATCH = 2000
POOL = 500
"""Different turns; a longer session has them again and again."""


def grow(session: clew.Session, messages: int) -> None:
    """Append so many messages (a multiple of 4), a few thousand at a time."""
    pool = [message for turn in Conversation("build").turns(min(POOL, messages // 4)) for message in turn]
    endless = cycle(pool)
    for start in range(0, messages, BATCH):
        session.append(*islice(endless, min(BATCH, messages - start)))


@contextmanager
def long_session(directory: Path, messages: int) -> Iterator[clew.Session]:
    """A session of a new store, this long.

    Another one was there before, so that the write-ahead log of a short store has its full size as well:
    to write it anew is cheaper than to let it grow.
    """
    directory.mkdir(parents=True)
    with clew.open(str(directory / "clew.db")) as store:
        grow(store.session("another"), BATCH)
        session = store.session(SESSION)
        grow(session, messages)
        yield session


def kept(name: str, make: Callable[[Path], object]) -> Path:
    """A store that takes minutes to make: made once, and kept below benchmarks/.work for the next run.

    Whoever uses it only reads. One that this version of Clew cannot open is made anew.
    """
    folder = HERE / ".work" / "stores" / name
    path = folder / "clew.db"
    if path.exists():
        try:
            clew.open(str(path)).close()
        except clew.ClewError:
            shutil.rmtree(folder)
        else:
            return path
    unfinished = folder.with_name(f"{name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    make(unfinished / path.name)
    unfinished.rename(folder)
    return path
