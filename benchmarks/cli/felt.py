"""How long does a person wait for the command line, with many sessions in the store?

Real processes on a pseudo-terminal, in turns: from the start of the interpreter to its end. The store has
20,000 sessions with 200,000 messages. An import of 1,200 files with 140 MB follows, once, and then again
with nothing changed. Beside the time of the clock stand the processor time and the bytes that were read,
which other programs on the machine disturb less.
"""

from __future__ import annotations

import os
import pty
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cli.corpus import BYTES, FILES, SESSIONS, WORD, files_of_agents, large_store, name_of
from benchmarks.harness.measure import Samples, shuffled
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import HERE, Lab, main

ROUNDS = 11
COLUMNS, LINES = 120, 40
TARGETS = {
    "clew --help": 0.090,
    "clew ls": 0.120,
    "clew show PREFIX": 0.150,
    "clew search WORD": 0.150,
    "clew doctor": 1.0,
    "clew import, unchanged": 0.3,
}
"""Seconds."""
KEPT = HERE / ".work" / "felt"


async def run(lab: Lab) -> Result:
    KEPT.mkdir(parents=True, exist_ok=True)
    sessions = lab.pick(SESSIONS, SESSIONS // 10)
    lab.say(f"a store of {sessions:,} sessions (kept for the next time)")
    store = large_store(KEPT, sessions)
    prefix = name_of(sessions // 2).partition(":")[2][:8]
    jobs = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "clew --help": clew("--help"),
        "clew ls": clew("ls"),
        "clew show PREFIX": clew("show", prefix),
        "clew search WORD": clew("search", WORD),
        "clew doctor": clew("doctor"),
    }
    watches = Watches(lab.directory, store)
    lab.say(f"{len(jobs)} commands, {lab.pick(ROUNDS, 3)} rounds")
    for number in range(-1, lab.pick(ROUNDS, 3)):  # the first round warms up
        for name in shuffled(jobs, number):
            watches.watch(name, jobs[name], count=number >= 0)
    files, bytes = lab.pick(FILES, FILES // 10), lab.pick(BYTES, BYTES // 10)
    lab.say(f"an import of {files:,} files, {size(bytes)}")
    home = files_of_agents(KEPT, files, bytes)
    watches.store = lab.directory / "imported.db"
    watches.watch("clew import", clew("import", str(home)))
    for _ in range(5):
        watches.watch("clew import, unchanged", clew("import", str(home)))
    return Result(list(rows(watches)), {name: watches.of(name) for name in sorted(watches.clock)})


def clew(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "clew", *arguments]


def rows(watches: Watches) -> Iterator[Row]:
    for name in sorted(watches.clock):
        took = watches.clock.median(name)
        beside = f"{ms(watches.processor.median(name))} processor, {size(watches.read.median(name))} read"
        goal = TARGETS.get(name)
        if goal is None:
            yield Row(name, ms(took), beside, 1.0)
        else:
            yield Row(name, ms(took), f"{ms(goal)}; {beside}", took / goal, 1.0)


class Watches:
    """Runs commands, and keeps what each took."""

    def __init__(self, home: Path, store: Path) -> None:
        self.home, self.store = home, store
        self.clock, self.processor, self.read = Samples(), Samples(), Samples()

    def watch(self, name: str, command: list[str], *, count: bool = True) -> None:
        """Run it on a terminal. What it prints is thrown away."""
        environment = {
            "HOME": str(self.home),
            "CLEW_STORE": str(self.store),
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(HERE.parent / "src")),
            "CLEW_PAGER": "cat",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (LINES, COLUMNS))
        drain = threading.Thread(target=_drain, args=(master, said := bytearray()))
        drain.start()
        start = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, slave, number) for number in (0, 1, 2)]
        process = os.posix_spawn(command[0], command, environment, file_actions=actions)
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        took = time.perf_counter() - start
        read = _bytes_read(process)
        _, status, used = os.wait4(process, 0)
        os.close(slave)
        drain.join()
        os.close(master)
        if status != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{said.decode(errors='replace')[-2000:]}")
        if count:
            self.clock.add(name, took)
            self.processor.add(name, used.ru_utime + used.ru_stime)
            self.read.add(name, read)

    def of(self, name: str) -> dict[str, float]:
        return {
            "clock_ms": self.clock.median(name) * 1e3,
            "processor_ms": self.processor.median(name) * 1e3,
            "bytes_read": self.read.median(name),
        }


def _bytes_read(process: int) -> int:
    """By read calls, of a process that has ended and was not waited for."""
    for line in Path(f"/proc/{process}/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0


def _drain(master: int, into: bytearray) -> None:
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # the last process has closed its end
            return
        if not data:
            return
        into += data


if __name__ == "__main__":
    main(run, __doc__)
