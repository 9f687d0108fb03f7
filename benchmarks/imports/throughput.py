"""How long does an import take, beside plain JSON decoding of the same file?

Synthetic sessions (`import_files`): as agents write them, with files read and commands run, and, for Claude
Code, one of talk, whose lines are short. Processor time and time of the clock are told apart: the clock also
waits for the disk, and for whoever else uses the machine.

A limit is told beside: `written` is the time that SQLite alone takes for the rows of the import, given to
it as they are, and `read` that of the fastest decoder. What is above their sum is our work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import msgspec

import clew
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.imports.files import FORMATS, write

FACTOR = 3.0
REDACTION = 1.1
"""How much longer an import may take because it looks for secrets."""
ROUNDS = 3
AGENTS, TALK = 900, 40
"""Words in the result of a tool."""
SESSIONS = (
    ("as agents write", "Claude Code", AGENTS, 100),
    ("short lines", "Claude Code", TALK, 100),
    ("Codex", "Codex", AGENTS, 30),
    ("Gemini CLI", "Gemini CLI", AGENTS, 30),
    ("pi", "pi", AGENTS, 30),
)
"""A name, whose session it is, the words in a result, and megabytes."""
TABLES = ("entries", "records", "events", "usage")


async def run(lab: Lab) -> Result:
    rows: list[Row] = []
    details: dict[str, Any] = {}
    for name, format, output, megabytes in SESSIONS:
        file, records = FORMATS[format]
        path = lab.directory / name.replace(" ", "-") / file
        path.parent.mkdir()
        count = write(path, records(output), lab.pick(megabytes, 10) * 1_000_000)
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
        "open": lambda: bring(path, lab.directory / "open.db", redact=False),
        "read": lambda: decode_fast(path),
        "written": lambda: copy_rows(store, lab.directory / "copy.db"),
    }
    found: dict[str, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for name in ("store", "open", "copy"):
            for file in lab.directory.glob(f"{name}.db*"):
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
    bare, _ = found["open"]
    yield Row(f"import, {name}, beside one that leaves secrets", ms(cpu), ms(bare), cpu / bare, REDACTION)
    limit = found["read"][0] + found["written"][0]
    yield Row(f"import, {name}, beside reading and writing alone", ms(cpu), ms(limit), cpu / limit)


def decode(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def decode_fast(path: Path) -> None:
    decoder = msgspec.json.Decoder()
    with path.open("rb") as file:
        for line in file:
            decoder.decode(line)


def copy_rows(store: Path, copy: Path) -> None:
    """The rows of a store into a new one, table by table, a thousand in a transaction."""
    clew.open(copy).close()
    source, target = apsw.Connection(str(store)), apsw.Connection(str(copy))
    try:
        for table in TABLES:
            marks = ", ".join("?" * len(list(source.execute(f"PRAGMA table_info({table})"))))
            rows = source.execute(f"SELECT * FROM {table}")  # noqa: S608 (a constant of this file)
            while part := list(islice(rows, 1000)):
                with target:
                    target.executemany(f"INSERT INTO {table} VALUES ({marks})", part)  # noqa: S608
    finally:
        source.close()
        target.close()


def bring(path: Path, store: Path, *, redact: bool | None = None) -> None:
    with clew.open(store) as opened:
        report = opened.import_path(path, redact=redact)
        assert report.ok


if __name__ == "__main__":
    main(run, __doc__)
