"""`import clew`, opening a store that exists, and what resuming a 1 GB session adds to memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.build import long_session
from benchmarks.harness.measure import ROOT, Samples, take_turns_sync
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import TURN_BYTES

ROUNDS = 20
MIB = 1 << 20

OPEN = """
import time, clew, msgspec, sys
start = time.perf_counter()
store = clew.open(sys.argv[1])
opened = time.perf_counter()
found = len(store.session("talk").messages(last=20))
ready = time.perf_counter()
print(msgspec.json.encode({"open": opened - start, "last 20": ready - opened, "found": found}).decode())
"""

RESUME = """
import clew, msgspec, re, sys, pathlib
def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
before = memory("VmRSS")
session = clew.open(sys.argv[1]).session("talk")
context, last = session.context(max_messages=50), session.messages(last=20)
found = {"before": before, "peak": memory("VmHWM"), "found": len(context) + len(last)}
print(msgspec.json.encode(found).decode())
"""


async def run(lab: Lab) -> Result:
    """Fresh interpreters, one after the other in turns."""
    lab.say(f"import, {ROUNDS} fresh interpreters")
    imports = import_times()
    bare, full = imports.median("bare"), imports.median("clew")
    goal = lab.pick(1_000_000_000, 100_000_000)
    messages = goal * len(TURN_BYTES) // sum(TURN_BYTES) // 4 * 4
    lab.say(f"building a session of {size(goal)} ({messages:,} messages)")
    with long_session(lab.directory / "big", messages):
        pass
    store = lab.directory / "big" / "clew.db"
    lab.say("opening and resuming it")
    child(OPEN, store)
    opens = Samples()
    for _ in range(ROUNDS):
        for name, value in child(OPEN, store).items():
            opens.add(name, value)
    resumed = child(RESUME, store)
    opened, added = opens.median("open"), resumed["peak"] - resumed["before"]
    rows = [
        Row("import clew; clew.open", ms(full - bare), "60 ms", (full - bare) / 0.060, 1.0),
        Row("open an existing store", ms(opened), "5 ms", opened / 0.005, 1.0),
        Row(f"resume a session of {size(goal)}: memory", size(added), "64 MiB", added / (64 * MIB), 1.0),
    ]
    details = {
        "import_ms": {"bare": bare * 1e3, "clew": full * 1e3},
        "first_calls_ms": {name: opens.median(name) * 1e3 for name in ("open", "last 20")},
        "resume": resumed,
        "store_bytes": store.stat().st_size,
    }
    return Result(rows, details)


def environment() -> dict[str, str]:
    """This one, but with compiled modules kept, as they are wherever Clew was installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def import_times() -> Samples:
    """Seconds of an interpreter that imports Clew and what it takes to open a store, and of a bare one."""

    def python(program: str) -> None:
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment(), check=True)

    used = "import clew; clew.open"  # names are loaded with their first use
    python(used)
    return take_turns_sync({"bare": lambda: python("pass"), "clew": lambda: python(used)}, ROUNDS)


def child(program: str, store: Path) -> dict[str, Any]:
    """What the program says about the store, in a fresh interpreter."""
    command = [sys.executable, "-c", program, str(store)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True)
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


if __name__ == "__main__":
    main(run, __doc__)
