"""Fork, rewind, checkpoint and undo: the same time and bytes at 100,000 messages as at 100."""

from __future__ import annotations

import time
from collections.abc import Callable

import clew
from benchmarks.harness.build import long_session
from benchmarks.harness.measure import Samples, bytes_written, steady
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main

SHORT = 100
FACTOR = 1.5


async def run(lab: Lab) -> Result:
    """Two sessions in stores of their own take turns; a rewind goes half-way back, whatever the length."""
    long, rounds = lab.pick(100_000, 20_000), lab.pick(80, 30)
    lab.say(f"building a session of {long:,} messages")
    times, written = Samples(), Samples()
    with (
        long_session(lab.directory / "long", long) as old,
        long_session(lab.directory / "short", SHORT) as young,
    ):
        lab.say(f"fork, rewind, undo and checkpoint, {rounds} rounds in turns")
        with steady():
            for number in range(rounds):
                pair = ((old, long, "long"), (young, SHORT, "short"))
                for session, messages, name in pair if number % 2 else reversed(pair):
                    for label, job in jobs(session, messages, number).items():
                        before, started = bytes_written(), time.perf_counter()
                        job()
                        times.add(f"{label} {name}", time.perf_counter() - started)
                        written.add(f"{label} {name}", bytes_written() - before)
    rows = []
    for label in jobs(old, long, 0):
        slow, fast = times.median(f"{label} long"), times.median(f"{label} short")
        more, less = mean(written[f"{label} long"]), mean(written[f"{label} short"])
        rows.append(
            Row(f"{label} at {long:,}", ms(slow), f"clew at {SHORT}: {ms(fast)}", slow / fast, FACTOR)
        )
        rows.append(
            Row(f"{label}, bytes written", size(more), f"clew: {size(less)}", more / max(less, 1), FACTOR)
        )
    details = {name: {"us": times.median(name) * 1e6, "bytes": mean(written[name])} for name in times}
    return Result(rows, details)


def jobs(session: clew.Session, messages: int, number: int) -> dict[str, Callable[[], object]]:
    """One round on one session; it ends where it began."""
    return {
        "checkpoint": lambda: session.checkpoint(f"turn-{number}"),
        "fork": lambda: session.fork(f"try-{number}"),
        "rewind": lambda: session.rewind(messages // 2),
        "undo": session.undo,
    }


def mean(values: list[float]) -> float:
    """The mean: the bytes of a write-ahead log come back at its checkpoints, not in every call."""
    return sum(values) / len(values)


if __name__ == "__main__":
    main(run, __doc__)
