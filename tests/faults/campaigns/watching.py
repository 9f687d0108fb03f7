"""kill -9 of the watcher, again and again, while agents write: each message is there once, in its order."""

from __future__ import annotations

import os
import random
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import clew
from clew.core.engine.commit import Committer, Pending
from clew.importers.follow.lease import Following, HeldError, Lease
from clew.importers.follow.watcher import Watcher
from clew.importers.sync import Sync
from tests.faults.campaign import Result
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.support.agents import Agent, ClaudeCode, Codex, OpenCode, Pi, agents_in, differences, said_in
from tests.support.children import Child

DURING: Final = 3
"""At every so manyth commit of a watcher an agent writes while it is being made."""
WRITTEN: Final = 0
"""The answer to a watcher that makes a commit: the agent has written. Any other number asks whether it is at
rest."""


def kill_watchers(
    subject: Subject, *, cycles: int, seed: int, agents: int = 6, longest: int = 12, planted: str = ""
) -> Result:
    """Kill a watcher when it is about to make a commit, or has made it, and start the next one.

    Args:
        agents: So many write, line by line and now and then half a line, the last of them while commits are
            made.
        longest: A watcher lives for up to so many commits.
        planted: A bug of `plants` for the watchers to have; the campaign ends when it is found.
    """
    choose = random.Random(seed).randint
    result = Result()
    home = Path(f"{subject.place}-home")
    home.mkdir(parents=True)
    _live_in(home)
    with subject.open() as store:  # a fork need not import what is imported here
        Sync(lambda *, writes: store, None).all()
    writers = agents_in(home, agents, seed, (ClaudeCode, Codex, Pi, OpenCode))
    for cycle in range(cycles):
        watched = Watched(subject, planted, writers, result, choose(1, longest), is_after=bool(cycle % 2))
        while watched.is_alive and not result.wrong:
            watched.round()
        watched.kill()
        result.cycles += 1
        if result.wrong:
            return result
    last = Watched(subject, planted, writers, result, 0)
    for _ in range(2):
        last.round()
    last.kill()
    subject.settle()
    with subject.open() as store:
        report = store.verify()
        result.found("verify", [] if report.ok else [str(report)])
    result.found("the end", subject.check())
    result.acknowledged = sum(len(texts) for writer in writers for texts in writer.said.values())
    result.saw("sessions", sum(len(writer.said) for writer in writers))
    return result


class Watched:
    """A watcher, and the agents whose files it follows. Whenever it has nothing more to do, all that was
    written is there."""

    def __init__(
        self,
        subject: Subject,
        planted: str,
        writers: Sequence[Agent],
        result: Result,
        instant: int,
        *,
        is_after: bool = False,
    ) -> None:
        self._subject = subject
        self._writers = writers
        self._result = result
        self._word = 0
        self.is_alive = True
        ear, self._mouth = os.pipe()
        self._child = Child(_watch, ear, self._mouth, subject.url, planted, instant, is_after)
        os.close(ear)
        *self._patient, self._other = writers
        for writer in self._patient:
            writer.between = self._let_it_read
        self._other.between = lambda: None

    def round(self) -> None:
        """Let each agent but the last say something; see that it arrives."""
        for writer in self._patient:
            writer.say()
        self._let_it_read()
        if self.is_alive:
            with self._subject.open() as store:
                found = said_in(store)
            self._result.found("at rest", differences(self._writers, found, is_all=True))

    def kill(self) -> None:
        self._child.kill()
        self._child.hear_all()
        self._child.wait()
        os.close(self._mouth)

    def _let_it_read(self) -> None:
        """Until the watcher has nothing more to do, or is to be killed."""
        self._word += 1
        if self.is_alive:
            self._say()
        while self.is_alive:
            match self._child.hear():
                case ["at rest", self._word]:
                    return
                case ["at rest", _]:
                    pass
                case ["commits"]:
                    self._result.saw("written during a commit")
                    self._other.say()
                    self._word += 1  # what it says of its rest from here on counts
                    os.write(self._mouth, b"%d\n" % WRITTEN)
                    self._say()
                case ["now"]:
                    self.is_alive = False
                case other:
                    self._result.found("a watcher", [str(other)])
                    self.is_alive = False

    def _say(self) -> None:
        os.write(self._mouth, b"%d\n" % self._word)


def _live_in(home: Path) -> None:
    """This process, and those that it starts, find agents only there."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    os.environ.update(HOME=str(home), XDG_STATE_HOME=str(home / ".local" / "state"))


def _watch(
    tell: Callable[[Any], None], ear: int, mouth: int, url: str, planted: str, instant: int, is_after: bool
) -> None:
    os.close(mouth)
    plant(planted)
    try:
        lease = Lease(url)
    except HeldError:
        tell("the lease of a killed watcher is held")
        return
    with clew.open(url) as store:
        time_of = Time(tell, ear, instant, is_after=is_after)
        sync = Sync(lambda *, writes: store, None)
        following = Following(pid=os.getpid(), since=time.time(), store=url)
        watcher = Watcher(
            store, sync, following=following, on_state=lease.tell, clock=time_of.clock, wait=time_of.wait
        )
        time_of.watcher = watcher
        watcher.run()


class Time:
    """The time of a watcher: its windows pass at once, and whenever it would sleep, it tells so."""

    watcher: Watcher

    def __init__(self, tell: Callable[[Any], None], ear: int, instant: int, *, is_after: bool) -> None:
        """`instant`: the commit at which it stops, before it or after it; 0: at none."""
        self._tell = tell
        self._ear = ear
        self._now = 0.0
        self._word = 0
        self._count = 0
        really_commit = Committer._commit

        def commit(committer: Committer, batch: Sequence[Pending[Any]]) -> None:
            self._count += 1
            if self._count % DURING == 0 and self._count != instant:
                tell(["commits"])
                while self._hear() != WRITTEN:
                    pass
            if self._count == instant and not is_after:
                self._stop()
            really_commit(committer, batch)
            if self._count == instant:
                self._stop()

        mock.patch.object(Committer, "_commit", commit).start()

    def clock(self) -> float:
        return self._now

    def wait(self, waiting: select.poll, seconds: float) -> None:
        if self.watcher._window is not None:
            self._now += seconds
            return
        waiting.register(self._ear, select.POLLIN)
        while True:
            ready = {fd for fd, _ in waiting.poll(0)}
            if ready - {self._ear}:
                return
            if self._ear in ready:  # whatever was written before this word is in the queue by now
                self._hear()
                continue
            if self._word:
                self._tell(["at rest", self._word])
                self._word = 0
            waiting.poll()

    def _hear(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(self._ear, 1) or os._exit(3)  # whoever listened is gone
        word = int(text)
        if word != WRITTEN:
            self._word = word
        return word

    def _stop(self) -> None:
        self._tell(["now"])
        os.read(os.pipe()[0], 1)
