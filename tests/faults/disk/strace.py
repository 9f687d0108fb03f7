"""Programs under strace: their system calls counted, failing, or deadly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.children import Child, ProcessFailed
from tests.support.waiting import until

Tell = Callable[[Any], None]

WRITING: Final = (
    "write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat",
    "ftruncate", "openat", "mkdir", "mkdirat", "linkat",
)  # fmt: skip
"""The calls by which a program changes files."""
READING: Final = ("read", "pread64")
"""The calls by which it reads them."""


@contextmanager
def traced(program: Callable[..., None], *args: Any, strace: tuple[str, ...]) -> Iterator[Child]:
    """A program in a fork, under strace from its first step on."""

    def run(tell: Tell) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        program(tell, *args)

    child = Child(run)
    os.waitpid(child.pid, os.WUNTRACED)
    # A process that is attached to while it stands still makes no call that is not seen.
    tracer = subprocess.Popen(["strace", "-f", "-qq", *strace, "-p", str(child.pid)])
    try:
        until(lambda: tracer.poll() is not None or _is_traced(child.pid))
        if tracer.poll() is not None:
            raise ProcessFailed(f"strace ended with {tracer.returncode}")
        child.kill(signal.SIGCONT)
        yield child
    finally:
        if tracer.poll() is not None and child.status is None:
            child.kill()
        child.wait()
        tracer.wait()


def _is_traced(pid: int) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


def calls_below(
    place: Path,
    trace: Path,
    program: Callable[..., None],
    *args: Any,
    but: tuple[str, ...] = (),
    calls: tuple[str, ...] = WRITING,
) -> list[tuple[str, int]]:
    """The calls of a program that do something below a directory: name and number, from 1, of each.
    `but`: files with names that end so are passed over. `calls`: which ones.

    strace counts for each thread and each name by itself; of several threads the busiest counts.
    """
    strace = ("-y", "-s", "0", "-o", str(trace), "-e", f"trace={','.join(calls)}")
    with traced(program, *args, strace=strace) as child:
        child.hear_all()
    counts: Counter[tuple[str, str]] = Counter()
    found: list[tuple[str, int]] = []
    for line in trace.read_text(errors="replace").splitlines():
        begun = re.match(r"(\d+)\s+(\w+)\((.*)", line)
        if begun is None:
            continue
        thread, call, rest = begun.groups()
        counts[thread, call] += 1
        is_changing = call != "openat" or "O_CREAT" in rest
        if any(f"{end}>" in rest or f'{end}"' in rest for end in but):
            continue
        if str(place) in rest and is_changing and (call, counts[thread, call]) not in found:
            found.append((call, counts[thread, call]))
    return found


def unreadable(path: Path) -> tuple[str, ...]:
    """The arguments of strace for a file that cannot be read."""
    calls = ",".join(READING)
    return (
        "-o",
        "/dev/null",
        "-P",
        str(path),
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}:error=EIO:when=1+",
    )


def injecting(call: str, what: str, number: int, *, for_good: bool = False) -> tuple[str, ...]:
    """The arguments of strace for a fault: `what` is `signal=KILL` or `error=EIO`."""
    when = f"{number}+" if for_good else f"{number}"
    return ("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{what}:when={when}")
