"""F-21 to F-26: many processes on one store, at once; some of them frozen, some forked."""

from __future__ import annotations

import os
import random
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import clew
from clew.core.engine.host import Host
from clew.core.log.lease import Now
from clew.run import Heartbeat
from tests.faults.campaign import Result, told_by
from tests.faults.crash.processes import Gate
from tests.faults.history.checker import History, check, log_of
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.judge import Judge
from tests.faults.workload.steps import message
from tests.faults.workload.worker import Orders, work
from tests.support.children import Child, ProcessFailed

Tell = Callable[[Any], None]

MOMENT: Final = 0.05
LATER: Final = 61_000_000
"""Microseconds after which a lease of a minute is over."""


# -- starting


def start_together(subject: Subject, *, rounds: int, processes: int = 8) -> Result:
    """F-21: so many processes open a new store at the same moment, and write; each round another one."""
    result = Result()
    for number in range(rounds):
        new = subject.at(subject.place / f"round-{number}" / "below")
        gate = Gate()
        children = [Child(_open_new, gate, new, n) for n in range(processes)]
        gate.open()
        heard = [child.hear_all() for child in children]
        ends = [child.wait() for child in children]
        result.cycles += processes
        result.acknowledged += 2 * sum(told == ["done"] for told in heard)
        looker = Child(_look_at_new, new, processes)
        lines = [] if ends == [0] * processes else [f"they ended with {ends}"]
        lines += [str(told[-1:]) for told in heard if told[-1:] != ["done"]]
        result.found(f"round {number}", [*lines, *looker.hear_all()])
        if looker.wait():
            result.found(f"round {number}", ["the store cannot be read"])
    return result


def _open_new(tell: Tell, gate: Gate, subject: Subject, number: int) -> None:
    gate.wait()
    try:
        with subject.open() as store:
            store.session(f"mine-{number}").append(message(f"from {number}"))
            store.session("ours").append(message(f"from {number}"))
        tell("done")
    except Exception:  # noqa: BLE001 (whatever it is, it is told)
        tell(traceback.format_exc(limit=-6))


def _look_at_new(tell: Tell, subject: Subject, processes: int) -> None:
    expected = [f"from {n}" for n in range(processes)]
    with subject.open() as store:
        ours = sorted(str(each["content"]) for each in store.get("ours").messages())
        mine = [str(store.get(f"mine-{n}").messages()[0]["content"]) for n in range(processes)]
        if ours != sorted(expected) or mine != expected:
            tell(f"{ours} {mine}")
        for problem in store.verify(full=True).problems:
            tell(problem)
    for path in (subject.place, *subject.place.rglob("*")) if subject.place.exists() else ():
        mode = path.stat().st_mode & 0o777
        if mode != (0o700 if path.is_dir() else 0o600):
            tell(f"{path} has the mode {mode:o}")


# -- storms


def storm(
    subject: Subject, *, processes: int = 4, count: int = 30, freezes: int = 0, seed: int = 1
) -> Result:
    """F-22, F-23, F-24: processes append to the same sessions and move sessions of their own, while some
    of them are stopped, wherever they are, until another one says something, or a moment has passed."""
    result = Result()
    judge = Judge(subject, result)
    files = f"{subject.place}-files"
    orders = [
        Orders(name=f"p{n}", seed=seed + n, files=f"{files}-{n}", count=count) for n in range(processes)
    ]
    children = [Child(work, subject, each) for each in orders]
    told = [child.hear() for child in children]
    chooser = random.Random(seed)
    for _ in range(freezes):
        frozen = chooser.choice(children)
        frozen.kill(signal.SIGSTOP)
        others = [child._reading for child in children if child is not frozen]
        select.select(others, [], [], MOMENT)  # it may hold what all others wait for
        frozen.kill(signal.SIGCONT)
        result.cycles += 1
    told += [line for child in children for line in child.hear_all()]
    if any(ends := [child.wait() for child in children]):
        raise ProcessFailed(f"the processes ended with {ends}")
    result.cycles += processes
    judge.hear(told)
    judge.judge("storm")
    return result


# -- fencing


