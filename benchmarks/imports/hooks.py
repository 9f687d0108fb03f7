"""What does a hook add to a turn of an agent?

An agent starts the hook, gives it a turn's end of 2 KB on its standard input, and waits until it has ended
and closed its outputs. The script is run so with and without a watcher, beside an empty shell and an
interpreter of Python that does nothing, which is the least that a hook in Python costs. All take turns. The
word is written in the background, after the agent has gone on; how long that takes is timed, too: from the
start of the hook until the watcher has read the file. Beside the time of the clock stands the processor time
that the agent waited for, which other programs on the machine disturb less.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.measure import Samples, shuffled
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import HERE, Lab, main
from clew.core.directory_watch import Inotify
from clew.importers.hooks.scripts import shell_script
from clew.importers.wake import listening, read_wakes

ROUNDS = 200
TARGET = 0.005
"""Seconds that a hook may add to a turn."""
SAID = {
    "session_id": "0151d3cb-0b10-4a3d-a7d4-6671ec1f4a42",
    "transcript_path": "/home/ana/.claude/projects/-home-ana-shop/0151d3cb-0b10-4a3d-a7d4-6671ec1f4a42.jsonl",
    "cwd": "/home/ana/shop",
    "permission_mode": "default",
    "hook_event_name": "Stop",
    "stop_hook_active": False,
    "last_assistant_message": "It works now. " * 120,
}
INPUT = json.dumps(SAID).encode()


async def run(lab: Lab) -> Result:
    hooks = {name: _script(lab.directory / name) for name in ("no watcher", "a watcher")}
    with listening(lab.directory / "a watcher" / "clew" / "wake") as place:
        jobs: dict[str, Callable[[], None]] = {
            "sh -c :": lambda: _hook(["/bin/sh", "-c", ":"], lab.directory),
            "hook, no watcher": lambda: _hook([str(hooks["no watcher"])], lab.directory / "no watcher"),
            "hook, a watcher": lambda: _hook([str(hooks["a watcher"])], lab.directory / "a watcher"),
            "python -c pass": lambda: _hook([sys.executable, "-c", "pass"], lab.directory),
        }
        samples, words, processor = Samples(), Samples(), Samples()
        queue = Inotify()
        directory = os.open(place, os.O_RDONLY)
        queue.add(directory)
        for number in range(-1, lab.pick(ROUNDS, 10)):  # the first round warms up
            for name in shuffled(jobs, number):
                start, before = time.perf_counter(), _processor()
                jobs[name]()
                took, used = time.perf_counter() - start, _processor() - before
                if name == "hook, a watcher":
                    _wait(queue, place)
                    words.add("word", time.perf_counter() - start)
                if number >= 0:
                    samples.add(name, took)
                    processor.add(name, used)
        queue.close()
        os.close(directory)
    return Result(_rows(samples, words, processor), _numbers(samples, words, processor))


def _script(home: Path) -> Path:
    home.mkdir()
    script = home / "hook.sh"
    script.write_text(shell_script("claude-code", [], files=False))
    script.chmod(0o700)
    return script


def _hook(command: list[str], home: Path) -> None:
    """As an agent runs it."""
    environment = {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.environ.get("PYTHONPATH", str(HERE.parent / "src")),
    }
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    process.communicate(INPUT)


def _processor() -> float:
    """Seconds of processes that ended, and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait(queue: Inotify, place: Path) -> None:
    while not read_wakes(place, {}):
        select.select([queue.fd], [], [], 1)
        list(queue.read())


def _rows(samples: Samples, words: Samples, processor: Samples) -> list[Row]:
    empty, python = samples.median("sh -c :"), samples.median("python -c pass")
    rows = []
    for name in ("hook, no watcher", "hook, a watcher"):
        took = samples.median(name)
        used = f"{ms(processor.median(name))} processor; empty shell {ms(empty)}, python {ms(python)}"
        rows.append(Row(name, ms(took), f"{ms(TARGET)}; {used}", took / TARGET, 1.0))
    return [*rows, Row("hook, until the watcher has the word", ms(words.median("word")), "", 1.0)]


def _numbers(samples: Samples, words: Samples, processor: Samples) -> dict[str, dict[str, float]]:
    numbers = {}
    for name, found in {**samples, **words}.items():
        in_order = sorted(found)
        numbers[name] = {
            "fastest_ms": in_order[0] * 1e3,
            "median_ms": in_order[len(found) // 2] * 1e3,
            "p95_ms": in_order[int(len(found) * 0.95)] * 1e3,
        }
        if name in processor:
            numbers[name]["processor_ms"] = processor.median(name) * 1e3
    return numbers


if __name__ == "__main__":
    main(run, __doc__)
