"""P9 under load: processes that share sessions, die, freeze, steal from each other and write beside."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

import clew
from clew.run import Run
from tests.faults.crash.common import chain_of, check_file, message, said
from tests.faults.history.checker import Operation, check, log_of
from tests.faults.leases.test_resume import answers, asks
from tests.faults.leases.tools import Diary, Tell, operations_in, plant
from tests.support.children import Child
from tests.support.effort import usually
from tests.support.forks import call_in_fork

WORKERS = 8
SESSIONS = 100
HOT = 6
"""Half of the work is done on so few sessions: else nobody would meet."""
LEASE = 0.1
"""Seconds: whoever is frozen for longer loses it."""
ROUNDS = usually(30, thorough=400)
"""Sessions that each worker takes, one after the other, unless it is killed."""


class Gave(Exception):
    """A worker's own error."""


# The workers


def work(tell: Tell, path: str, number: int, rounds: int, planted: str) -> None:
    """Take so many sessions at random. The diary is a file: it outlives kill -9."""
    plant(planted)
    file = os.open(f"{path}.{number}.diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(line: Any) -> None:
        os.write(file, msgspec.json.encode(line) + b"\n")

    StormWorker(clew.open(path), number, note).work(rounds)


class StormWorker:
    def __init__(self, store: clew.Store, number: int, note: Tell) -> None:
        self.store, self.number, self.note = store, number, note
        self.name = f"worker-{number}"
        self.diary = Diary(note)
        self.choose = random.Random(number)
        self.count = 0

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            hot = self.choose.random() < 0.5
            session = self.store.get(f"s{self.choose.randrange(HOT if hot else SESSIONS)}")
            try:
                if self.choose.random() < 0.1:
                    self.write_from_outside(session)
                else:
                    self.take(session)
            except (clew.LeaseHeldError, clew.LeaseLostError, Gave) as error:
                self.note(["met", type(error).__name__])

    def value(self) -> str:
        self.count += 1
        return f"{self.name}.{self.count}"

    def write_from_outside(self, session: clew.Session) -> None:
        """By name, or just so: then a lease may refuse it."""
        handle = session.outside_lease() if self.choose.random() < 0.5 else session
        value = self.value()
        with self.diary.append(self.name, session.id, [value]):
            handle.append(message(value))

    def take(self, session: clew.Session) -> None:
        wait, steal = self.choose.choice((None, 0.02, 0.1)), self.choose.random() < 0.1
        with session.run(lease=LEASE, owner=self.name, wait=wait, steal=steal) as run:
            for _ in range(self.choose.randint(1, 5)):
                self.step(run)
            if self.choose.random() < 0.1:
                raise Gave

    def step(self, run: Run) -> None:
        chance = self.choose.random()
        if chance < 0.02:
            os.kill(os.getpid(), signal.SIGKILL)
        elif chance < 0.06:
            os.kill(os.getpid(), signal.SIGSTOP)
            self.write(run, message(self.value()))
        elif chance < 0.2:
            run.checkpoint(iteration=self.count, state={"by": self.name}, force=True)
        elif chance < 0.4:
            value = self.value()
            call_number = self.number * 1_000_000 + self.count
            self.write(run, asks(call_number, value))
            self.write(run, answers(call_number, value))
        else:
            self.write(run, *(message(self.value()) for _ in range(self.choose.randint(1, 3))))

    def write(self, run: Run, *messages: dict[str, Any]) -> None:
        """What is refused comes back whole."""
        try:
            self.diary.write(run, *messages)
        except clew.LeaseLostError as lost:
            if lost.messages != messages:
                self.note(["wrong", f"{run!r}: {lost.messages} came back for {messages}"])
            raise


# The one who watches them


class Crew:
    """So many workers at a time: the killed are replaced, the frozen thawed when their lease is over."""

    def __init__(self, path: str, rounds: int, planted: str) -> None:
        self.path, self.planted = path, planted
        self.rounds = rounds
        self.choose = random.Random(0)
        self.frozen: dict[int, float] = {}
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.sent = 0
        self.crew: dict[int, Child] = {}

    def send(self) -> None:
        self.sent += 1
        child = Child(work, self.path, self.sent, self.rounds, self.planted)
        self.crew[child.pid] = child

    def watch(self) -> None:
        for _ in range(WORKERS):
            self.send()
        while self.crew:
            for pid in list(self.crew):
                self.look_after(pid)
            time.sleep(0.005)

    def look_after(self, pid: int) -> None:
        changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if not changed:
            if self.frozen.get(pid, math.inf) < time.monotonic():
                del self.frozen[pid]
                os.kill(pid, signal.SIGCONT)
        elif os.WIFSTOPPED(status):
            self.seen["frozen"] += 1
            self.frozen[pid] = time.monotonic() + LEASE * self.choose.uniform(1.1, 2)
        else:
            child = self.crew.pop(pid)
            child.status = os.waitstatus_to_exitcode(status)
            os.close(child._reading)
            if child.status == -signal.SIGKILL:
                self.seen["killed"] += 1
                if self.sent < 2 * WORKERS:
                    self.send()
            elif child.status:
                self.wrong.append(f"worker {pid} ended with {child.status}")


def storm(directory: str, rounds: int, planted: str = "") -> dict[str, Any]:
    path = f"{directory}/a.db"
    with clew.open(path) as store:
        for number in range(SESSIONS):
            store.create(f"s{number}")
    crew = Crew(path, rounds, planted)
    crew.watch()
    operations: list[Operation] = []
    for number in range(1, crew.sent + 1):
        file = Path(f"{path}.{number}.diary")
        lines = file.read_bytes().splitlines() if file.exists() else []
        told = [msgspec.json.decode(line) for line in lines]
        operations += operations_in(told)
        crew.wrong += [line[1] for line in told if line[0] == "wrong"]
        crew.seen.update(line[1] for line in told if line[0] == "met")
    crew.seen.update(operation.outcome for operation in operations)
    with clew.open(path) as store:
        sessions = [store.get(f"s{number}") for number in range(SESSIONS)]
        violations = check(operations, {session.id: log_of(session) for session in sessions})
        crew.wrong += [line for session in sessions for line in chain_of(session)]
        store.interrupted()
        running = [info.id for info in store.list(status="running")]
        crew.seen["leases"] = sum(session.info.epoch for session in sessions)
    return {
        "violations": said(violations),
        "wrong": crew.wrong[:10],
        "running": running,
        "integrity": check_file(Path(path)),
        "seen": crew.seen,
    }


def test_p9_eight_processes_share_a_hundred_sessions_and_no_promise_is_broken(tmp_path: Path) -> None:
    """J1-J9, P2 on every session, whoever was killed, frozen past its lease or robbed of it."""
    found = call_in_fork(storm, str(tmp_path), ROUNDS)

    assert (found["violations"], found["wrong"]) == ("", []), found["seen"]
    assert (found["running"], found["integrity"]) == ([], "ok"), found["seen"]
    assert all(found["seen"][what] for what in ("ok", "fail", "killed", "frozen")), found["seen"]
    assert found["seen"]["LeaseLostError"] > 0, found["seen"]


def test_the_storm_finds_an_append_that_does_not_compare_the_fence(tmp_path: Path) -> None:
    """A planted bug."""
    found = call_in_fork(storm, str(tmp_path), ROUNDS, "the fence is not compared")

    assert "J8" in found["violations"], found["seen"]
