"""What does it cost to follow the agents of a machine, and how soon can be read what they wrote?

`clew watch` runs as a process of its own, in a home directory with many sessions of Claude Code. First no
agent writes: what it does then is counted in processor time, bytes and writes to the store. Then single
lines are written, and another process, this one, waits until it can read each of them. Then 20 agents write
at once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import clew
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main

FILES = 1_000
LINES = 100
AGENTS = 20
IDLE = 60
STORM = 10
LATENCY = 0.3
MEMORY = 60e6
PATIENCE = 120.0


class Agent:
    """Claude Code, as far as its files go."""

    def __init__(self, home: Path, number: int) -> None:
        self.session = f"{number:08x}-0000-4000-8000-000000000000"
        folder = home / ".claude" / "projects" / f"-work-{number % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.session}.jsonl"
        self.lines = self.bytes = 0
        self._last: str | None = None

    def say(self) -> None:
        uuid = f"{self.lines:08x}-{self.session[9:]}"
        role = "assistant" if self.lines % 2 else "user"
        text = f"{self.lines}: " + "some words about the work " * 20
        record = {
            "parentUuid": self._last, "isSidechain": False, "userType": "external", "cwd": "/work",
            "sessionId": self.session, "version": "2.1.0", "type": role, "uuid": uuid,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "message": {"role": role, "content": text},
        }  # fmt: skip
        with self.path.open("ab") as file:
            self.bytes += file.write(json.dumps(record).encode() + b"\n")
        self.lines, self._last = self.lines + 1, uuid


class Usage(NamedTuple):
    """What a process used so far."""

    ticks: int
    read: int
    written: int
    memory: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        place = Path("/proc") / str(pid)
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        io = dict(line.split(": ") for line in (place / "io").read_text().splitlines())
        pages = int((place / "statm").read_text().split()[1])
        ticks = int(fields[11]) + int(fields[12])
        return cls(ticks, int(io["rchar"]), int(io["wchar"]), pages * os.sysconf("SC_PAGE_SIZE"))


async def run(lab: Lab) -> Result:
    home, store = lab.directory / "home", lab.directory / "s.db"
    lab.say(f"{lab.pick(FILES, FILES // 10):,} sessions of 20 messages")
    agents = [Agent(home, number) for number in range(lab.pick(FILES, FILES // 10))]
    for agent in agents:
        for _ in range(20):
            agent.say()
    result = Result()
    with watching(home, store) as pid:
        wait_for(store, agents)
        result.rows += idle(lab, pid, store)
        result.rows += latency(lab, pid, store, agents)
        result.rows += storm(lab, pid, store, [Agent(home, 100_000 + number) for number in range(AGENTS)])
    return result


@contextmanager
def watching(home: Path, store: Path) -> Iterator[int]:
    outside = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CLEW_STORE")
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    command = [sys.executable, "-m", "clew", "--store", str(store), "watch", "--quiet"]
    with subprocess.Popen(command, env={**environment, "HOME": str(home)}) as process:
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def wait_for(store: Path, agents: list[Agent]) -> None:
    """Until everything is there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if store.exists() and store.stat().st_size:
            with clew.open(store) as opened:
                found = {info.id: info.messages for info in opened.list(limit=100_000)}
            if all(found.get(f"claude-code:{agent.session}") == agent.lines for agent in agents):
                return
        time.sleep(0.1)
    raise TimeoutError("the watcher did not bring everything")


