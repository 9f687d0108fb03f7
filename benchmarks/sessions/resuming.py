"""Checkpoints of runs and going on from them: what depends on the length of the history, and what must not.

Also: how long after kill -9 of a worker another one has its session. No peer has a lease to take over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import clew
from benchmarks.harness.build import SESSION, long_session
from benchmarks.harness.measure import ROOT, Samples, bytes_written, median, steady, take_turns_sync
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from clew.run import Run

SHORT, LONG = 100, 10_000
FACTOR = 1.5
LEASE = 30.0
STATE = {"done": ["plan", "read"], "next": "edit", "files": [f"src/module_{n}.py" for n in range(10)]}

HOLDER = """
import sys, time, clew
run = clew.open(sys.argv[1]).session(sys.argv[2]).run(lease=float(sys.argv[3]))
run.append({"role": "user", "content": "begin"})
print("ready", flush=True)
time.sleep(600)
"""


async def run(lab: Lab) -> Result:
    """Two sessions in stores of their own take turns; the takeover comes last."""
    rounds = lab.pick(100, 30)
    lab.say(f"checkpoints at {LONG:,} and at {SHORT} messages, {rounds} of each in turns")
    with (
        long_session(lab.directory / "long", LONG) as old,
        long_session(lab.directory / "short", SHORT) as young,
        old.run(lease=3600) as old_run,
        young.run(lease=3600) as young_run,
    ):
        times, written = checkpoints({"long": old_run, "short": young_run}, rounds)
        lab.say("resume() and messages(), in turns")
        reads = take_turns_sync(
            {
                "resume long": old.resume,
                "messages long": old.messages,
                "resume short": young.resume,
                "messages short": young.messages,
            },
            lab.pick(20, 10),
        )
    lab.say("kill -9 of a worker, and the next one")
    takeovers = [takeover(lab.directory / "kill.db", number) for number in range(lab.pick(15, 5))]
    details: dict[str, Any] = {
        "us": {name: found.median(name) * 1e6 for found in (times, reads) for name in found},
        "checkpoint_bytes": {name: mean(values) for name, values in written.items()},
        "takeover_ms": {"median": median(takeovers) * 1e3, "worst": max(takeovers) * 1e3},
    }
    return Result(rows(times, written, reads, takeovers), details)


def rows(times: Samples, written: Samples, reads: Samples, takeovers: list[float]) -> list[Row]:
    slow, fast = times.median("long"), times.median("short")
    more, less = mean(written["long"]), mean(written["short"])
    found = [
        Row(f"run.checkpoint at {LONG:,}", ms(slow), f"clew at {SHORT}: {ms(fast)}", slow / fast, FACTOR),
        Row("run.checkpoint, bytes written", size(more), f"clew: {size(less)}", more / less, FACTOR),
    ]
    for name, count in (("long", LONG), ("short", SHORT)):
        resumed, read = reads.median(f"resume {name}"), reads.median(f"messages {name}")
        found.append(
            Row(f"resume() at {count:,}", ms(resumed), f"clew, messages(): {ms(read)}", resumed / read)
        )
    took = median(takeovers)
    found.append(Row("from kill -9 to the next run", ms(took), f"its lease: {ms(LEASE)}", took / LEASE))
    return found


def checkpoints(runs: dict[str, Run], rounds: int) -> tuple[Samples, Samples]:
    """Seconds and bytes of a checkpoint."""
    times, written = Samples(), Samples()
    with steady():
        for number in range(rounds):
            for name in runs if number % 2 else reversed(runs):
                before, started = bytes_written(), time.perf_counter()
                runs[name].checkpoint(iteration=number, state=STATE, system_prompt="You fix bugs.")
                times.add(name, time.perf_counter() - started)
                written.add(name, bytes_written() - before)
    return times, written


def takeover(path: Path, number: int) -> float:
    """Seconds from the kill of a worker that holds a lease to the moment at which another one has it."""
    name = f"{SESSION}-{number}"
    command = [sys.executable, "-c", HOLDER, str(path), name, str(LEASE)]
    holder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        with clew.open(str(path)) as store:
            session = store.session(name)
            started = time.perf_counter()
            os.kill(holder.pid, signal.SIGKILL)
            with session.run(wait=LEASE):
                return time.perf_counter() - started
    finally:
        holder.kill()
        holder.communicate()


def mean(values: list[float]) -> float:
    """The mean: the bytes of a write-ahead log come back at its checkpoints, not in every call."""
    return sum(values) / len(values)


if __name__ == "__main__":
    main(run, __doc__)
