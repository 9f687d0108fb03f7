"""How things are measured: contenders take turns inside one run, and medians are compared.

The machine's disk and its other users drift from second to second, so two numbers are only compared when
they were taken in turns. What does not drift is counted: bytes by the kernel, fsyncs by strace.
"""

from __future__ import annotations

import gc
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers import Contender

ROOT = Path(__file__).resolve().parents[2]

median = statistics.median


class Samples(dict[str, list[float]]):
    """Seconds (or any number) by name, in the order taken."""

    def add(self, name: str, value: float) -> None:
        self.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return median(self[name])

    def ratio(self, name: str, other: str) -> float:
        """Median against median."""
        return self.median(name) / self.median(other)


async def take_turns(
    jobs: Mapping[str, Callable[[int], Awaitable[None]]], rounds: int, into: Samples | None = None
) -> Samples:
    """Run every job once a round, in a random order (who comes after whom matters), and time each run."""
    samples = Samples() if into is None else into
    with steady():
        for number in range(rounds):
            for name in shuffled(jobs, number):
                start = time.perf_counter()
                await jobs[name](number)
                samples.add(name, time.perf_counter() - start)
    return samples


def take_turns_sync(jobs: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
    """The same for plain functions. What a job returns is dropped after the clock stopped."""
    samples = Samples()
    with steady():
        for number in range(rounds):
            for name in shuffled(jobs, number):
                start = time.perf_counter()
                result = jobs[name]()
                samples.add(name, time.perf_counter() - start)
                del result
    return samples


def shuffled(names: Iterable[str], seed: int) -> list[str]:
    """Another order for every seed, the same in every run."""
    order = list(names)
    random.Random(seed).shuffle(order)
    return order


@contextmanager
def steady() -> Iterator[None]:
    """Keep what the heavy peers imported out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def append_each(contender: Contender, session: str, items: Sequence[Any]) -> None:
    """A chat turn as agents have it: each message is durable before the next one is known."""
    for item in items:
        await contender.append(session, [item])


def bytes_written() -> int:
    """Bytes that this process handed to write calls so far, whatever the page cache made of them."""
    found = re.search(r"^wchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


class Neighbours:
    """How much of the processors others used since this was made: what they take, they take from both sides,
    but an fsync that waits for a busy processor measures the scheduler."""

    def __init__(self) -> None:
        self._start = self._read()

    def share(self) -> float:
        """From 0 (nobody else was there) to 1 (all processors, all the time)."""
        ticks, busy, own = (now - then for now, then in zip(self._read(), self._start, strict=True))
        return max(0.0, busy - own) / max(ticks, 1)

    @staticmethod
    def _read() -> tuple[float, float, float]:
        fields = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
        own = sum(os.times()[:4]) * os.sysconf("SC_CLK_TCK")
        return sum(fields), sum(fields) - fields[3] - fields[4], own


def size_on_disk(directory: Path) -> int:
    """Bytes of all files below."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


BEGIN, END = "/clew-benchmark-begins", "/clew-benchmark-ends"
SYSCALLS = "fsync,fdatasync,sync_file_range,write,pwrite64,access,faccessat,faccessat2"


def mark(name: str) -> None:
    """Leave a trace that `count_syscalls` finds: a look at a file that does not exist."""
    os.access(name, os.F_OK)


def count_syscalls(module: str, *arguments: str) -> Counter[str]:
    """System calls of `python -m module arguments` between `mark(BEGIN)` and `mark(END)`."""
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "40"]
    command += ["-e", "signal=none", "-e", f"trace={SYSCALLS}"]
    command += [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    counts: Counter[str] = Counter()
    counting = False
    for line in done.stderr.splitlines():
        if BEGIN in line:
            counting = True
        elif END in line:
            break
        elif counting and (call := re.match(r"(?:\[pid\s+\d+\] )?(\w+)\(", line)):
            counts[call[1]] += 1
            if call[1] in ("write", "pwrite64") and (size := re.search(r"= (\d+)$", line)):
                counts["bytes"] += int(size[1])
    return counts
