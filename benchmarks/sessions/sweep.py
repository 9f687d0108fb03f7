"""A sweep touches what is due, not what is there: 100,000 sessions against 1,000.

The clock of the stores is ours: the sessions were last active one second after the other, and a sweep whose
clock was moved on by ten seconds finds ten of them due. No peer has a sweep that could be compared.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import clew
from benchmarks.harness.measure import Samples, bytes_written, shuffled, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.tally import watching
from benchmarks.harness.work import Conversation
from clew.backends.contract import Transaction
from clew.backends.sqlite import SqliteBackend
from clew.core.conversation.append import Batch, append, batch_of
from clew.core.conversation.sessions import Changes, create
from clew.core.runs.access import Access

DUE = 10
SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
IDLE = timedelta(days=30)
RULES = clew.Retention(idle_timeout=IDLE, trash_expired=True, purge_after=timedelta(days=365))
CAPS = {
    "max_messages": clew.Retention(max_messages=10**9),
    "max_sessions": clew.Retention(max_sessions=10**9),
    "max_bytes": clew.Retention(max_bytes=10**15),
}
"""Rules that have no time at which they are due: of one session, and of all together."""
TOGETHER = 5000
"""Sessions made in one transaction."""
FACTOR = 1.5


class Clock:
    """Microseconds since 1970, under our control."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Swept:
    """A store of so many sessions, none of which is due yet."""

    def __init__(self, path: Path, count: int, stack: ExitStack) -> None:
        self.count = count
        self._clock = Clock(BEGIN + count * SECOND)
        self.store = stack.enter_context(clew.Store(SqliteBackend(path), clock=self._clock))

    def set_rules(self) -> None:
        # Just before the first session is due: rules that are set later would find many due at once.
        self._clock.now = BEGIN + IDLE // timedelta(microseconds=1) - SECOND
        self.store.set_retention(RULES)

    def move_on(self) -> None:
        """From here on the next ten are due."""
        self._clock.now += DUE * SECOND

    def sweep(self, due: int) -> None:
        report = self.store.sweep()
        assert (report.examined, len({action.session for action in report.actions})) == (due, due), report


async def run(lab: Lab) -> Result:
    """Time and bytes in turns on stores of three sizes; then statements, on stores that are watched."""
    sizes = [1000, 10_000, lab.pick(100_000, 30_000)]
    with ExitStack() as stack:
        stores = []
        for count in sizes:
            lab.say(f"making {count:,} sessions")
            path = lab.directory / f"{count}.db"
            fill(path, count)
            shutil.copy(path, watched_path(path))
            stores.append(Swept(path, count, stack))
        lab.say("the first sweep of each, then sweeps in turns")
        first = {store.count: first_sweep(store) for store in stores}
        times, written = in_turns(stores, lab.pick(40, 20))
        lab.say("the same by rules that count, which is not a matter of time")
        capped = by_caps(stores, lab.pick(15, 5))
    lab.say("counting statements")
    counted = {count: watched(watched_path(lab.directory / f"{count}.db"), count) for count in sizes}
    details = {
        "first": first,
        "later_us": {name: found.median(name) * 1e6 for found in (times, capped) for name in found},
        "later_bytes": {name: sum(values) / len(values) for name, values in written.items()},
        "usual_cost": counted,
    }
    few, many = sizes[0], sizes[-1]
    found = [first_row(first, many, few), *later_rows(times, written, counted, many, few)]
    return Result(found + [cap_row(cap, capped, many, few) for cap in CAPS], details)


def first_row(first: dict[int, dict[str, float]], many: int, few: int) -> Row:
    slow, fast = (first[count]["seconds"] / count for count in (many, few))
    work = f"first sweep of {many:,} sessions, each"
    return Row(work, ms(slow), f"clew, of {few:,}: {ms(fast)}", slow / fast, FACTOR)