def fence(subject: Subject, *, rounds: int = 1, planted: str = "") -> Result:
    """F-24, P9: the holder of a lease is stopped past its end, another takes over, the first comes back:
    its late append is refused, and the log has no two owners of an epoch."""
    result = Result()
    for number in range(rounds):
        result.found(f"round {number}", _take_over(subject, f"s{number}", planted))
        result.cycles += 1
        result.acknowledged += 2
    return result


def _take_over(subject: Subject, name: str, planted: str) -> list[str]:
    ear, mouth = os.pipe()
    holder = Child(_hold, subject, name, ear, planted)
    holder.hear()
    holder.kill(signal.SIGSTOP)
    taken = told_by(Child(_take, subject, name))
    holder.kill(signal.SIGCONT)
    os.write(mouth, b".")
    told = holder.hear_all()
    holder.wait()
    os.close(mouth)
    os.close(ear)
    lines = told_by(Child(_check_fence, subject, name))
    if told != ["lease_lost"] or taken != ["taken"]:
        lines.append(f"the late append of the first was answered with {told}, the second was {taken}")
    return lines


def _hold(tell: Tell, subject: Subject, name: str, ear: int, planted: str) -> None:
    plant(planted)
    mock.patch.object(Heartbeat, "watch").start()  # whoever is frozen renews nothing
    run = subject.open().session(name).run(lease=60, owner="first")
    run.append(message("first"))
    tell("holding")
    os.read(ear, 1)
    try:
        run.append(message("late"))
        tell("written")
    except clew.ClewError as error:
        tell(error.code)


def _take(tell: Tell, subject: Subject, name: str) -> None:
    really_moment = Host.moment

    def moment(host: Host) -> Now:
        now = really_moment(host)
        return Now(now.wall + LATER, now.steady + LATER, now.domain)

    with (
        subject.open() as store,
        mock.patch.object(Host, "moment", moment),
        store.get(name).run(owner="second") as run,
    ):
        run.append(message("second"))
    tell("taken")


def _check_fence(tell: Tell, subject: Subject, name: str) -> None:
    history = History()
    for epoch, client, outcome in ((1, "first", "ok"), (2, "second", "ok"), (1, "late", "fail")):
        operation = history.invoke("first" if client == "late" else client, name, [client], epoch=epoch)
        history.end(operation, outcome)  # type: ignore[arg-type]
    with subject.open() as store:
        for violation in check(history.operations, {name: log_of(store.get(name))}):
            tell(str(violation))


# -- forking


def fork_with_a_store(subject: Subject, *, children: int = 4, count: int = 10) -> Result:
    """F-26: processes that are forked while a store is open use it, each for itself."""
    result = Result(cycles=children)
    parent = Child(_fork_and_append, subject, children, count)
    ends = parent.hear_all()
    if parent.wait() or ends != [[0] * children]:
        result.found("fork", [f"the children ended with {ends}, the parent with {parent.status}"])
    result.found("fork", told_by(Child(_look_at_forks, subject, children, count)))
    result.acknowledged = (children + 1) * count * 2
    return result


def _fork_and_append(tell: Tell, subject: Subject, children: int, count: int) -> None:
    store = subject.open()
    store.session("ours").append(message("before"))
    forked = [Child(_append_some, store, f"child {n}", count) for n in range(children)]
    _append_some(lambda _: None, store, "parent", count)
    tell([child.wait() for child in forked])
    store.close()


def _append_some(tell: Tell, store: clew.Store, name: str, count: int) -> None:
    for number in range(count):
        store.session(name).append(message(f"{number}"))
        store.session("ours").append(message(f"{name} {number}"))


def _look_at_forks(tell: Tell, subject: Subject, children: int, count: int) -> None:
    names = ["parent", *(f"child {n}" for n in range(children))]
    with subject.open() as store:
        ours = sorted(str(each["content"]) for each in store.get("ours").messages())
        if ours != sorted(["before", *(f"{name} {n}" for name in names for n in range(count))]):
            tell(f"the shared session holds {len(ours)} messages: {ours[:5]}")
        for name in names:
            if store.get(name).messages() != [message(f"{n}") for n in range(count)]:
                tell(f"{name!r} is not whole")
        for problem in store.verify(full=True).problems:
            tell(problem)
