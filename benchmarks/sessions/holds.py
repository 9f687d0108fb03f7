"""How long one writer keeps the others out, while a store is swept, collected, backed up and searched.

Four processes use one SQLite store: one appends; one appends and searches; one takes snapshots of files and
collects what they leave; one makes sessions, sweeps others away and writes a backup. Each time that a process
has the write lock is measured by what it is for: in seconds, and in seconds of the processor, which other
programs do not lengthen. A checkpoint follows a commit, without the lock. No peer does all this at once: the
limit is absolute.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw

import clew
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from clew.backends.sqlite import backend
from clew.backends.sqlite.connection import CHECKPOINT_PAGES

LIMIT: Final = 0.05
"""Seconds."""
ROLES: Final = ("append", "search", "files", "upkeep")
SECONDS: Final = (600, 30)
SESSIONS: Final = 200
MESSAGES: Final = 100
FILES: Final = 400
WORDS: Final = [f"{first}{last}" for first in "bcdfglmnprst" for last in ("ake", "ile", "orn", "ust", "and")]

Holds = dict[str, list[float]]


def text(words: int) -> str:
    return " ".join(random.choices(WORDS, k=words))


def message(words: int = 120) -> dict[str, str]:
    return {"role": "user", "content": text(words)}


class Watch:
    """Both clocks, from its making on."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.thread_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._start[0], time.thread_time() - self._start[1]


@contextmanager
def measured(holds: Holds) -> Iterator[list[str]]:
    """What the block holds the write lock for; the last of the list says what it is doing."""
    doing = ["other"]
    enter, leave = backend._Write.__enter__, backend._Write.__exit__
    begun: dict[int, Watch] = {}
    folded = [(0.0, 0.0)]

    def entered(self: Any) -> Any:
        tx = enter(self)
        begun[id(self)] = Watch()
        return tx

    def checkpoint(connection: apsw.Connection, name: str, pages: int) -> int:
        """As SQLite does it by itself, after the commit: others may write meanwhile."""
        if pages >= CHECKPOINT_PAGES:
            watch = Watch()
            with suppress(apsw.BusyError):  # another process does it
                connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
            folded[0] = watch.read()
            note("checkpoint", *folded[0])
        return apsw.SQLITE_OK

    def note(name: str, seconds: float, busy: float) -> None:
        holds[name].append(seconds)
        holds[f"{name}, processor"].append(busy)

    def left(self: Any, *exc: Any) -> None:
        watch = begun.pop(id(self), None)
        self._connections.writer.set_wal_hook(checkpoint)
        folded[0] = 0.0, 0.0
        leave(self, *exc)
        if watch is not None:
            seconds, busy = watch.read()
            note(doing[-1], seconds - folded[0][0], busy - folded[0][1])

    backend._Write.__enter__, backend._Write.__exit__ = entered, left  # type: ignore[method-assign]
    try:
        yield doing
    finally:
        backend._Write.__enter__, backend._Write.__exit__ = enter, leave  # type: ignore[method-assign]


