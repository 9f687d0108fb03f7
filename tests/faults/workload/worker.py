"""The worker that is to be killed: it appends, forks, rewinds, takes snapshots, and tells all of it.

Each thing is told before it is begun, and again when it was acknowledged. So whoever listens knows at
any instant what must be there, what may be there, and what must not.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

import clew
from tests.faults.history.checker import outcome_of
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.instants import NOW, Instant
from tests.faults.workload.moves import FIRST_PURGES, Move, World, make, next_move, next_purge, played
from tests.support.children import Child

SHARED: Final = ("alpha", "beta", "gamma")
"""The sessions that all threads of all workers append to."""
PADDING: Final = "".join(chr(33 + n * 7919 % 90) for n in range(6000))
ENDLESS: Final = 1_000_000
PURGER: Final = "purger"

Tell = Callable[[Any], None]
Choose = Callable[[World, str, int, random.Random], Move]


class Orders(msgspec.Struct, kw_only=True):
    """What a worker is to do."""

    name: str
    """Of the worker; no other has the same."""
    seed: int
    appenders: int = 2
    """Threads that append to the shared sessions: with more than one there are group commits."""
    mover: bool = True
    """One more thread, which moves a session of its own about."""
    files: str = ""
    """A directory for it to take snapshots of, with its caches beside it; "": none are taken."""
    retry: list[tuple[str, list[str], str]] = []
    """What nobody got an answer to: session, values, key. To be appended once more."""
    purges: bool = False
    """One more thread, which purges and scrubs."""
    planted: str = ""
    count: int = ENDLESS
    """How many operations each thread makes before it stops."""
    instant: int = 0
    """The step at which it tells that it is time to be killed, and comes to rest; 0: never. If it purges, the
    steps of the thread that does so count."""
    answers_before: int = 0
    """Steps count from when so many operations were answered. If it purges, from when it has purged and
    scrubbed."""
    only_commits: bool = False
    """Of the steps only the begins and ends of commits count."""
    while_opening: bool = False
    """Count from the beginning on; else from when it is open."""


def work(tell: Tell, subject: Subject, orders: Orders) -> None:
    """Work until killed."""
    plant(orders.planted)
    if orders.files:
        os.environ["XDG_CACHE_HOME"] = f"{orders.files}.cache"
    counted, answers_before = "", orders.answers_before
    if orders.purges and not orders.while_opening:
        counted, answers_before = PURGER, len(FIRST_PURGES)
    instant = Instant(
        tell,
        orders.instant,
        answers_before=answers_before,
        only_commits=orders.only_commits,
        only_thread=counted,
    )
    tell_alone = instant.tell
    try:
        store = instant.watch_calls(subject.open) if orders.while_opening else subject.open()
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is told)
        tell(["unopened", orders.name, outcome_of(error), repr(error), time.monotonic_ns()])
        return
    for name in SHARED:
        store.session(name)
    tell(["opened", orders.name])
    instant.watch_commits()
    threads = [
        threading.Thread(target=_append, args=(tell_alone, store, orders, number), daemon=True)
        for number in range(orders.appenders)
    ]
    if orders.mover:
        mover = (tell_alone, store, orders, orders.name, next_move)
        threads.append(threading.Thread(target=_move, args=mover, daemon=True))
    if orders.purges:
        purger = (tell_alone, store, orders, f"{orders.name}p", next_purge)
        threads.append(threading.Thread(target=_move, args=purger, name=PURGER, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if orders.count < ENDLESS:
        store.close()


def hear_until_now(worker: Child) -> list[Any]:
    """What a worker tells until it is time, or until it ends."""
    return list(itertools.takewhile(lambda line: line is not None and line[0] != NOW, iter(worker.hear, 0)))


# -- appending


def _append(tell: Tell, store: clew.Store, orders: Orders, thread: int) -> None:
    client = f"{orders.name}.{thread}"
    chooser = random.Random(f"{orders.seed}.{thread}")
    if thread == 0:
        for again in orders.retry:
            _ask(tell, store, client, *again)
    for number in range(orders.count):
        session = chooser.choice(SHARED)
        values = [f"{client}.{number}.{place}" for place in range(chooser.choice((1, 1, 1, 2, 5)))]
        key = values[0] if chooser.random() < 0.3 else None
        if not _ask(tell, store, client, session, values, key):
            return
        if key and chooser.random() < 0.3:  # whoever is not sure says it again
            store.session(session).append(*_messages(values), key=key)


def _ask(
    tell: Tell, store: clew.Store, client: str, session: str, values: list[str], key: str | None
) -> bool:
    tell(["asked", client, session, values, key, time.monotonic_ns()])
    try:
        entries = store.session(session).append(*_messages(values), key=key)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is told)
        tell(["refused", client, outcome_of(error), repr(error), time.monotonic_ns()])
        return False
    tell(["acknowledged", client, [[entry.id, entry.hash] for entry in entries], time.monotonic_ns()])
    return True


def _messages(values: list[str]) -> list[dict[str, Any]]:
    """Every fourth batch is large. Equal values, equal messages: else a key would not fit them."""
    padding = "" if zlib.crc32(values[0].encode()) % 4 else PADDING
    return [{"role": "user", "content": value, "padding": padding} for value in values]


# -- moving


def _move(tell: Tell, store: clew.Store, orders: Orders, client: str, choose: Choose) -> None:
    chooser = random.Random(f"{orders.seed}.{client}")
    session = f"moves-{client}"
    world: World = {}
    for number in range(orders.count):
        move = choose(world, session, number, chooser)
        if move.kind == "snapshot":
            if not orders.files:
                continue
            _change_files(Path(orders.files), number)
        tell(["move", client, move])
        try:
            snapshot = make(store, move, orders.files)
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is told)
            tell(["stopped", client, outcome_of(error), repr(error), time.monotonic_ns()])
            return
        world = played(world, move)
        tell(["moved", client, snapshot, f"content {number}", time.monotonic_ns()])


def _change_files(directory: Path, number: int) -> None:
    below = directory / f"d{number % 3}"
    below.mkdir(parents=True, exist_ok=True)
    (below / f"f{number % 5}").write_text(PADDING * (number % 4) + f"{number}")
    (directory / "newest").write_text(f"content {number}")
