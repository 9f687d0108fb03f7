"""F-02, F-08, F-10: the Nth system call kills the program, or fails, for every N; once, and from then on."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import clew
from clew.errors import BackendError, DiskFullError, OutcomeUnknownError
from tests.faults.campaign import Result, told_by
from tests.faults.disk.file_log import FileEvent, record
from tests.faults.disk.strace import READING, WRITING, calls_below, injecting, traced
from tests.faults.history.checker import outcome_of
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.steps import (
    BEGINNING,
    IN_PARTS,
    OPERATIONS,
    PROBE,
    View,
    look_again,
    message,
    prepare,
    view_of,
)
from tests.support.children import Child, preload

Tell = Callable[[Any], None]
FULL: Final = "error=ENOSPC"
UNREAD: Final = "unread"
READ_ONLY: Final = "read_only"


class Case:
    """One operation in a directory of its own, done again and again from the same beginning."""

    def __init__(self, subject: Subject, operation: str, result: Result, planted: str = "") -> None:
        self.operation = operation
        self.subject = subject.at(subject.place / "case" / "store")
        self.files = subject.place / "case" / "files"
        self._base = subject.place / "base"
        self._trace = subject.place / "trace"
        self._result = result
        self._planted = planted
        shutil.rmtree(subject.place, ignore_errors=True)
        self.subject.place.mkdir(parents=True)
        self.files.mkdir()
        os.environ["XDG_CACHE_HOME"] = str(subject.place / "case" / "cache")
        if operation != BEGINNING:
            told_by(Child(_prepare, self.subject, self.files))
        shutil.copytree(subject.place / "case", self._base)
        self.views: list[View]
        self.views, modules = told_by(Child(_views, self.subject, self.files, operation))[-1]
        preload(modules)

    def put_back(self) -> None:
        shutil.rmtree(self._base.with_name("case"))
        shutil.copytree(self._base, self._base.with_name("case"))

    def calls(self, which: tuple[str, ...] = WRITING) -> list[tuple[str, int]]:
        """The calls that it makes when nothing fails."""
        self.put_back()
        place = self.subject.place
        given = (self.subject, self.files, self.operation, self._planted)
        return calls_below(place, self._trace, _play, *given, but=self.subject.forgets, calls=which)

    def record(self) -> list[FileEvent]:
        """What it tells the file system."""
        self.put_back()
        given = (self.subject, self.files, self.operation, self._planted)
        return record(self.subject.place, self._trace, _play, *given)

    def play(self, strace: tuple[str, ...]) -> tuple[list[Any], int | None]:
        """Do it under strace; what it told, and how it ended."""
        self.put_back()
        given = (self.subject, self.files, self.operation, self._planted)
        with traced(_play, *given, strace=strace) as child:
            heard = child.hear_all()
        return heard, child.status

    def play_limited(self, size: int) -> tuple[list[Any], int | None]:
        """Do it when no file may become larger than this: the write that crosses the limit is short."""
        self.put_back()
        child = Child(_play_limited, size, self.subject, self.files, self.operation, self._planted)
        return child.hear_all(), child.wait()

    def judge(self, where: str, heard: list[Any], fault: str) -> None:
        """Hold what the next program finds against what this one was told."""
        done = sum(line == "done" for line in heard)
        self._result.cycles += 1
        self._result.acknowledged += done
        last = next((line for line in heard if isinstance(line, dict)), None)
        allowed = self.views[done : done + 2]
        if last is not None:
            self._result.saw(last["code"])
            if last["outcome"] == "fail" and self.operation not in IN_PARTS:
                allowed = self.views[done : done + 1]
            self._result.found(where, _wrong_error(last, fault))
        for view in (line[1] for line in heard if isinstance(line, list)):
            if view not in self.views[: done + 2]:
                self._result.found(where, [f"the same program sees {view} afterwards"[:900]])
        found = told_by(Child(_look, self.subject, self.files))[-1]
        lines = list(found["wrong"])
        if not lines and found["view"] not in allowed:
            named = self.views.index(found["view"]) if found["view"] in self.views else "no"
            lines.append(f"{done} operations were done, but it looks as after {named}: {found['view']}"[:900])
        self._result.found(where, lines)


def _wrong_error(told: dict[str, Any], fault: str) -> list[str]:
    """What is wrong with the kind of an error."""
    if fault == UNREAD:
        return [] if told["is_ours"] else [f"the wrong error: {told['text']}"]
    if not told["is_backend"]:
        return [f"the wrong error: {told['text']}"]
    if told["code"] == READ_ONLY:
        return []  # it could not be opened for writing, and says so
    if fault == FULL and told["is_write"] and not told["is_full"]:
        return [f"a full disk is told as {told['text']}"]
    return []


# -- in forks


def _prepare(tell: Tell, subject: Subject, files: Path) -> None:
    prepare(subject, files)
    tell("prepared")


def _views(tell: Tell, subject: Subject, files: Path, operation: str) -> None:
    with subject.open() as store:
        views = [view_of(store, files)]
        for step in OPERATIONS[operation]:
            step(store, files)
            views.append(view_of(store, files))
    look_again(subject, files)
    tell([views, list(sys.modules)])


def _play(tell: Tell, subject: Subject, files: Path, operation: str, planted: str) -> None:
    """Open, take the steps, close; tell each that is done, and the first error. One more append at the
    end shows whether the same store goes on."""
    plant(planted)
    try:
        store = subject.open()
        tell("opened")
        for step in OPERATIONS[operation]:
            seen = step(store, files)
            if isinstance(seen, dict):
                tell(["sees", seen])
            tell("done")
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is told)
        tell(_told(error))
        with suppress(clew.ClewError, UnboundLocalError):
            tell(["sees", view_of(store, files)])
    with suppress(clew.ClewError, UnboundLocalError):
        store.session(PROBE).append(message("goes on"))
        tell("goes on")
        store.close()


def _play_limited(tell: Tell, size: int, *given: Any) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    _play(tell, *given)


def _told(error: BaseException) -> dict[str, Any]:
    return {
        "text": f"{error!r} {traceback.format_exception(error, limit=-3)[-2:]}",
        "code": getattr(error, "code", type(error).__name__),
        "outcome": outcome_of(error),
        "is_ours": isinstance(error, clew.ClewError),
        "is_backend": isinstance(error, BackendError),
        "is_full": isinstance(error, DiskFullError | OutcomeUnknownError),
        "is_write": True,
    }


def _look(tell: Tell, subject: Subject, files: Path) -> None:
    tell(look_again(subject, files))


# -- the campaigns


def kill_at_calls(
    subject: Subject, *, operations: list[str], every: int = 1, first: int = 0, planted: str = ""
) -> Result:
    """Kill the program at every so manyth of its calls that change something."""
    result = Result()
    for operation in operations:
        case = Case(subject, operation, result, planted)
        for call, number in case.calls()[first % every :: every]:
            heard, status = case.play(injecting(call, "signal=KILL", number))
            if status == -9:
                result.saw(f"killed at {call}")
                case.judge(f"{operation}, killed at {call} {number}", heard, "")
            if planted and result.wrong:
                return result
    return result


def fail_at_calls(
    subject: Subject,
    *,
    operations: list[str],
    errors: Iterable[str] = ("EIO", "ENOSPC", "EINTR"),
    reads: bool = False,
    modes: Iterable[str] = ("once", "for good"),
    every: int = 1,
    first: int = 0,
    planted: str = "",
) -> Result:
    """Let every so manyth of the calls that change something fail. `reads`: of those that read."""
    result = Result()
    errors = ("EIO",) if reads else tuple(errors)
    for operation in operations:
        case = Case(subject, operation, result, planted)
        for call, number in case.calls(READING if reads else WRITING)[first % every :: every]:
            for error in errors:
                for mode in modes:
                    if error == "EINTR" and (mode == "for good" or call not in INTERRUPTIBLE):
                        continue  # whoever tries again would do so for ever
                    fault = injecting(call, f"error={error}", number, for_good=mode == "for good")
                    heard, status = case.play(fault)
                    where = f"{operation}, {error} {mode} at {call} {number}"
                    if status != 0:
                        result.found(where, [f"the program ended with {status}"])
                    is_write = call in ("write", "pwrite64")
                    for line in heard:
                        if isinstance(line, dict):
                            line["is_write"] = is_write
                    case.judge(where, heard, UNREAD if reads else f"error={error}")
                    was_told = any(isinstance(line, dict) and line["code"] != READ_ONLY for line in heard)
                    if mode == "once" and was_told and "opened" in heard and "goes on" not in heard:
                        result.found(where, ["the same store does not go on afterwards"])
                    if planted and result.wrong:
                        return result
    return result


INTERRUPTIBLE: Final = ("write", "pwrite64", "fsync", "fdatasync", "openat", "ftruncate")


def shorten_writes(
    subject: Subject, *, operations: list[str], samples: int = 20, planted: str = ""
) -> Result:
    """Let a write be short, by a limit to the size of files: at several sizes up to that which is needed."""
    result = Result()
    for operation in operations:
        case = Case(subject, operation, result, planted)
        largest = max(path.stat().st_size for path in case.subject.files())
        for n in range(samples):
            size = largest * (n + 1) // samples + n % 7
            heard, status = case.play_limited(size)
            where = f"{operation}, no file above {size} bytes"
            if status != 0:
                result.found(where, [f"the program ended with {status}"])
            case.judge(where, heard, "")
    return result
