"""kill -9 of the watcher, again and again, while agents write: each message is there once, in its order."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import clew
from clew.importers.follow.lease import Following, HeldError, Lease
from clew.importers.follow.watcher import Watcher
from clew.importers.sync import Sync
from tests.faults.campaign import Result
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.support.agents import Chatter, ClaudeCode, Codex, OpenCode, Pi, agents_in, differences, said_in
from tests.support.children import Child

LOOK: Final = 10
"""After so many kills, what is there is compared with what was written."""


def kill_watchers(
    subject: Subject,
    *,
    cycles: int,
    seed: int,
    agents: int = 6,
    longest: float = 0.3,
    pause: float = 0.02,
    patience: float = 20.0,
    planted: str = "",
) -> Result:
    """Kill a watcher at a random instant, up to `longest` seconds after its start, and start the next one.

    Args:
        agents: So many write all the time, a line every `pause` seconds each.
        patience: Seconds until the last watcher has brought everything.
        planted: A bug of `plants` for the watchers to have; the campaign ends when it is found.
    """
    wait = random.Random(seed).uniform
    result = Result()
    home = Path(f"{subject.place}-home")
    home.mkdir(parents=True)
    writers = agents_in(home, agents, seed, (ClaudeCode, Codex, Pi, OpenCode))
    _live_in(home)
    with subject.open() as store:  # a fork need not import what is imported here
        Sync(lambda *, writes: store, None).all()
    with Chatter(writers, pause):
        for cycle in range(cycles):
            watcher = Child(_watch, subject.url, planted)
            heard = [watcher.hear()] if cycle % 2 else []  # the first pass is behind it
            time.sleep(wait(0.001, longest))
            watcher.kill()
            heard += watcher.hear_all()
            result.saw("killed while it followed" if heard else "killed in or before its first pass")
            result.found(f"cycle {cycle}", [str(one) for one in heard if one != "first"])
            watcher.wait()
            result.cycles += 1
            if cycle % LOOK == LOOK - 1:
                subject.settle()
                result.found(f"cycle {cycle}", _wrong(subject, writers, is_all=False))
            if result.wrong:
                break
        last = Child(_watch, subject.url, planted)
        first = last.hear()
        if first != "first":
            result.found("the last one", [str(first)])
        time.sleep(0.5)
    end = time.monotonic() + patience
    while (wrong := _wrong(subject, writers, is_all=True)) and time.monotonic() < end:
        time.sleep(0.2)
    last.kill()
    last.wait()
    subject.settle()
    result.found("the end", wrong)
    with subject.open() as store:
        report = store.verify()
        result.found("verify", [] if report.ok else [str(report)])
    result.found("the end", subject.check())
    result.acknowledged = sum(len(texts) for writer in writers for texts in writer.said.values())
    result.saw("sessions", sum(len(writer.said) for writer in writers))
    return result


def _wrong(subject: Subject, writers: Any, *, is_all: bool) -> list[str]:
    with subject.open() as store:
        found = said_in(store)
    return differences(writers, found, is_all=is_all)


def _live_in(home: Path) -> None:
    """This process, and those that it starts, find agents only there."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    os.environ.update(HOME=str(home), XDG_STATE_HOME=str(home / ".local" / "state"))


def _watch(tell: Callable[[Any], None], url: str, planted: str) -> None:
    plant(planted)
    try:
        lease = Lease(url)
    except HeldError:
        tell("the lease of a killed watcher is held")
        return
    with clew.open(url) as store:
        is_first = True

        def report(_: object) -> None:
            nonlocal is_first
            if is_first:
                tell("first")
            is_first = False

        sync = Sync(lambda *, writes: store, None)
        following = Following(pid=os.getpid(), since=time.time(), store=url)
        Watcher(store, sync, following=following, on_report=report, on_state=lease.tell).run()