def later_rows(
    times: Samples, written: Samples, counted: dict[int, dict[str, dict[str, float]]], many: int, few: int
) -> Iterator[Row]:
    for name, due in (("nothing due", "nothing"), ("some due", f"{DUE}")):
        label = f"sweep, {due} due"
        slow, fast = times.median(f"{name} {many}"), times.median(f"{name} {few}")
        steps, fewer = counted[many][name]["steps"], counted[few][name]["steps"]
        more, less = mean(written[f"{name} {many}"]), mean(written[f"{name} {few}"])
        yield Row(f"{label}, of {many:,}", ms(slow), f"clew, of {few:,}: {ms(fast)}", slow / fast, FACTOR)
        yield Row(f"{label}, steps of SQLite", f"{steps:,.0f}", f"clew: {fewer:,.0f}", steps / fewer, 1.1)
        yield Row(f"{label}, bytes written", size(more), f"clew: {size(less)}", more / less, FACTOR)


def cap_row(cap: str, times: Samples, many: int, few: int) -> Row:
    slow, fast = times.median(f"{cap} {many}"), times.median(f"{cap} {few}")
    work = f"sweep by {cap}, nothing to do, of {many:,}"
    return Row(work, ms(slow), f"clew, of {few:,}: {ms(fast)}", slow / fast, FACTOR)


def watched_path(path: Path) -> Path:
    """A copy as it was before any sweep."""
    return path.with_suffix(".watched")


def fill(path: Path, count: int) -> None:
    """Sessions with a title, a workspace and one message, thousands in a transaction."""
    talk = Conversation("sweep")
    batches = [batch_of([talk.small()]) for _ in range(64)]
    with clew.open(str(path)) as store:
        for start in range(0, count, TOGETHER):
            numbers = range(start, min(start + TOGETHER, count))
            store._engine.run(partial(make, store._engine.host, numbers, batches))


def make(host: Any, numbers: range, batches: list[Batch], tx: Transaction) -> None:
    for number in numbers:
        now = BEGIN + number * SECOND
        row = create(
            tx, f"chat-{number}", Changes(title=f"Chat {number}", workspace=f"/w/{number % 40}"), now
        )
        append(tx, Access(row.sid, row.id, host), batches[number % 64], now, key=None, expect=None)


def first_sweep(swept: Swept) -> dict[str, float]:
    """Seconds and bytes of the sweep after rules were set: it has to look at every session once."""
    swept.set_rules()
    before, started = bytes_written(), time.perf_counter()
    report = swept.store.sweep()
    seconds = time.perf_counter() - started
    assert report.examined == swept.count, report.examined
    return {"seconds": seconds, "bytes": bytes_written() - before, "examined": report.examined}


def in_turns(stores: list[Swept], rounds: int) -> tuple[Samples, Samples]:
    """Seconds and bytes of a sweep with nothing due, and of one that finds ten."""
    times, written = Samples(), Samples()
    for number in range(rounds):
        for kind, due in (("nothing due", 0), ("some due", DUE)):
            by_name = {f"{kind} {swept.count}": swept for swept in stores}
            for name in shuffled(by_name, number):
                if due:
                    by_name[name].move_on()
                with steady():
                    before, started = bytes_written(), time.perf_counter()
                    by_name[name].sweep(due)
                    times.add(name, time.perf_counter() - started)
                    written.add(name, bytes_written() - before)
    return times, written


def by_caps(stores: list[Swept], rounds: int) -> Samples:
    """Seconds of a sweep that finds every limit kept."""
    times = Samples()
    for cap, rules in CAPS.items():
        for swept in stores:
            swept.store.set_retention(rules)
            swept.store.sweep()
        for number in range(rounds):
            by_name = {f"{cap} {swept.count}": swept for swept in stores}
            for name in shuffled(by_name, number):
                with steady():
                    started = time.perf_counter()
                    report = by_name[name].store.sweep()
                    times.add(name, time.perf_counter() - started)
                assert not report.actions
    return times


def mean(values: list[float]) -> float:
    """The mean: the bytes of a write-ahead log come back at its checkpoints, not in every call."""
    return sum(values) / len(values)


def watched(path: Path, count: int) -> dict[str, dict[str, float]]:
    """Statements, steps and bytes of the same sweeps."""
    with ExitStack() as stack:
        tally = stack.enter_context(watching())
        swept = Swept(path, count, stack)
        swept.set_rules()
        costs = {
            "first": tally.cost(swept.store.sweep),
            "nothing due": tally.usual_cost(lambda: swept.sweep(0)),
            "some due": tally.usual_cost(lambda: swept.sweep(DUE), before=swept.move_on),
        }
    return {name: cost.as_dict() for name, cost in costs.items()}


if __name__ == "__main__":
    main(run, __doc__)
