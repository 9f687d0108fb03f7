"""The first page of a store with 100,000 sessions against one with 1,000, in Python and by `clew ls`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import clew
from benchmarks.harness.measure import take_turns_sync
from benchmarks.harness.report import Result, Row, ms
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation

PAGE = 50
SHORT = 1000
TASKS = 256
"""Sessions that are made at the same time, so that they share transactions."""


async def run(lab: Lab) -> Result:
    """Every session has a title, a workspace and one message."""
    long = lab.pick(100_000, 10_000)
    for name, count in (("long", long), ("short", SHORT)):
        lab.say(f"making {count:,} sessions")
        await fill(lab.directory / f"{name}.db", count)
    with clew.open(str(lab.directory / "long.db")) as many, clew.open(str(lab.directory / "short.db")) as few:
        assert len(many.list(limit=PAGE)) == len(few.list(limit=PAGE)) == PAGE
        jobs = {"long": lambda: many.list(limit=PAGE), "short": lambda: few.list(limit=PAGE)}
        times = take_turns_sync(jobs, 200)
    slow, fast = times.median("long"), times.median("short")
    row = Row(
        f"first {PAGE} of {long:,} sessions", ms(slow), f"clew, of {SHORT:,}: {ms(fast)}", slow / fast, 2.0
    )
    places = {name: lab.directory / f"{name}.db" for name in jobs}
    commands = take_turns_sync({name: partial(ls, place) for name, place in places.items()}, 9)
    slow, fast = commands.median("long"), commands.median("short")
    command = Row(f"clew ls of {long:,} sessions", ms(slow), f"of {SHORT:,}: {ms(fast)}", slow / fast, 2.0)
    return Result([row, command], {name: times.median(name) * 1e6 for name in times})


def ls(path: Path) -> None:
    """The command as a process of its own, its start included."""
    command = [sys.executable, "-m", "clew", "--store", str(path), "ls"]
    subprocess.run(command, check=True, capture_output=True)


async def fill(path: Path, count: int) -> None:
    """Make the sessions through the public door, many at a time."""
    talk = Conversation("listing")
    messages = [talk.small() for _ in range(64)]
    numbers = iter(range(count))
    async with clew.open_async(str(path)) as store:

        async def worker() -> None:
            for number in numbers:
                session = await store.session(
                    f"chat-{number}", title=f"Chat {number}", workspace=f"/w/{number % 40}"
                )
                await session.append(messages[number % 64])

        await asyncio.gather(*(worker() for _ in range(TASKS)))


if __name__ == "__main__":
    main(run, __doc__)
