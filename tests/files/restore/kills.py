"""F-43 in a process of its own: it forks restorers, kills them at a chosen moment, and lets others recover.

This process opens no store itself: a fork of it starts in a millisecond and has nothing of anybody else's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import clew
from tests.backends.sqlite.failing_calls import count_calls
from tests.faults.campaign import told_by
from tests.faults.crash.common import check_file, quick_directory
from tests.faults.disk.strace import traced
from tests.files.playground import House, cache_in, copy, kept, state
from tests.files.restore.restorers import Tell, prepare, restore_first, restorer
from tests.support.children import Child, ProcessFailed
from tests.support.effort import spread

PREFIX = b".clew-restore-"
HEADS = {"rewind": (2, 1), "undo": (2, 2)}
"""Messages before, and when it is done."""
MOST = 20
"""Moments of a restore at which it is killed, unless told otherwise; a thorough run takes many more."""


class Found(msgspec.Struct):
    """What is there after the recovery."""

    files: str
    """Which state the files are in: "before", "target", or what is different."""
    head: int
    pending: int
    wrong: list[str]


class Scene:
    """The directory in which it happens, and what it is to look like before and afterwards."""

    def __init__(self, base: Path, what: str, *, threads: bool) -> None:
        self.case, self.before, self.killed = base / "case", base / "before", base / "killed"
        self.what = what
        self.heads = HEADS[what]
        self.wrong: dict[str, str] = {}
        self.seen = {"before": 0, "target": 0, "half": 0}
        self.case.mkdir()
        ended(Child(prepare, str(self.case), threads))
        if what == "undo":
            ended(Child(restore_first, str(self.case)))
        copy(self.case, self.before)
        self.changes = ended(Child(restorer(what), str(self.case)))
        copy(self.case / "root", self.before / "target")

    def put_back(self) -> None:
        copy(self.before, self.case)

    def judge(self, label: str) -> None:
        """A process was killed: recover in both ways."""
        copy(self.case, self.killed)
        name = name_of(self.case / "root", str(self.before))
        self.seen[name if name in self.seen else "half"] += 1
        for how in ("finish", "undo"):
            copy(self.killed, self.case)
            recovery = Child(recover, str(self.case), how, str(self.before), self.what)
            if verdict := self._verdict(msgspec.convert(ended(recovery), Found), how):
                self.wrong[f"{label}, {how}"] = verdict

    def _verdict(self, found: Found, how: str) -> str:
        """Head and files agree. What was pending is what was asked for; else it is one or the other."""
        if found.wrong:
            return "; ".join(found.wrong)
        before, target = ("before", self.heads[0]), ("target", self.heads[1])
        agreed = {before, target}
        if found.pending:
            agreed = {target} if how == "finish" else {before}
        return "" if (found.files, found.head) in agreed else f"{found.files} with {found.head} messages"

    def result(self) -> dict[str, Any]:
        return {"wrong": self.wrong, "seen": self.seen, "changes": self.changes}


@contextmanager
def scene(what: str, *, threads: bool = False) -> Iterator[Scene]:
    with quick_directory() as base, cache_in(base):
        yield Scene(base, what, threads=threads)


def ended(child: Child) -> Any:
    """What it said last, if it ended well."""
    return told_by(child)[-1]


# -- recovering


def recover(tell: Tell, directory: str, how: str, before: str, what: str) -> None:
    """Finish, or take back, what was cut off; the verdict."""
    home = House(Path(directory))
    with home.open() as store:
        pending = store.pending_restores()
        wrong = [line for one in pending for line in _settle(store, one.id, how)]
        wrong += store.verify().problems
        if store.pending_restores():
            wrong.append("still pending")
        session = store.get("s")
        head, files = len(session.messages()), name_of(home.root, before)
        if pending and how == "finish" and what == "rewind":
            wrong += _undo_both(session, home.root, before)
    if (verdict := check_file(home.path)) != "ok":
        wrong.append(verdict)
    tell(Found(files, head, len(pending), wrong))


def _settle(store: clew.Store, id: str, how: str) -> list[str]:
    report = store.finish_restore(id) if how == "finish" else store.undo_restore(id)
    return [f"failed: {report.failed}"] if report.failed else []


def _undo_both(session: clew.Session, root: Path, before: str) -> list[str]:
    """After it was finished, `undo` brings back head and files together."""
    session.undo()
    if kept(state(root)) == kept(state(f"{before}/root")) and len(session.messages()) == 2:
        return []
    return [f"undo gave {name_of(root, before)} with {len(session.messages())} messages"]


def name_of(root: Path, before: str) -> str:
    """The state of the files by its name."""
    now, target = state(root), state(f"{before}/target")
    if left := [path for path in now if PREFIX in path]:
        return f"left behind: {left}"
    if now == state(f"{before}/root"):
        return "before"
    if now == target:
        return "target"
    differing = [path for path in {*now, *target} if now.get(path) != target.get(path)]
    return f"neither: {sorted(differing)}"


# -- the cycles


def kill_at_every_change(
    what: str, every: int, planted: str = "", threads: bool = False, most: int = MOST
) -> dict[str, Any]:
    """Kill a restorer at its last change, and at many before; a planted bug is found once."""
    with scene(what, threads=threads) as found:
        numbers = range(found.changes, 0, -every)
        for number in numbers if planted else spread(numbers, most):
            found.put_back()
            _kill(Child(restorer(what, number, planted), str(found.case)))
            found.judge(f"change {number}")
            if planted and found.wrong:
                break
        return found.result()


def kill_the_recovery_at_every_change(how: str, at: int, every: int, most: int = MOST) -> dict[str, Any]:
    """Kill a restorer half-way, then whoever recovers, at each change of that; then recover."""
    with scene("rewind") as found:
        found.put_back()
        _kill(Child(restorer("rewind", at), str(found.case)))
        copy(found.case, half := found.case.with_name("half"))
        changes = ended(Child(restorer(how), str(found.case)))
        for number in spread(range(1, changes + 1, every), most):
            copy(half, found.case)
            _kill(Child(restorer(how, number), str(found.case)))
            found.judge(f"change {number} of the recovery")
        return found.result()


def kill_at_every_call(syscalls: list[str], every: int, most: int = MOST) -> dict[str, Any]:
    """The same with real system calls, by strace."""
    program = restorer("rewind", is_counted=False)
    with scene("rewind") as found:
        killed = {}
        for syscall in syscalls:
            found.put_back()
            trace = str(found.case.with_name("trace"))
            total = count_calls(program, str(found.case), syscall, trace)
            killed[syscall] = 0
            for number in spread(range(1, total + 1, every), max(most // len(syscalls), 2)):
                found.put_back()
                fault = f"inject={syscall}:signal=KILL:when={number}"
                options = ("-o", "/dev/null", "-e", f"trace={syscall}", "-e", fault)
                with traced(program, str(found.case), strace=options) as child:
                    child.hear_all()
                killed[syscall] += child.status == -9
                found.judge(f"{syscall} {number}")
        return {**found.result(), "killed": killed}


def kill_a_snapshot_at_every_change(most: int = MOST) -> dict[str, Any]:
    """Kill whoever takes a snapshot at each change of the store; what the next one finds."""
    wrong: dict[str, str] = {}
    with scene("rewind") as found:
        found.put_back()
        changes = ended(Child(restorer("snapshot"), str(found.case)))
        for number in spread(range(1, changes + 1), most):
            found.put_back()
            _kill(Child(restorer("snapshot", number), str(found.case)))
            if lines := ended(Child(_take_the_next, str(found.case))):
                wrong[str(number)] = "; ".join(lines)
    return {"wrong": wrong, "changes": changes}


def _take_the_next(tell: Tell, directory: str) -> None:
    """All snapshots that are listed are whole, and so is a new one."""
    home = House(Path(directory))
    with home.open() as store:
        wrong = [*store.verify().problems]
        report = store.restore(store.snapshot(home.root), home.directory / "elsewhere")
        wrong += [f"failed: {failure}" for failure in report.failed]
        if kept(state(home.root)) != kept(state(home.directory / "elsewhere")):
            wrong.append("the next snapshot is not what is there")
    if (verdict := check_file(home.path)) != "ok":
        wrong.append(verdict)
    tell(wrong)


def _kill(child: Child) -> None:
    """Wait for its end; threads take turns as they like, so it may come through."""
    child.hear_all()
    if child.wait() not in (0, -9):
        raise ProcessFailed(f"a process ended with {child.status}")
