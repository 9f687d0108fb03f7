"""A worker is killed again and again, and others go on from its last iteration: nothing is done twice
in the log, nothing is left out, and no tool call is without its result."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.run import Run
from tests.faults.crash.common import chain_of, message, said, texts
from tests.faults.history.checker import History, Operation, check, log_of
from tests.faults.leases.tools import Diary, Listen, Tell, Worker, operations_in, plant, statuses
from tests.support.forks import call_in_fork

Found = dict[str, Any]

ITERATIONS = 20
ATTEMPTS = 80
LINES_A_STEP = 5
"""What a worker tells of one iteration: two appends, each asked and ended, and a checkpoint. It gets no
further than that before it is killed; with a planted bug it stops at once, and dies there on every run."""


def asks(number: int, who: str) -> dict[str, Any]:
    function = {"name": "count", "arguments": "{}"}
    calls = [{"id": f"call-{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": f"{number} asked by {who}", "tool_calls": calls}


def answers(number: int, who: str) -> dict[str, Any]:
    return {"role": "tool", "content": f"{number} answered by {who}", "tool_call_id": f"call-{number}"}


# The worker


def work(tell: Tell, listen: Listen, path: str, name: str, halt_at: int, planted: str, most: int) -> None:
    """Do what is left of the iterations, and wait after `most` lines for the kill. `halt_at`: wait there,
    between the call and its result."""
    plant(planted)
    tell = on_a_leash(tell, listen, most)
    session = clew.open(path).get("job")
    diary = Diary(tell)
    with session.run(task="count", lease=600, owner=name, wait=0) as run:
        done, total = go_back(run, tell)
        for number in range(done + 1, ITERATIONS + 1):
            diary.write(run, asks(number, name))
            if number == halt_at:
                tell(["halted"])
                listen()
            diary.write(run, answers(number, name), key=f"iter-{number}")
            total += number
            run.checkpoint(iteration=number, state={"total": total})
            tell(["checkpoint", number])
        run.complete({"total": total})


def on_a_leash(tell: Tell, listen: Listen, most: int) -> Tell:
    """A worker that is faster than the one who kills does not get away."""
    told = 0

    def tell_or_wait(line: Any) -> None:
        nonlocal told
        tell(line)
        told += 1
        if told == most:
            listen()

    return tell_or_wait


def go_back(run: Run, tell: Tell) -> tuple[int, int]:
    """Where the worker before this one had come to."""
    try:
        point = run.resume()
    except clew.errors.CheckpointNotFoundError:
        run.checkpoint(iteration=0, state={"total": 0})
        tell(["checkpoint", 0])
        return 0, 0
    tell(["abandoned", texts(run)[len(point.messages) :]])
    run.rewind(point.head)
    assert isinstance(point.state, dict)
    assert point.iteration is not None
    tell(["resumed", point.iteration])
    return point.iteration, point.state["total"]


# The one who kills


class Foreman:
    """Sends one worker after the other, and notes what they told."""

    def __init__(self, path: str, planted: str) -> None:
        self.path, self.planted = path, planted
        self.sent = self.killed = 0
        self.checkpoint = -1
        """The last one that was acknowledged."""
        self.operations: list[Operation] = []
        self.abandoned: set[str] = set()
        self.wrong: list[str] = []
        history = History()
        with clew.open(path) as store, history.append("user", "job", ["count"]):
            store.session("job").append(message("count"))
        self.operations += history.operations

    def send(self, lines: int, halt_at: int = 0) -> bool:
        """Let a worker tell so many lines, and kill it; whether it was done by then."""
        self.sent += 1
        name = f"worker-{self.sent}"
        most = lines if self.planted else lines + LINES_A_STEP
        worker = Worker(work, self.path, name, halt_at, self.planted, most)
        heard: list[Any] = []
        while len(heard) < lines and (told := worker.hear()) is not None and told != ["halted"]:
            heard.append(told)
        worker.kill()
        heard += worker.hear_all()
        ended = worker.wait()
        self.note(name, heard)
        if ended not in (0, -9):
            self.wrong.append(f"{name} ended with {ended}")
        self.killed += ended == -9
        return ended == 0

    def note(self, name: str, heard: list[Any]) -> None:
        self.operations += operations_in(heard)
        before = self.checkpoint
        for told in heard:
            match told:
                case ["abandoned", values]:
                    self.abandoned.update(values)
                case ["resumed", number]:
                    # One more may have been committed by a worker that was killed before it could tell.
                    if number not in (before, before + 1):
                        self.wrong.append(f"{name} resumed from {number} when {before} was acknowledged")
                    self.checkpoint = number
                case ["checkpoint", number]:
                    self.checkpoint = number

    def verdict(self) -> Found:
        """What is there at the end. What was rewound is kept, but is not on the path any more."""
        for operation in self.operations:
            if self.abandoned.intersection(operation.values):
                operation.outcome = "fail"
        with clew.open(self.path) as store:
            session = store.get("job")
            info = session.info
            violations = check(self.operations, {"job": log_of(session)})
            return {
                "wrong": self.wrong + chain_of(session),
                "violations": said(violations),
                "texts": texts(session),
                "killed": self.killed,
                "abandoned": len(self.abandoned),
                "elsewhere": store.stats().entries - info.entries,
                "run": [info.status, info.run.response if info.run else None],
                "statuses": [status for status, _ in statuses(session)],
                "epoch": info.epoch,
            }


def work_and_kill(path: str, seed: int, planted: str = "") -> Found:
    """Kill workers after some lines, wherever they are, until one gets to the end, or goes wrong."""
    choose = random.Random(seed)
    foreman = Foreman(path, planted)
    for _ in range(ATTEMPTS):
        if foreman.send(choose.randint(1, 30)) or foreman.wrong:
            break
    return foreman.verdict()


def kill_between_call_and_result(path: str) -> Found:
    """Kill a worker in the middle of each third iteration, and look at what it left."""
    foreman = Foreman(path, "")
    left = []
    for number in range(3, ITERATIONS, 3):
        foreman.send(1_000_000, halt_at=number)
        with clew.open(path) as store:
            session = store.get("job")
            point = session.resume()
            last = session.messages(last=1)[0]["content"]
            closed = session.context()[-1].get("tool_call_id")
            left.append([number, last.split()[0], point.iteration, point.ahead, closed])
    foreman.send(1_000_000)
    return {**foreman.verdict(), "left": left}


def iterations(found: Found) -> list[str]:
    """The numbers of the calls and results on the path; a pair has one worker."""
    steps = [text.split() for text in found["texts"][1:]]
    assert [step[1] for step in steps] == ["asked", "answered"] * (len(steps) // 2)
    assert [ask[3] for ask in steps[::2]] == [answer[3] for answer in steps[1::2]]
    return [step[0] for step in steps]


ONCE_EACH = [str(number) for number in range(1, ITERATIONS + 1) for _ in range(2)]
TOTAL = sum(range(ITERATIONS + 1))


@pytest.mark.parametrize("seed", [1, 2])
def test_p10_workers_killed_at_random_instants_do_every_iteration_once_and_in_order(
    tmp_path: Path, seed: int
) -> None:
    """J1-J9; the next worker gets the lease at once and goes on from the last iteration."""
    found = call_in_fork(work_and_kill, str(tmp_path / "a.db"), seed)

    assert (found["wrong"], found["violations"]) == ([], "")
    assert iterations(found) == ONCE_EACH
    assert found["run"] == ["completed", {"total": TOTAL}]
    assert found["killed"] > 2
    assert found["elsewhere"] == found["abandoned"]
    begins, ends = found["statuses"][::2], found["statuses"][1::2]
    assert begins == ["running"] * found["epoch"]
    # A worker may be killed when it was done, but had not ended yet: then another one finds nothing to do.
    assert ends == sorted(ends, key=("interrupted", "completed").index)


def test_p15_workers_killed_between_a_call_and_its_result_leave_no_open_call_on_the_path(
    tmp_path: Path,
) -> None:
    """What a model gets is well formed even before anybody resumes."""
    found = call_in_fork(kill_between_call_and_result, str(tmp_path / "a.db"))

    numbers = range(3, ITERATIONS, 3)
    assert found["left"] == [[n, str(n), n - 1, True, f"call-{n}"] for n in numbers]
    assert (found["wrong"], found["violations"]) == ([], "")
    assert iterations(found) == ONCE_EACH
    assert found["killed"] == found["abandoned"] == len(numbers)


def test_the_kills_find_a_rewind_that_does_not_last(tmp_path: Path) -> None:
    """A planted bug."""
    found = call_in_fork(work_and_kill, str(tmp_path / "a.db"), 1, "a rewind does not last")

    assert "J2" in found["violations"]


def test_the_kills_find_a_worker_that_is_sent_back_too_far(tmp_path: Path) -> None:
    """A planted bug: all would be on the path once, but done many times."""
    found = call_in_fork(work_and_kill, str(tmp_path / "a.db"), 1, "resumes from the oldest checkpoint")

    assert "resumed from 0" in "; ".join(found["wrong"])
