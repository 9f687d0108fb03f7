"""What the processes do that hold leases, lose them, race for them, and resume after each other.

Each scenario runs in a process of its own, which forks its workers before it opens a store.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec

import clew
import clew.run
from clew.backends.contract import Reader
from clew.core.runs import lease
from clew.core.runs.access import Access
from clew.run import Heartbeat, Run
from tests.faults.crash.common import chain_of, message, said, texts
from tests.faults.history.checker import check, log_of
from tests.faults.leases.tools import (
    OFTEN,
    Diary,
    Listen,
    Tell,
    Worker,
    at_moment,
    operations_in,
    plant,
    state_of,
    statuses,
    until,
)
from tests.support.children import Child
from tests.support.waiting import until as wait_until

Found = dict[str, Any]

# ── Holding ───────────────────────────────────────────────────────────────────────────────────────


def hold(tell: Tell, listen: Listen, path: str, leases: dict[str, float], me: dict[str, str]) -> None:
    """Take leases and wait for the end. `me`: what to say of this process that is not so."""
    store = clew.open(path)
    believed = store._engine.host
    believed.__dict__["me"] = msgspec.structs.replace(believed.me, **me)
    held = [store.session(name).run(lease=seconds, owner="first") for name, seconds in leases.items()]
    for run in held:
        run.append(message(f"in {run.id}"))
    tell("holding")
    listen()


def killed_holder(path: str, reaped: bool, taking: str, planted: str = "") -> Found:
    """P10: kill -9 of the holder of a lease of ten minutes; what the next one finds at once."""
    plant(planted)
    holder = Worker(hold, path, {"s": 600}, {})
    holder.hear_word()
    holder.kill()
    if reaped:
        holder.wait()
    else:
        wait_until(lambda: state_of(holder.pid) == "Z")
    with clew.open(path) as store:
        session = store.get("s")
        found: Found = {"before": session.info.status, "held": session.lease is not None}
        try:
            match taking:
                case "run":
                    with session.run(owner="second", wait=0) as run:
                        run.append(message("taken over"))
                case "append":
                    session.append(message("taken over"))
                case "interrupted":
                    found["interrupted"] = [one.id for one in store.interrupted()]
        except clew.LeaseHeldError as error:
            found["refused"] = str(error)
        found |= {"statuses": statuses(session), "texts": texts(session), "epoch": session.info.epoch}
    holder.end()
    return found


def holder_elsewhere(path: str, me: dict[str, str], planted: str = "") -> Found:
    """P10: a killed holder whose number says nothing here: its leases hold until their time is over."""
    holder = Worker(hold, path, {"long": 600, "short": 60}, me)
    holder.hear_word()
    holder.end()
    plant(planted)
    with clew.open(path) as store:
        found: Found = {"long": _taken_by(store.get("long"))}
        short = store.get("short")
        over = until(short)
        with at_moment(over):
            found["at its end"] = _taken_by(short)
        if found["at its end"] == "first":
            with at_moment(over + 1):
                found["after its end"] = _taken_by(short)
        found |= {"epoch": short.info.epoch, "statuses": statuses(short)}
    return found


def _taken_by(session: clew.Session) -> str:
    """Who has the lease after the second one asked for it."""
    try:
        session.run(owner="second").complete()
    except clew.LeaseHeldError as error:
        return error.owner
    return "second"


def freeze_holder(path: str, beating: bool, planted: str = "") -> Found:
    """F-24: the holder is stopped past its lease, another takes over, the first one comes back."""
    holder = Worker(_come_back_late, path, beating, planted)
    holder.hear_word()
    holder.freeze(path)
    with clew.open(path) as store:
        session = store.get("s")
        diary = Diary(holder.diary.append)
        with at_moment(until(session) + 1), session.run(owner="second", lease=600) as run:
            diary.write(run, message("taken over"))
            holder.kill(signal.SIGCONT)
            holder.say_go()
            heard: Found = holder.hear_word()
            ended = holder.wait()
            diary.write(run, message("going on"))
        violations = check(operations_in(holder.diary), {"s": log_of(session)})
        rescued = store.find("rescued")
        return {
            **heard,
            "ended": ended,
            "violations": said(violations),
            "texts": texts(session),
            "epochs": [entry.epoch for entry in session.entries()],
            "rescued": texts(rescued) if rescued else [],
            "statuses": statuses(session),
            "wrong": chain_of(session),
        }


def _come_back_late(tell: Tell, listen: Listen, path: str, beating: bool, planted: str) -> None:
    plant(planted)
    mock.patch.object(clew.run, "BEATS", OFTEN).start()
    if not beating:
        mock.patch.object(Heartbeat, "watch").start()
    session = clew.open(path).session("s")
    diary = Diary(tell)
    run = session.run(lease=60, owner="first")
    diary.write(run, message("before"))
    tell("holding")
    listen()
    if beating:
        wait_until(lambda: run.lost)
    noticed = run.lost
    told: Found = {"noticed": noticed, "refused": None, "completed": True}
    try:
        diary.write(run, message("late 1"), message("late 2"))
    except clew.LeaseLostError as error:
        told["refused"] = [error.session, error.epoch, error.current_epoch, error.owner]
        session.fork("rescued").append(*error.messages)
    try:
        run.complete("too late")
    except clew.LeaseLostError:
        told["completed"] = False
    tell(told)


# ── Racing ────────────────────────────────────────────────────────────────────────────────────────


def race(path: str, rounds: int, planted: str = "") -> Found:
    """F-23: two processes ask for the same lease, again and again, each when it is free; what went otherwise
    than one of them winning."""
    with clew.open(path) as store:
        store.create("s")
    racers = {name: Worker(_contend, path, name, rounds, planted) for name in ("one", "two")}
    wrong, winners = [], []
    for number in range(rounds):
        order = list(racers.values())[:: -1 if number % 2 else 1]
        for step in ("look", "take"):
            for racer in order:
                racer.say_go()
            if step == "look" and [racer.hear_word() for racer in order] != ["free", "free"]:
                wrong.append(f"round {number}: it was not free")
        heard = {name: racer.hear_word() for name, racer in racers.items()}
        won = [name for name, told in heard.items() if told == ["won", number + 1]]
        held = [told for told in heard.values() if told == ["held", *won]]
        if len(won) != 1 or len(held) != 1:
            wrong.append(f"round {number}: {heard}")
        winners += won[:1]
        for racer in order:
            racer.say_go()
        given_back = [racer.hear_word() for racer in order]
        if given_back != ["done", "done"]:
            wrong.append(f"round {number}: {given_back}")
    diaries = [line for racer in racers.values() for line in (*racer.diary, *racer.hear_all())]
    ends = [racer.wait() for racer in racers.values()]
    with clew.open(path) as store:
        session = store.get("s")
        violations = check(operations_in(diaries), {"s": log_of(session)})
        by_epoch = [[entry.epoch, entry.message["content"].split()[0]] for entry in session.entries()]
        status = session.info.status
    return {
        "wrong": wrong[:5],
        "ends": ends,
        "winners": winners,
        "by epoch": by_epoch,
        "violations": said(violations),
        "status": status,
    }


def _contend(tell: Tell, listen: Listen, path: str, name: str, rounds: int, planted: str) -> None:
    plant(planted)
    refuse_early = lease.refuse_early

    def look(reader: Reader, access: Access) -> None:
        refuse_early(reader, access)
        tell("free")
        listen()

    mock.patch.object(lease, "refuse_early", look).start()
    session = clew.open(path).get("s")
    diary = Diary(tell)
    for number in range(rounds):
        listen()
        try:
            run = session.run(lease=600, owner=name)
        except clew.LeaseHeldError as error:
            tell(["held", error.owner])
            listen()
            tell("done")
            continue
        tell(["won", run.epoch])
        listen()
        try:
            diary.write(run, message(f"{name} in round {number}"))
            run.complete()
            tell("done")
        except clew.LeaseLostError as error:
            tell(str(error))


# ── Forking ───────────────────────────────────────────────────────────────────────────────────────


def fork_with_a_run(path: str) -> Found:
    """F-26: fork() inside a run: the lease stays with the parent."""
    mock.patch.object(clew.run, "BEATS", OFTEN).start()
    store = clew.open(path)
    session = store.session("s")
    with session.run(lease=60, owner="parent") as run:
        run.append(message("before"))
        child = Child(_use_the_parents_run, run, session)
        heard = child.hear()
        ended = child.wait()
        found: Found = {"child": heard, "ended": ended, "running": session.info.status}
        first = until(session)
        wait_until(lambda: until(session) > first)
        run.append(message("after"))
    found |= {"statuses": statuses(session), "texts": texts(session), "fork": texts(store.get("child's"))}
    store.close()
    return found


def _use_the_parents_run(tell: Tell, run: Run, session: clew.Session) -> None:
    tries: dict[str, Callable[[], object]] = {
        "append": lambda: run.append(message("from the child")),
        "append_nowait": lambda: _append_nowait(run),
        "checkpoint": lambda: run.checkpoint(iteration=1),
        "set_var": lambda: run.set_var("k", 1),
        "complete": lambda: run.complete(),
        "fail": lambda: run.fail("the child's"),
        "plain append": lambda: session.append(message("from the child")),
        "run": lambda: session.run(),
    }
    said_of = {name: _error_of(attempt) for name, attempt in tries.items()}
    try:
        run.append(message("kept"))
    except clew.LeaseLostError as lost:
        said_of["its messages"] = lost.messages[0]["content"]
    with run:
        pass
    said_of["leaving"] = _error_of(lambda: run.__exit__(ValueError, ValueError("the child's"), None))
    session.fork("child's").append(message("from the child"))
    tell(said_of)


def _append_nowait(run: Run) -> None:
    run.append_nowait(message("from the child"))
    run._engine.flush()


def _error_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except clew.ClewError as error:
        return error.code
    return ""
