"""What does it cost to keep up with agents: an archive in which nothing happens, and one line more?

Counts first, as they do not depend on the machine: bytes read of the files (by strace), commits, changes.
Then processor time, with what it has to stay below. Beside them ccusage, which reads the same files anew each
time, if npm can install it, and what agentsview's users report of it, as text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import clew
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.imports.files import claude_code, write
from clew.backends.contract import Transaction
from clew.core.engine.engine import Engine
from clew.importers.run import Place
from clew.importers.sync import Sync

UNCHANGED: Final = 0.150
APPENDED: Final = 0.005
"""Seconds of the processor."""
ROUNDS: Final = 5
AGENTS: Final = 20
CCUSAGE: Final = "20.0.24"
REPORTED: Final = (
    "agentsview, as its users report: an idle daemon takes one core and reads 46 TiB in 6.5 days over 14,500"
    " sessions (kenn-io/agentsview#1820), 30 s of sync every 2 minutes (#1032), 1.5 to 9.3 GB of memory"
    " (#1022)"
)
_CHILD: Final = """
import sys
import clew
from clew.importers.run import Place
from clew.importers.sync import Sync

with clew.open(sys.argv[1]) as store:
    Sync(lambda **_: store, [Place(sys.argv[2], "claude-code")]).all()
"""
_READ: Final = re.compile(r"(?:read|pread64|readv|preadv)\(\d+<([^>]*)>.*= (\d+)$")


async def run(lab: Lab) -> Result:
    details: dict[str, Any] = {"peers": REPORTED}
    rows = [
        *unchanged(lab, details, lab.pick(10_000, 1_000)),
        *appended(lab, details, lab.pick(100, 10)),
        *storm(lab, details),
    ]
    return Result(rows, details)


# -- an archive in which nothing happens


def unchanged(lab: Lab, details: dict[str, Any], count: int) -> Iterator[Row]:
    lab.say(f"an archive of {count:,} files")
    home = lab.directory / "archive"
    projects = home / ".claude" / "projects"
    for number in range(count):
        small_session(projects / f"p{number % 100}", number)
    time.sleep(2.1)  # files that were just written are looked at once more
    address = lab.directory / "archive.db"
    with clew.open(address, durability="process") as store:
        first, _ = timed(lambda: syncing(store, projects).all())
    details["archive, first"] = first
    with clew.open(address) as store:
        sync = syncing(store, projects)
        with changes() as made:
            found = [timed(sync.all)[0] for _ in range(ROUNDS)]
        cold = [timed(syncing(store, projects).all)[0] for _ in range(ROUNDS)]
    read = bytes_read(lab, address, projects)
    best, best_cold = min(found)[0], min(cold)[0]
    limit = UNCHANGED * count / 10_000
    details["archive, again"] = {"warm": found, "cold": cold, "commits": len(made), "read": read}
    yield Row(f"{count:,} files unchanged: bytes read", size(read), "0 B", read, 0)
    yield Row(f"{count:,} files unchanged: changes", str(sum(made)), "0", sum(made), 0)
    yield Row(f"{count:,} files unchanged: processor", ms(best), ms(limit), best / limit, 1)
    yield Row(f"{count:,} files unchanged, new object", ms(best_cold), ms(limit), best_cold / limit, 1)
    peer = ccusage(lab, home)
    if peer is not None:
        clock = min(one[1] for one in found)
        yield Row(f"{count:,} files unchanged: clock", ms(clock), f"ccusage {ms(peer)}", clock / peer)


def small_session(folder: Path, number: int) -> None:
    name = f"{number:08x}-0000-4000-8000-000000000000"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.jsonl").open("w") as file:
        for place, (role, text) in enumerate([("user", "What is it?"), ("assistant", "It is a door.")]):
            message: dict[str, Any] = {"role": role, "content": text}
            if role == "assistant":
                usage = {"input_tokens": 12, "output_tokens": 6}
                message |= {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "usage": usage}
            record = {
                "type": role,
                "uuid": f"{number}-{place}",
                "parentUuid": f"{number}-{place - 1}" if place else None,
                "sessionId": name,
                "timestamp": f"2026-01-{1 + number % 28:02d}T00:00:{place:02d}Z",
                "message": message,
            }
            file.write(json.dumps(record) + "\n")


# -- one line more


def appended(lab: Lab, details: dict[str, Any], megabytes: int) -> Iterator[Row]:
    lab.say(f"a line behind {megabytes} MB")
    projects = lab.directory / "large" / ".claude" / "projects"
    path = projects / "p" / "0b1c2d3e-0000-4000-8000-000000000000.jsonl"
    path.parent.mkdir(parents=True)
    records = claude_code(900)
    write(path, records, megabytes * 1_000_000)
    address = lab.directory / "large.db"
    with clew.open(address) as store:
        sync = syncing(store, projects)
        (whole, _), _ = timed(sync.all)
        grow(path, records)
        sync.some([path])
        warm, cold, commits = [], [], []
        for _ in range(4 * ROUNDS):
            grow(path, records)
            with changes() as made:
                warm.append(timed(lambda: sync.some([path]))[0])
            commits.append(len(made))
        for _ in range(ROUNDS):
            grow(path, records)
            cold.append(timed(syncing(store, projects).all)[0])
    grow(path, records)
    read = bytes_read(lab, address, projects)
    best = sorted(one[0] for one in warm)[len(warm) // 2]
    best_cold = sorted(one[0] for one in cold)[len(cold) // 2]
    details["a line"] = {
        "first": whole, "warm": warm, "cold": cold, "commits": commits, "read by a new process": read
    }  # fmt: skip
    yield Row(f"a line behind {megabytes} MB: commits", str(max(commits)), "1", max(commits), 1)
    yield Row(f"a line behind {megabytes} MB: read, new process", size(read), "1 MB", read / 1e6, 1)
    yield Row(f"a line behind {megabytes} MB: processor", ms(best), ms(APPENDED), best / APPENDED, 1)
    peer_of_cold = f"whole file {ms(whole)}"
    yield Row(f"a line behind {megabytes} MB: new object", ms(best_cold), peer_of_cold, best_cold / whole)
    peer = ccusage(lab, lab.directory / "large")
    if peer is not None:
        clock = sorted(one[1] for one in warm)[len(warm) // 2]
        yield Row(f"a line behind {megabytes} MB: clock", ms(clock), f"ccusage {ms(peer)}", clock / peer)


def grow(path: Path, records: Iterator[dict[str, Any]]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(next(records)) + "\n")


# -- a storm


def storm(lab: Lab, details: dict[str, Any]) -> Iterator[Row]:
    """Each of some agents writes a line, and one pass brings all of them."""
    lab.say(f"{AGENTS} agents at once")
    projects = lab.directory / "storm" / ".claude" / "projects"
    talks = []
    for number in range(AGENTS):
        path = projects / "p" / f"{number:08x}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        records = (
            {
                **record,
                "sessionId": path.stem,
                "uuid": f"{number}-{record['uuid']}",
                "parentUuid": record["parentUuid"] and f"{number}-{record['parentUuid']}",
            }
            for number, record in zip(repeat(number), claude_code(200), strict=False)
        )
        write(path, records, 200_000)
        talks.append((path, records))
    with clew.open(lab.directory / "storm.db") as store:
        sync = syncing(store, projects)
        sync.all()
        took = []
        for _ in range(ROUNDS):
            for path, records in talks:
                grow(path, records)
            (cpu, _), report = timed(lambda: sync.some([path for path, _ in talks]))
            assert report.entries >= AGENTS, report.entries
            took.append(cpu / AGENTS)
    details["storm"] = took
    best = sorted(took)[len(took) // 2]
    yield Row(f"{AGENTS} agents write a line: each", ms(best), ms(APPENDED), best / APPENDED, 1)


# -- measuring


def syncing(store: clew.Store, place: Path) -> Sync:
    return Sync(lambda **_: store, [Place(place, "claude-code")])


def timed(work: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """(processor, clock), and what came of it."""
    cpu, clock = time.process_time(), time.perf_counter()
    found = work()
    return (time.process_time() - cpu, time.perf_counter() - clock), found


@contextmanager
def changes() -> Iterator[list[int]]:
    """How many changes each commit made."""
    found: list[int] = []
    original = Engine.run

    def counted(self: Engine, work: Callable[[Transaction], Any]) -> Any:
        made: list[int] = []

        def noted(tx: Transaction) -> Any:
            before = tx.writes
            answer = work(tx)
            made.append(tx.writes - before)
            return answer

        answer = original(self, noted)
        found.append(made[-1])
        return answer

    Engine.run = counted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Engine.run = original  # type: ignore[method-assign]


def bytes_read(lab: Lab, address: Path, place: Path) -> int:
    """Of the files below a place, by a process that syncs once."""
    if shutil.which("strace") is None:
        lab.say("there is no strace: bytes are not counted")
        return 0
    told = lab.directory / "strace.txt"
    calls = "trace=read,pread64,readv,preadv"
    command = ["strace", "-f", "-y", "-e", calls, "-o", str(told), sys.executable, "-c", _CHILD]
    subprocess.run([*command, str(address), str(place)], check=True)
    found = 0
    with told.open(errors="replace") as lines:
        for line in lines:
            match = _READ.search(line)
            if match is not None and match[1].startswith(str(place)):
                found += int(match[2])
    return found


def ccusage(lab: Lab, home: Path) -> float | None:
    """How long ccusage takes for all files of a home directory; None: it cannot be run here."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = caches / "clew-tests" / f"ccusage-{CCUSAGE}"  # where the tests install it
    program = place / "node_modules" / ".bin" / "ccusage"
    if not program.exists() and shutil.which("npm") is not None:
        place.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), f"ccusage@{CCUSAGE}"]
        subprocess.run(install, capture_output=True, check=False, timeout=240)
    if not program.exists():
        lab.say("ccusage cannot be installed: no peer")
        return None
    env = {**os.environ, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "LOG_LEVEL": "0"}
    took = []
    for _ in range(3):
        before = time.perf_counter()
        done = subprocess.run(
            [str(program), "session", "--json", "--offline"], env=env, capture_output=True, check=False
        )
        if done.returncode:
            lab.say(f"ccusage failed: {done.stderr[-200:]!r}")
            return None
        took.append(time.perf_counter() - before)
    return min(took)


if __name__ == "__main__":
    main(run, __doc__)