class Worker:
    """One of the processes."""

    def __init__(self, role: str, place: Path, seconds: float) -> None:
        self._place = place
        self._until = time.monotonic() + seconds
        self.holds: Holds = defaultdict(list)
        self.waits: dict[str, list[float]] = defaultdict(list)
        """How long the callers of each thing waited, with their turn."""
        self._store = clew.open(place / "a.db", timeout=60)
        with measured(self.holds) as self._doing:
            while time.monotonic() < self._until:
                getattr(self, f"_{role}")()
        self._store.close()

    @contextmanager
    def _as(self, name: str) -> Iterator[None]:
        self._doing.append(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.waits[name].append(time.perf_counter() - start)
            self._doing.pop()

    def _append(self) -> None:
        with self._as("append"):
            self._store.session(f"agent-{random.randrange(20)}").append(message())
        time.sleep(0.005)

    def _search(self) -> None:
        with self._as("append"):
            self._store.session(f"asker-{random.randrange(20)}").append(message())
        with self._as("search"):
            self._store.search(random.choice(WORDS), limit=20)
        time.sleep(0.05)

    def _files(self) -> None:
        tree = self._place / "tree"
        tree.mkdir(exist_ok=True)
        for number in random.sample(range(FILES), 60):
            (tree / f"file-{number}").write_bytes(random.randbytes(20_000))
        with suppress(clew.SessionDeletedError), self._as("snapshot"):  # a sweep may have trashed it
            self._store.session("files").checkpoint("now", files=tree)
        with self._as("gc"):
            self._store.gc(merge=True)
        time.sleep(0.2)

    def _upkeep(self) -> None:
        for number in range(20):
            with self._as("fill"):
                session = self._store.create(f"old-{time.time_ns()}-{number}")
                session.append(*(message(60) for _ in range(200)))
        large = self._store.create(f"large-{time.time_ns()}")
        for _ in range(25):
            with self._as("fill"):
                large.append(*(message(60) for _ in range(200)))
        with self._as("search"):
            self._store.search("bake", limit=5)
        rules = clew.Retention(
            idle_timeout=timedelta(days=3650), max_sessions=300, purge_after=timedelta(seconds=1)
        )
        with self._as("sweep"):
            self._store.sweep(rules=rules)
        with self._as("backup"):
            self._store.backup(self._place / "backup.db", overwrite=True)


def prepare(place: Path, scale: float) -> None:
    random.seed(7)
    with clew.open(place / "a.db") as store:
        for number in range(round(SESSIONS * scale)):
            store.session(f"first-{number}").append(*(message() for _ in range(MESSAGES)))
        store.search("bake")


def work_together(place: Path, seconds: float) -> tuple[Holds, Holds]:
    """Let four processes loose on a store; what they held, and what they waited for."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", __spec__.name, role, str(place), str(seconds)], stdout=subprocess.PIPE
        )
        for role in ROLES
    ]
    holds: Holds = defaultdict(list)
    waits: Holds = defaultdict(list)
    for worker in workers:
        told = json.loads(worker.communicate()[0])
        for name, found in told["holds"].items():
            holds[name] += found
        for name, found in told["waits"].items():
            waits[name] += found
    return holds, waits


async def run(lab: Lab) -> Result:
    """Fill a store, let the processes work on it, and put their holds together."""
    prepare(lab.directory, lab.pick(2, 1))
    holds, waits = work_together(lab.directory, lab.pick(*SECONDS))
    result = Result()
    for name in sorted(holds, key=lambda name: -max(holds[name])):
        longest = max(holds[name])
        limit = 1.0 if name.endswith(", processor") else None
        result.rows.append(Row(f"longest hold: {name}", ms(longest), ms(LIMIT), longest / LIMIT, limit))
    for name in ("append", "search"):
        result.rows.append(
            Row(
                f"p99 of a wait: {name}",
                ms(at(waits[name], 0.99)),
                "its p50",
                at(waits[name], 0.99) / at(waits[name], 0.5),
            )
        )
    result.details = {
        "holds": {name: spread_of(found) for name, found in holds.items()},
        "waits": {name: spread_of(found) for name, found in waits.items()},
    }
    return result


def at(found: list[float], share: float) -> float:
    return sorted(found)[min(int(len(found) * share), len(found) - 1)]


def spread_of(found: list[float]) -> dict[str, float]:
    """Milliseconds."""
    spread = {f"p{100 * share:g}": round(1000 * at(found, share), 2) for share in (0.5, 0.99, 0.999)}
    return {"count": len(found), **spread, "longest": round(1000 * max(found), 2)}


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ROLES:
        done = Worker(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
        print(json.dumps({"holds": done.holds, "waits": done.waits}))
    else:
        main(run, __doc__)
