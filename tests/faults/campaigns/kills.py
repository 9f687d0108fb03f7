"""F-01: kill -9 at random instants, of several processes at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.faults.campaign import Result
from tests.faults.subjects import Subject
from tests.faults.workload.judge import Judge
from tests.faults.workload.worker import Orders, hear_until_now, work
from tests.support.children import Child, ProcessFailed

OPENING: Final = 5
"""In every so manyth cycle the kills may come while the store is being opened."""
CALLS: Final = 2_000
"""Calls of functions by which a store is opened, about."""
ANSWERS: Final = 24
"""Operations on a new store that are answered before its first workers are killed: so much can be lost at
least."""


def kill_cycles(
    subject: Subject,
    *,
    cycles: int,
    seed: int,
    workers: int = 2,
    longest: int = 0,
    in_turn: bool = False,
    renew: int = 10,
    purges: bool = False,
    planted: str = "",
) -> Result:
    """Let workers work for up to `longest` steps (0: as many as their work needs), kill each at an instant of
    its own, look, and again.

    Args:
        in_turn: Kill a worker with one thread at the first begin or end of a commit, the next worker at the
            second, and so on: the same on every run.
        renew: After so many cycles a new store is begun.
        purges: Let each worker purge and scrub, too.
        planted: A bug of `plants` for the workers to have; the campaign ends when it is found.
    """
    choose = random.Random(seed).randint
    longest = longest or (60 if purges else 150)
    result = Result()
    for cycle in range(cycles):
        if cycle % renew == 0:
            judge = Judge(subject.at(subject.place / f"{cycle}"), result, planted)
            files = Path(f"{subject.place}-files-{cycle}")
        while_opening = cycle % OPENING == 1 and not in_turn
        orders = [
            Orders(
                name=f"{cycle}-{number}",
                seed=seed * 100_000 + cycle,
                appenders=1 if in_turn else 2,
                mover=not in_turn,
                files=f"{files}-{number}",
                retry=judge.retry if number == 0 else [],
                purges=purges,
                planted=planted,
                instant=cycle + 1 if in_turn else choose(1, CALLS if while_opening else longest),
                answers_before=0 if in_turn or cycle % renew else -(-ANSWERS // workers),
                only_commits=in_turn,
                while_opening=while_opening,
            )
            for number in range(1 if in_turn else workers)
        ]
        judge.hear(kill_workers(judge.subject, orders))
        result.cycles += 1
        if not judge.judge(f"cycle {cycle}") and planted:
            break
    return result


def kill_workers(subject: Subject, orders: list[Orders]) -> list[list[object]]:
    """Start workers, kill each at its instant, and give what they told, in the order of each."""
    children = [Child(work, subject, each) for each in orders]
    with ThreadPoolExecutor(len(children)) as killers:  # at once: one may wait for what another holds
        told = [line for heard in killers.map(_kill, children) for line in heard]
    if ends := [child.wait() for child in children if child.wait() not in (0, -9)]:
        raise ProcessFailed(f"workers ended with {ends} before they were killed")
    return told


def _kill(worker: Child) -> list[list[object]]:
    told = hear_until_now(worker)
    worker.kill()
    return [*told, *worker.hear_all()]