def idle(lab: Lab, pid: int, store: Path) -> Iterator[Row]:
    seconds = lab.pick(IDLE, IDLE // 6)
    lab.say(f"{seconds} s in which nothing happens")
    time.sleep(2)
    before, stamp = Usage.of(pid), stamp_of(store)
    time.sleep(seconds)
    after = Usage.of(pid)
    share = (after.ticks - before.ticks) / os.sysconf("SC_CLK_TCK") / seconds
    moved = after.read - before.read + after.written - before.written
    yield Row(f"watch, idle for {seconds} s: processor", f"{share:.2%}", "0 %", share, 0.0)
    yield Row(f"watch, idle for {seconds} s: bytes read and written", size(moved), "0 B", moved, 0.0)
    yield Row(
        "watch, idle: the store is written to",
        str(stamp != stamp_of(store)),
        "False",
        stamp != stamp_of(store),
        0.0,
    )
    yield Row("watch, idle: memory", size(after.memory), size(MEMORY), after.memory / MEMORY, 1.0)


def stamp_of(store: Path) -> list[tuple[int, int]]:
    """Whether one of its files was written to."""
    files = [store, store.with_name(f"{store.name}-wal")]
    return [(file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()]


def latency(lab: Lab, pid: int, store: Path, agents: list[Agent]) -> Iterator[Row]:
    count = lab.pick(LINES, LINES // 5)
    lab.say(f"{count} lines, one by one")
    before = Usage.of(pid)
    took = say(store, agents, count)
    after = Usage.of(pid)
    p50, p95 = median(took), quantiles(took, n=20)[-1]
    yield Row("watch: a line can be read elsewhere, p50", ms(p50), ms(LATENCY), p50 / LATENCY)
    yield Row("watch: a line can be read elsewhere, p95", ms(p95), ms(LATENCY), p95 / LATENCY, 1.0)
    used = (after.ticks - before.ticks) / os.sysconf("SC_CLK_TCK") / count
    read, written = (after.read - before.read) / count, (after.written - before.written) / count
    yield Row("watch: a line, processor", ms(used), f"{size(read)} read, {size(written)} written", 1.0)
    with syncs_of(lab.directory, pid) as syncs:  # which takes time: so apart from the others
        say(store, agents, 10)
    if syncs:
        yield Row("watch: a line, transactions", f"{syncs[0] / 10:.2f}", "1", syncs[0] / 10, 1.1)


def say(store: Path, agents: list[Agent], count: int) -> list[float]:
    """Write lines, one by one, and wait for each; how long that took."""
    chance, took = random.Random(count), []
    with clew.open(store) as opened:
        for _ in range(count):
            agent = chance.choice(agents)
            session = opened.get(agent.session)
            time.sleep(chance.uniform(0.25, 0.45))
            agent.say()
            began = time.perf_counter()
            while session.info.messages < agent.lines:
                time.sleep(0.001)
                if time.perf_counter() - began > PATIENCE:
                    raise TimeoutError("a line did not come")
            took.append(time.perf_counter() - began)
    return took


@contextmanager
def syncs_of(directory: Path, pid: int) -> Iterator[list[int]]:
    """How often a process makes what it wrote durable, while the block runs; nothing without strace."""
    found: list[int] = []
    if shutil.which("strace") is None:
        yield found
        return
    log = directory / "strace.log"
    command = ["strace", "-qq", "-f", "-e", "trace=fdatasync,fsync", "-o", str(log), "-p", str(pid)]
    with subprocess.Popen(command) as tracing:
        time.sleep(0.5)
        try:
            yield found
        finally:
            time.sleep(0.5)
            tracing.send_signal(signal.SIGINT)
    found.append(sum("sync(" in line for line in log.read_text().splitlines()))


def passes(home: Path) -> int:
    """How often the watcher looked, as it says of itself."""
    [state] = (home / ".local" / "state" / "clew").glob("watch-*.json")
    return int(json.loads(state.read_text().splitlines()[0])["passes"])


def storm(lab: Lab, pid: int, store: Path, agents: list[Agent]) -> Iterator[Row]:
    seconds = lab.pick(STORM, STORM // 3)
    lab.say(f"{AGENTS} agents write for {seconds} s")
    over, most = threading.Event(), [0]
    before, passed = Usage.of(pid), passes(store.parent / "home")

    def write(agent: Agent) -> None:
        while not over.is_set():
            agent.say()
            time.sleep(0.02)

    threads = [threading.Thread(target=write, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for _ in range(seconds * 10):
        time.sleep(0.1)
        most[0] = max(most[0], Usage.of(pid).memory)
    over.set()
    for thread in threads:
        thread.join()
    began = time.monotonic()
    wait_for(store, agents)
    lag = time.monotonic() - began
    after = Usage.of(pid)
    lines, bytes = sum(agent.lines for agent in agents), sum(agent.bytes for agent in agents)
    work = f"watch: {AGENTS} agents, {lines / seconds:,.0f} lines a second"
    yield Row(f"{work}: behind at the end", ms(lag), "1.00 s", lag, 1.0)
    yield Row(f"{work}: memory", size(most[0]), size(2 * MEMORY), most[0] / (2 * MEMORY), 1.0)
    read = after.read - before.read
    yield Row(f"{work}: bytes read", size(read), f"{size(bytes)} written by agents", read / bytes)
    made = passes(store.parent / "home") - passed
    each = lines / (made * AGENTS)  # a pass writes what is new of a session in one transaction
    yield Row(f"{work}: lines in a transaction", f"{each:.1f}", f"{made} passes", each)
    used = (after.ticks - before.ticks) / os.sysconf("SC_CLK_TCK")
    yield Row(f"{work}: processor", f"{used / seconds:.0%}", f"{ms(used / lines)} a line", used / seconds)


if __name__ == "__main__":
    main(run, __doc__)
