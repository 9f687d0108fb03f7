"""What a lease costs: a fenced append against one without a lease, and the heartbeat.

None of the peers has a lease, so there is nobody to compare with but ourselves.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import clew
from benchmarks.harness import measure
from benchmarks.harness.build import SESSION, long_session
from benchmarks.harness.measure import Samples, shuffled, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.tally import LOG_PAGE, Cost, watching
from benchmarks.harness.work import Conversation, Message
from clew.run import Run

HISTORY = 200
"""Messages in a session before the clock starts."""
BURST = 20
"""Appends to each session before the two exchange their roles."""
TOGETHER = 100
"""Runs of one process whose leases are renewed together."""
COUNTED = 200
"""Calls under strace."""
HOUR = 3600.0
"""A lease that no heartbeat renews while we measure."""
LEVELS: tuple[Literal["full", "process"], ...] = ("full", "process")


async def run(lab: Lab) -> Result:
    """Time the append at both levels of durability, then count what does not depend on the moment."""
    rows: list[Row] = []
    details: dict[str, Any] = {}
    for level in LEVELS:
        rounds = lab.pick(50, 20)
        lab.say(f"leased and unleased appends, durability {level}, {rounds * BURST} of each in turns")
        times = compete(lab.directory / level, level, rounds)
        leased, plain = times.median("leased"), times.median("plain")
        work = f"append under a lease, durability {level}"
        rows.append(Row(work, ms(leased), f"clew without a lease: {ms(plain)}", leased / plain, 1.1))
        details[f"append_us_{level}"] = {name: times.median(name) * 1e6 for name in times}
    lab.say("statements and bytes")
    costs = watched(lab.directory / "watched")
    lab.say("counting fsyncs and bytes under strace")
    counts = {name: count(lab, name) for name in JOBS}
    details |= {"usual_cost": {name: cost.as_dict() for name, cost in costs.items()}, "a_call": counts}
    return Result([*rows, *counted_rows(costs, counts)], details)


def counted_rows(costs: dict[str, Cost], counts: dict[str, dict[str, float]]) -> list[Row]:
    leased, plain, beat = costs["leased"], costs["plain"], costs["heartbeat"]
    many, syncs = costs["heartbeats"], counts["heartbeats"]["fsyncs"]
    return [
        Row(
            "append under a lease, statements",
            f"{leased.statements:.0f}",
            f"clew without a lease: {plain.statements:.0f}",
            leased.statements / plain.statements,
            1.0,
        ),
        Row(
            "append under a lease, bytes written",
            size(counts["leased"]["bytes"]),
            f"clew without a lease: {size(counts['plain']['bytes'])}",
            counts["leased"]["bytes"] / counts["plain"]["bytes"],
            1.1,
        ),
        Row(
            "heartbeat, bytes written",
            size(beat.bytes),
            f"one page of the log: {size(LOG_PAGE)}",
            beat.bytes / LOG_PAGE,
            1.0,
        ),
        Row(f"heartbeat of {TOGETHER} runs, syncs", f"{syncs:.2f}", "one", syncs, 1.1),
        Row(
            f"heartbeat of {TOGETHER} runs, bytes written",
            size(many.bytes),
            f"{TOGETHER} heartbeats: {size(beat.bytes * TOGETHER)}",
            many.bytes / (beat.bytes * TOGETHER),
            1.0,
        ),
    ]


def compete(directory: Path, level: Literal["full", "process"], rounds: int) -> Samples:
    """Seconds of an append of 1 KB. Two sessions of one store exchange their roles after every burst, so
    that none is favoured by its place in the file."""
    talk = Conversation("leases")
    times = Samples()
    with pair(directory, level) as (first, second):
        for number in range(rounds):
            leased, plain = (first, second) if number % 2 else (second, first)
            messages = [talk.small() for _ in range(BURST)]
            with leased.run(lease=HOUR) as held, steady():
                writers = {"leased": held, "plain": plain}
                for at, message in enumerate(messages):
                    for name in shuffled(writers, number * BURST + at):
                        started = time.perf_counter()
                        entries = writers[name].append(message)
                        times.add(name, time.perf_counter() - started)
                        assert entries[0].epoch == (held.epoch if name == "leased" else 0)
            back_to_pending(leased)
    return times


def back_to_pending(session: clew.Session) -> None:
    """As if it had never been run: a plain session of a user who has no runs is pending."""
    session.close()
    session.reopen()


@contextmanager
def pair(directory: Path, level: Literal["full", "process"]) -> Iterator[tuple[clew.Session, clew.Session]]:
    """Two sessions of equal length in one store whose log has its full size."""
    with long_session(directory, HISTORY):
        pass
    with clew.open(str(directory / "clew.db"), durability=level) as store:
        first = store.session(SESSION)
        second = store.session("other")
        second.append(*first.messages())
        yield first, second


def watched(directory: Path) -> dict[str, Cost]:
    """The usual cost of every job."""
    costs = {}
    for name, job in JOBS.items():
        with watching() as tally, pair(directory / name, "full") as (session, _), ExitStack() as stack:
            call = job(session, stack)
            call()
            costs[name] = tally.usual_cost(call)
    return costs


# -- the jobs: each gets a session and gives back one call of what is counted


def leased_append(session: clew.Session, stack: ExitStack) -> Callable[[], object]:
    return plain_append(stack.enter_context(session.run(lease=HOUR)), stack)


def plain_append(session: clew.Session, stack: ExitStack) -> Callable[[], object]:
    del stack
    message: Message = Conversation("leases").small()
    return lambda: session.append(message)


def ended_append(session: clew.Session, stack: ExitStack) -> Callable[[], object]:
    """To a session whose last run is over: sessions of its status are in an index that knows when they
    were active, so an append moves it there as well."""
    with session.run():
        pass
    return plain_append(session, stack)


def heartbeat(session: clew.Session, stack: ExitStack) -> Callable[[], object]:
    held = stack.enter_context(session.run(lease=HOUR))
    return lambda: renew([held])


def heartbeats(session: clew.Session, stack: ExitStack) -> Callable[[], object]:
    forks = [session.fork(f"run-{number}") for number in range(TOGETHER)]
    held = [stack.enter_context(fork.run(lease=HOUR)) for fork in forks]
    return lambda: renew(held)


def renew(runs: list[Run]) -> None:
    """What the thread of the heartbeat does when these are due."""
    heartbeat = runs[0]._heartbeat
    assert heartbeat is not None
    heartbeat._renew([run._lease for run in runs])
    assert not any(run.lost for run in runs)


JOBS: dict[str, Callable[[clew.Session, ExitStack], Callable[[], object]]] = {
    "leased": leased_append,
    "plain": plain_append,
    "ended": ended_append,
    "heartbeat": heartbeat,
    "heartbeats": heartbeats,
}


def count(lab: Lab, name: str) -> dict[str, float]:
    """fsyncs, write calls and bytes of a call, those of bringing the log home included."""
    calls = lab.pick(COUNTED, COUNTED // 4)
    folder = str(lab.directory / f"counted-{name}")
    found = measure.count_syscalls("benchmarks.sessions.leases", "--count", name, folder, str(calls))
    return {
        "fsyncs": (found["fsync"] + found["fdatasync"]) / calls,
        "writes": (found["write"] + found["pwrite64"]) / calls,
        "bytes": found["bytes"] / calls,
    }


def be_counted(name: str, directory: Path, calls: int) -> None:
    """The child under strace: some calls between two marks."""
    with pair(directory, "full") as (session, _), ExitStack() as stack:
        call = JOBS[name](session, stack)
        measure.mark(measure.BEGIN)
        for _ in range(calls):
            call()
        measure.mark(measure.END)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        be_counted(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(run, __doc__)
