"""How long does an import take, beside plain JSON decoding of the same file?

Two synthetic Claude Code sessions: one of talk, whose lines are short, and one as agents write them, with
files read and commands run (their output stands in the line twice, as it does there). Processor time and time
of the clock are told apart: the clock also waits for the disk, and for whoever else uses the machine.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import clew
from benchmarks.report import Result, Row, ms, size
from benchmarks.script import Lab, main

FACTOR = 3.0
ROUNDS = 3
SESSION = "0b1c2d3e-0000-4000-8000-000000000000"
WORDS = (
    "the", "of", "and", "function", "returns", "import", "error", "test", "fix", "path", "value", "list",
)  # fmt: skip


async def run(lab: Lab) -> Result:
    megabytes = lab.pick(100, 10)
    rows: list[Row] = []
    details: dict[str, Any] = {}
    for name, output in (("as agents write", 900), ("short lines", 40)):
        path = lab.directory / name.replace(" ", "-") / f"{SESSION}.jsonl"
        path.parent.mkdir()
        count = write(path, megabytes * 1_000_000, output)
        found = measure(lab, path)
        details[name] = {"lines": count, "bytes": path.stat().st_size, **found}
        rows += rows_of(name, path.stat().st_size, found)
        path.unlink()
    return Result(rows, details)


def measure(lab: Lab, path: Path) -> dict[str, tuple[float, float]]:
    """(processor, clock) of each job, the best of a few rounds."""
    lab.say(f"{path.parent.name}: {size(path.stat().st_size)}")
    store = lab.directory / "store.db"
    jobs: dict[str, Callable[[], object]] = {
        "json": lambda: decode(path),
        "import": lambda: bring(path, store),
        "again": lambda: bring(path, store),
    }
    found: dict[str, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for file in lab.directory.glob("store.db*"):
            file.unlink()
        for name, job in jobs.items():
            clock, cpu = time.perf_counter(), time.process_time()
            job()
            took = time.process_time() - cpu, time.perf_counter() - clock
            found[name] = min(found.get(name, took), took)
    return found


def rows_of(name: str, bytes: int, found: dict[str, tuple[float, float]]) -> Iterator[Row]:
    plain, plain_clock = found["json"]
    labels = {"import": "import", "again": "import again, unchanged"}
    for job, label in labels.items():
        cpu, clock = found[job]
        speed = f"{bytes / clock / 1e6:.0f} MB/s"
        work = f"{label}, {name}, processor"
        yield Row(work, f"{ms(cpu)}, {speed}", f"json.loads: {ms(plain)}", cpu / plain, FACTOR)
    cpu, clock = found["import"]
    yield Row(
        f"import, {name}, clock", ms(clock), f"json.loads: {ms(plain_clock)}", clock / plain_clock, FACTOR
    )


def decode(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def bring(path: Path, store: Path) -> None:
    with clew.open(store) as opened:
        report = opened.import_path(path)
        assert report.ok


def write(path: Path, bytes: int, output: int) -> int:
    """A session of at least so many bytes; how many lines."""
    words = random.Random(7)
    count, written, last = 0, 0, None
    with path.open("w") as file:
        for turn in range(10**9):
            for record in records(turn, words, output):
                uuid = f"{count:08x}-0000-4000-8000-{count:012x}"
                common = {"parentUuid": last, "uuid": uuid, "timestamp": moment(count)}
                written += file.write(json.dumps({**common, **COMMON, **record}) + "\n")
                count, last = count + 1, uuid
            if written >= bytes:
                return count
    return count


COMMON = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "/home/me/project",
    "sessionId": SESSION,
    "version": "2.1.63",
    "gitBranch": "main",
}


def records(turn: int, words: random.Random, output: int) -> Iterator[dict[str, Any]]:
    """One prompt and what an agent does for it: an answer is two records, a result one."""
    yield {"type": "user", "message": {"role": "user", "content": text(words, 30)}}
    for step in range(4):
        call = f"toolu_{turn}_{step}"
        said = {"type": "text", "text": text(words, 40)}
        asked = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "/home/me/a.py"}}
        for block in (said, asked):
            yield {
                "type": "assistant",
                "requestId": f"req_{turn}_{step}",
                "message": answer(f"msg_{turn}_{step}", block),
            }
        result = text(words, words.randrange(output * 2) + 1)
        block = {"type": "tool_result", "tool_use_id": call, "content": result}
        file = {"filePath": "/home/me/a.py", "content": result, "numLines": 20}
        yield {
            "type": "user",
            "message": {"role": "user", "content": [block]},
            "toolUseResult": {"type": "text", "file": file},
        }


def answer(id: str, block: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 200, "output_tokens": 300}
    return {"id": id, "role": "assistant", "model": "claude-x", "content": [block], "usage": usage}


def text(words: random.Random, count: int) -> str:
    return " ".join(words.choices(WORDS, k=count))


def moment(number: int) -> str:
    minutes, seconds = divmod(number, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2025-06-{hours // 24 % 30 + 1:02d}T{hours % 24:02d}:{minutes:02d}:{seconds:02d}.250Z"


if __name__ == "__main__":
    main(run, __doc__)
