"""F-17, F-19: a process with little memory and a large session; one with few files and many sessions."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import clew
from tests.faults.campaign import Result
from tests.faults.subjects import Subject
from tests.faults.workload.steps import message
from tests.support.children import Child

Tell = Callable[[Any], None]
MIB: Final = 1 << 20
PIECE: Final = 100_000


def little_memory(subject: Subject, *, megabytes: int, memory: int = 128) -> Result:
    """F-17, P16: open, list, read the tail and the context of, append to, fork and rewind a session of so
    many megabytes, in a process that may have `memory` MiB of its own."""
    result = Result(cycles=1)
    writer = Child(_write_much, subject, megabytes)
    count = writer.hear()
    if writer.wait():
        return Result(wrong=["the session could not be written"])
    user = Child(_use_with_little, subject, count, memory)
    told = user.hear_all()
    if user.wait() or not told or told[-1] != "done":
        result.found(f"{memory} MiB", [f"ended with {user.status} after {told}"])
    result.acknowledged = count
    for line in told:
        if isinstance(line, dict):
            result.saw("peak MiB", line["peak"])
    return result


def _write_much(tell: Tell, subject: Subject, megabytes: int) -> None:
    count = megabytes * 1_000_000 // PIECE
    with subject.open() as store:
        session = store.create("large")
        store.create("small").append(message("hi"))
        for first in range(0, count, 50):
            batch = [f"{n} " + "lorem ipsum " * (PIECE // 12) for n in range(first, min(first + 50, count))]
            session.append(*map(message, batch))
    tell(count)


def _use_with_little(tell: Tell, subject: Subject, count: int, memory: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory * MIB, most))
    with subject.open() as store:
        tell("opened")
        session = store.get("large")
        assert len(store.list()) == 2
        assert session.info.messages == count
        assert [each["content"][:9].split()[0] for each in session.messages(last=3)] == [
            str(n) for n in range(count - 3, count)
        ]
        tell("read the tail")
        assert len(session.context(max_messages=10)) <= 10
        tell("read the context")
        session.append(message("next"))
        session.fork("fork", at=count // 2).append(message("aside"))
        session.checkpoint("here", state={"n": 1})
        session.rewind(count - 2)
        session.undo()
        assert session.messages(last=1) == [message("next")]
        tell("wrote")
        assert sum(1 for _ in session.entries()) == count + 1
        tell("read all")
        assert store.verify(full=True).ok
        tell("verified")
    with subject.open() as store:
        assert store.get("large").messages(last=1) == [message("next")]
    tell({"peak": _peak_data()})
    tell("done")


def _peak_data() -> int:
    """The most memory that this process had, files that are mapped included; in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def few_files(subject: Subject, *, sessions: int = 200, files: int = 32, threads: int = 4) -> Result:
    """F-19: use so many sessions in a process that may have so many files open."""
    result = Result(cycles=1, acknowledged=sessions * 2)
    user = Child(_use_with_few, subject, sessions, files, threads)
    told = user.hear_all()
    if user.wait() or told[-1:] != ["done"]:
        result.found(f"{files} files", [f"ended with {user.status} after {told}"])
    return result


def _use_with_few(tell: Tell, subject: Subject, sessions: int, files: int, threads: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    before = _open_files()
    wrong: list[str] = []
    with subject.open() as store:
        for turn in range(2):
            users = [
                threading.Thread(target=_use_some, args=(store, n, sessions, threads, turn, wrong))
                for n in range(threads)
            ]
            for user in users:
                user.start()
            for user in users:
                user.join()
        tell([sessions, len(wrong), wrong[:3]])
        for n in range(sessions):
            assert store.get(f"s{n}").messages() == [message("0"), message("1")], n
    assert _open_files() == before, "files are left open"
    assert not wrong, wrong[0]
    tell("done")


def _use_some(
    store: clew.Store, first: int, sessions: int, threads: int, turn: int, wrong: list[str]
) -> None:
    for n in range(first, sessions, threads):
        try:
            session = store.session(f"s{n}")
            session.append(message(f"{turn}"))
            session.messages(last=1)
        except Exception as error:  # noqa: BLE001 (told by whoever waits for this thread)
            wrong.append(repr(error))


def _open_files() -> set[str]:
    here = Path("/proc/self/fd")
    return {os.readlink(path) for path in here.iterdir() if path.is_symlink()} if here.is_dir() else set()
