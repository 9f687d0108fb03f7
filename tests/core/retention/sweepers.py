"""Sweeps in processes of their own: with a wrong clock, and killed half-way."""

from __future__ import annotations

import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import clew
import clew.core.retention.sweep
from clew.backends.contract import STORE_WIDE
from clew.model import Retention, SweepAction
from tests.faults.crash.common import chain_of, check_file, message
from tests.support.children import Child, ProcessFailed

Tell = Callable[[Any], None]

HOURS = timedelta(hours=1)
RULES = Retention(
    idle_timeout=2 * HOURS,
    lifetime=3 * HOURS,
    trash_expired=True,
    max_idle=4 * HOURS,
    silent_after=2 * HOURS,
    purge_after=5 * HOURS,
    message_age=2 * HOURS,
)


# ── Wrong clocks ──────────────────────────────────────────────────────────────────────────────────


def prepare(path: str) -> None:
    """A store with something for every rule, all of it young; the rules are set and one sweep was made."""
    with clew.open(path) as store:
        store.session("spoken").append(message("hi"), message("again"))
        store.session("silent")
        store.session("trashed").append(message("bye"))
        store.delete("trashed")
        store.set_retention(RULES)
        store.sweep()


def sweep(path: str, forget_the_time: bool = False) -> dict[str, Any]:
    """What a program does that starts while its clock is wrong: it sets its rules, and sweeps."""
    with clew.open(path) as store:
        if forget_the_time:
            store._engine.run(lambda tx: tx.drop_record(STORE_WIDE, "retention", "clock"))
        store.set_retention(RULES)
        report = store.sweep()
        return {
            "verbs": sorted({action.verb for action in report.actions}),
            "off_by": report.clock_off_by.total_seconds(),
            "sessions": sorted(info.id for info in store.list()),
            "trash": sorted(info.id for info in store.list(deleted=True)),
            "messages": sum(len(store.get(info.id).messages()) for info in store.list()),
        }


# ── Kills ─────────────────────────────────────────────────────────────────────────────────────────

SESSIONS = 40


class Setback:
    """A clock that is so many hours behind."""

    def __init__(self, hours: int) -> None:
        self._behind = hours * 3600 * 10**6

    def __call__(self) -> int:
        from clew.core.engine.host import wall_clock

        return wall_clock() - self._behind


def fill(path: str) -> None:
    """Sessions from the day before yesterday: some to be trashed, some to be purged, some to be trimmed."""
    from clew.backends.registry import connect

    with clew.Store(connect(path), clock=Setback(48)) as store:
        for number in range(SESSIONS):
            store.create(f"idle-{number}").append(*(message(f"{number}.{n}") for n in range(3)))
            store.create(f"gone-{number}").append(message("x"))
            store.delete(f"gone-{number}")
            store.create(f"long-{number}", tags=["long"]).append(*(message(str(n)) for n in range(5)))
            store.get(f"long-{number}").update(idle_timeout=timedelta(days=9))
        store.set_retention(
            Retention(idle_timeout=HOURS, trash_expired=True, purge_after=24 * HOURS, max_messages=3)
        )
        store._engine.run(lambda tx: tx.drop_record(STORE_WIDE, "retention", "clock"))


def sweep_slowly(tell: Tell, path: str, steps: int) -> None:
    """Sweep in the smallest steps, and tell of each that is committed.

    Whoever listens kills it after that many steps, at the latest while it waits behind the next one: so how
    far it comes does not depend on which process gets its turn.
    """
    clew.core.retention.sweep.BATCH = 4  # type: ignore[misc]
    note = clew.core.retention.sweep.Sweep._note
    left = steps + 1

    def told(sweep: clew.core.retention.sweep.Sweep, actions: Sequence[SweepAction]) -> None:
        nonlocal left
        tell(len(actions))
        if left == 0:
            signal.pause()
        left -= 1
        note(sweep, actions)

    clew.core.retention.sweep.Sweep._note = told  # type: ignore[assignment, method-assign]
    with clew.open(path) as store:
        store.sweep()


def look(tell: Tell, path: str) -> None:
    """What the killed sweep left; then what the next one makes of it, at once."""
    with clew.open(path) as store:
        wrong = _inconsistent(store)
        trashed = {info.id for info in store.list(deleted=True, limit=1000)}
        removed = Counter((line.verb, line.session) for line in store.removals(limit=10_000))
        half = 0 < sum(removed.values()) < 3 * SESSIONS
        store.sweep()
        wrong += _inconsistent(store)
        lines = Counter((line.verb, line.session) for line in store.removals(limit=10_000))
        wrong += [f"{line} is logged {times} times" for line, times in lines.items() if times > 1]
        if sum(lines.values()) != 3 * SESSIONS:
            wrong.append(f"{sum(lines.values())} removals are logged, not {3 * SESSIONS}")
        if any(not set(line).isdisjoint({"trash"}) and line[1] not in trashed for line in removed):
            wrong.append("something is logged as trashed that is not in the trash")
        ids = sorted(info.id for info in store.list(limit=1000))
        if ids != sorted(f"long-{number}" for number in range(SESSIONS)):
            wrong.append(f"after the next sweep there are {ids}")
    if (verdict := check_file(Path(path))) != "ok":
        wrong.append(verdict)
    tell({"wrong": wrong, "half": half})


def _inconsistent(store: clew.Store) -> list[str]:
    """Every session is as it was before, or as it should be."""
    wrong: list[str] = []
    for info in [*store.list(limit=1000), *store.list(limit=1000, deleted=True)]:
        kind = info.id.partition("-")[0]
        is_trashed = info.deleted_at is not None
        if kind == "idle" and (info.status == "expired") != is_trashed:
            wrong.append(f"{info.id} is {info.status}, in the trash: {is_trashed}")
        if kind == "long" and len(store.get(info.id).messages()) not in (3, 5):
            wrong.append(f"{info.id} has {len(store.get(info.id).messages())} messages")
        if kind == "idle" and not is_trashed:
            wrong += chain_of(store.get(info.id))
    return wrong


def kill_sweeps(directory: str, cycles: int, seed: int) -> dict[str, Any]:
    """Kill a sweep after a few of its steps, look, and again, each time from the same beginning."""
    chooser = random.Random(seed)
    _wait(Child(lambda tell: fill(f"{directory}/start.db")), "fill")
    wrong: list[str] = []
    half = 0
    for cycle in range(cycles):
        path = f"{directory}/{cycle}.db"
        shutil.copy(f"{directory}/start.db", path)
        steps = chooser.randint(0, 60)
        sweeper = Child(sweep_slowly, path, steps)
        for _ in range(steps):
            if sweeper.hear() is None:
                break
        sweeper.kill()
        sweeper.wait()
        looker = Child(look, path)
        found = looker.hear()
        _wait(looker, "look")
        wrong += [f"cycle {cycle}: {line}" for line in found["wrong"]]
        half += found["half"]
    return {"wrong": wrong, "half": half}


def _wait(child: Child, what: str) -> None:
    if child.wait() != 0:
        raise ProcessFailed(f"{what} failed")
