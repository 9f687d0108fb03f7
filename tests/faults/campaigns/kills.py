"""F-01: kill -9 at random instants, of several processes at once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Final

from tests.faults.campaign import Result
from tests.faults.subjects import Subject
from tests.faults.workload.judge import Judge
from tests.faults.workload.worker import Orders, work
from tests.support.children import Child, ProcessFailed

OPENING: Final = 5
"""In every so manyth cycle the kills may come while the store is being opened."""


def kill_cycles(
    subject: Subject,
    *,
    cycles: int,
    seed: int,
    workers: int = 2,
    longest: float = 0,
    renew: int = 10,
    purges: bool = False,
    planted: str = "",
) -> Result:
    """Let workers work for up to `longest` seconds (0: as long as their work needs), kill each at an instant
    of its own, look, and again.

    Args:
        renew: After so many cycles a new store is begun.
        purges: Let each worker purge and scrub, too.
        planted: A bug of `plants` for the workers to have; the campaign ends when it is found.
    """
    wait = random.Random(seed).uniform
    longest = longest or (0.6 if purges else 0.12)
    result = Result()
    for cycle in range(cycles):
        if cycle % renew == 0:
            judge = Judge(subject.at(subject.place / f"{cycle}"), result, planted)
            files = Path(f"{subject.place}-files-{cycle}")
        orders = [
            Orders(
                name=f"{cycle}-{number}",
                seed=seed * 100_000 + cycle,
                files=f"{files}-{number}",
                retry=judge.retry if number == 0 else [],
                purges=purges,
                planted=planted,
            )
            for number in range(workers)
        ]
        instants = [wait(0.001, longest) for _ in orders]
        told = kill_workers(judge.subject, orders, instants, have_opened=cycle % OPENING != 1)
        judge.hear(told)
        result.cycles += 1
        if not judge.judge(f"cycle {cycle}") and planted:
            break
    return result


def kill_workers(
    subject: Subject, orders: list[Orders], instants: list[float], *, have_opened: bool
) -> list[list[object]]:
    """Start workers, kill each at its instant after they have opened the store (or were started), and
    give what they told, in the order of each."""
    children = [Child(work, subject, each) for each in orders]
    told = [child.hear() for child in children] if have_opened else []
    begun = time.monotonic()
    for instant, child in sorted(zip(instants, children, strict=True), key=lambda pair: pair[0]):
        time.sleep(max(begun + instant - time.monotonic(), 0))
        child.kill()
    told += [line for child in children for line in child.hear_all()]
    if ends := [child.wait() for child in children if child.wait() not in (0, -9)]:
        raise ProcessFailed(f"workers ended with {ends} before they were killed")
    return told
