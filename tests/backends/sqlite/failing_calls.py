"""Programs whose system calls fail under them, or kill them: told to by strace, at every Nth call.

Each program is a fork of the process that runs these functions, so that it starts in a millisecond;
strace is attached to it before it does anything.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

import clew
from tests.backends.sqlite.schema.next_schema import plan_step
from tests.backends.sqlite.traces import SECRET, Words, fill, needles, traces
from tests.faults.crash.common import chain_of, check_file, message, said, texts
from tests.faults.history.checker import History, Operation, check, log_of
from tests.support.children import Child, ProcessFailed, forked
from tests.support.effort import spread
from tests.support.waiting import until

WRITTEN_BEFORE = Path(__file__).parents[1] / "versions"
"""Stores that checkouts from before the first release wrote."""
Tell = Callable[[Any], None]
Program = Callable[..., None]
QUICK, MOST = 3, 9
"""Calls that fail or kill, of those of one kind; a thorough run takes all that it is asked for."""


@contextmanager
def traced(program: Program, path: str, *strace: str) -> Iterator[Child]:
    """A program in a fork, under strace from its first step on."""
    waiting, go = os.pipe()

    def run(tell: Tell) -> None:
        os.close(go)
        os.read(waiting, 1)
        program(tell, path)

    child = Child(run)
    os.close(waiting)
    tracer = subprocess.Popen(["strace", "-f", "-qq", *strace, "-p", str(child.pid)])

    def is_attached() -> bool:
        if tracer.poll() is not None:
            raise ProcessFailed(f"strace ended with {tracer.returncode}")
        return "TracerPid:\t0\n" not in Path(f"/proc/{child.pid}/status").read_text()

    until(is_attached, pause=0.001)
    os.close(go)
    try:
        yield child
    finally:
        child.wait()
        tracer.wait()


def count_calls(program: Program, path: str, syscall: str, trace: str) -> int:
    """How often a program makes a system call when nothing fails."""
    with traced(program, path, "-o", trace, "-e", f"trace={syscall}") as child:
        child.hear_all()
    return len(re.findall(rf"\b{syscall}\(", Path(trace).read_text()))


# F-08: errors


def append_some(tell: Tell, path: str) -> None:
    """Append; tell what was said to each; close."""
    history = History()
    try:
        store = clew.open(path)
        session = store.session("s")
        for number in range(4):
            values = [f"{number}", f"{number}+"]
            try:
                with history.append("client", "s", values):
                    session.append(*(message(value) for value in values))
            except clew.ClewError:
                pass
        tell(history.operations)
        store.close()
    except clew.ClewError:
        tell(history.operations)


def append_and_die(tell: Tell, path: str) -> None:
    def tell_and_die(operations: Any) -> None:
        tell(operations)
        os.kill(os.getpid(), signal.SIGKILL)

    append_some(tell_and_die, path)


def fail_at_every_call(directory: str, syscall: str, every: int, mode: str) -> dict[str, Any]:
    """Let the Nth call fail, for N = 1, 1 + every, …; what was wrong after which N."""
    program = append_some if mode == "once" else append_and_die
    total = count_calls(program, f"{directory}/count.db", syscall, f"{directory}/trace")
    wrong: dict[str, str] = {}
    refused = 0
    for number in spread(range(1, total + 1, every), MOST, quick=QUICK):
        path = f"{directory}/{number}.db"
        when = f"{number}+" if mode == "for good" else f"{number}"
        fault = f"inject={syscall}:error=EIO:when={when}"
        with traced(program, path, "-o", "/dev/null", "-e", f"trace={syscall}", "-e", fault) as child:
            operations = msgspec.convert(child.hear() or [], list[Operation])
        outcomes = [operation.outcome for operation in operations]
        refused += len(outcomes) - outcomes.count("ok")
        found = forked(_wrong_with, path, operations)
        if mode != "for good" and len(outcomes) - outcomes.count("ok") > 1:
            found += f" one fault made several appends fail: {outcomes}"
        if mode == "for good" and "ok" in outcomes[outcomes.index("fail") :] if "fail" in outcomes else False:
            found += f" acknowledged on a dead disk: {outcomes}"
        if child.status not in (0, -9):
            found += f" the program ended with {child.status}"
        if found:
            wrong[str(number)] = found.strip()
    return {"wrong": wrong, "refused": refused, "calls": total}


def _wrong_with(path: str, operations: list[Operation]) -> str:
    """What the next program finds wrong, which has no faults."""
    with clew.open(path) as store:
        session = store.find("s")
        logs = {"s": log_of(session)} if session is not None else {}
        lines = [said(check(operations, logs))]
        if session is not None:
            lines += chain_of(session)
            before = texts(session)
            session.append(message("next"))
            if texts(session) != [*before, "next"]:
                lines.append("the next append is not where it should be")
    verdict = check_file(Path(path))
    return " ".join(filter(None, [*lines, "" if verdict == "ok" else verdict]))


# Kills


def kill_at_every_call(
    program: Program, path: Path, base: dict[str, bytes], syscall: str, every: int
) -> Iterator[int]:
    """Run a program on the same files again and again, killed at its Nth call; N, after each."""

    def put_back() -> None:
        for file in path.parent.iterdir():
            file.unlink()
        for name, content in base.items():
            path.with_name(name).write_bytes(content)

    put_back()
    trace = f"{path.parent}.trace"
    total = count_calls(program, str(path), syscall, trace)
    for number in spread(range(1, total + 1, every), MOST, quick=QUICK):
        put_back()
        fault = f"inject={syscall}:signal=KILL:when={number}"
        with traced(program, str(path), "-o", "/dev/null", "-e", f"trace={syscall}", "-e", fault) as child:
            child.hear_all()
        if child.status == -9:
            yield number


def files_of(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if not file.name.endswith("-shm")}


# P18: a purge that is killed


def fill_store(path: str) -> list[str]:
    words = Words(4)  # one of those of which a purge without a rebuild leaves something
    with clew.open(path) as store:
        fill(store, words)
        return sorted(needle.hex() for needle in needles(Path(path), words))


def purge(tell: Tell, path: str) -> None:
    with clew.open(path) as store:
        store.delete(SECRET, purge=True)


def _purge_again(path: str) -> list[Any]:
    """What the next program finds, and that it can finish the purge."""
    with clew.open(path) as store:
        session = store.find(SECRET)
        whole = session is None or not chain_of(session)
        others = [line for info in store.list() for line in chain_of(store.get(info.id))]
        store.delete(SECRET, purge=True)
        gone = store.find(SECRET) is None
    return [session is not None, whole and gone and not others]


def kill_purges(directory: str, syscall: str, every: int) -> dict[str, Any]:
    """Kill a purge at its Nth call, purge again, and look for traces; what was wrong after which N."""
    path = Path(directory, "store", "a.db")
    path.parent.mkdir()
    wanted = {bytes.fromhex(needle) for needle in forked(fill_store, str(path))}
    wrong: dict[str, str] = {}
    states = [0, 0]
    for number in kill_at_every_call(purge, path, files_of(path.parent), syscall, every):
        was_there, sound = forked(_purge_again, str(path))
        states[was_there] += 1
        verdict = forked(check_file, path)
        left = traces(path.parent, wanted)
        if left or not sound or verdict != "ok":
            wrong[str(number)] = f"{left} {sound} {verdict}"
    return {"wrong": wrong, "gone": states[0], "there": states[1]}


# P21: a migration that is killed


def migrate(tell: Tell, path: str) -> None:
    clew.open(path).close()


def _schema(path: str) -> list[Any]:
    """Version, and all that the step makes, as SQLite sees it."""
    database = apsw.Connection(path)
    version = database.execute("PRAGMA user_version").get
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema ORDER BY name")]
    columns = [row[1] for row in database.execute("PRAGMA table_info(sessions)")]
    palette = database.execute("SELECT count(*) FROM palette").get if "palette" in tables else 0
    database.close()
    return [version, tables, columns, palette]


def _finish_migration(path: str) -> list[Any]:
    with clew.open(path) as store:
        found = [texts(store.get(info.id)) for info in store.list()]
        wrong = [line for info in store.list() for line in chain_of(store.get(info.id))]
    return [sorted(found), wrong, _schema(path), check_file(Path(path))]


def kill_migrations(directory: str, kind: str, syscall: str, every: int) -> dict[str, Any]:
    """Kill a migration at its Nth call: from nothing to a store, from a store that a checkout wrote
    before the first release, or from a store of today to one with a step more."""
    path = Path(directory, "store", "a.db")
    path.parent.mkdir()
    if kind == "0.1-dev":
        path.write_bytes(gzip.decompress((WRITTEN_BEFORE / f"{kind}.db.gz").read_bytes()))
    elif kind == "step":
        forked(_small_store, str(path))
        plan_step(Path(directory))
    else:
        path.touch()
    base = files_of(path.parent)
    old = forked(_schema, str(path))
    new = forked(_finish_migration, str(path))
    wrong: dict[str, str] = {}
    states = [0, 0]
    for number in kill_at_every_call(migrate, path, base, syscall, every):
        left = forked(_schema, str(path))
        if left not in (old, new[2]):
            wrong[str(number)] = f"neither old nor new: {left}"
        states[left == new[2]] += 1
        if (then := forked(_finish_migration, str(path))) != new:
            wrong[str(number)] = f"cannot be finished: {then}"
    return {"wrong": wrong, "old": states[0], "new": states[1]}


def migrate_logs(tell: Tell, path: str) -> None:
    clew.open(f"jsonl:///{path}").close()


def _finish_logs(path: str) -> list[Any]:
    with clew.open(f"jsonl:///{path}") as store:
        said_in = {info.id: texts(store.get(info.id)) for info in store.list()}
        return [said_in, store.verify().problems, Path(path, "clew.json").read_text()]


def kill_migrations_of_logs(directory: str, kind: str, syscall: str) -> dict[str, str]:
    """Kill the opening of a JSONL store of an earlier format at each call; what was wrong after which."""
    path = Path(directory, "store")

    def put_back() -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(WRITTEN_BEFORE / kind, path)

    put_back()
    total = count_calls(migrate_logs, str(path), syscall, f"{directory}/trace")
    whole = forked(_finish_logs, str(path))
    wrong = {} if total else {"0": "no such call is made"}
    for number in spread(range(1, total + 1), MOST, quick=QUICK):
        put_back()
        fault = f"inject={syscall}:signal=KILL:when={number}"
        with traced(
            migrate_logs, str(path), "-o", "/dev/null", "-e", f"trace={syscall}", "-e", fault
        ) as child:
            child.hear_all()
        if (then := forked(_finish_logs, str(path))) != whole:
            wrong[str(number)] = f"cannot be finished: {then}"
    return wrong


def _small_store(path: str) -> None:
    with clew.open(path) as store:
        for number in range(20):
            store.session(f"s{number:02}").append(message(f"{number}"), message("x" * 300))
