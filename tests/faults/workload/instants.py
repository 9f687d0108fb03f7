"""The instant at which a worker comes to rest, to be killed: counted in its own steps, not in seconds.

A step is a line that the worker tells, or the begin or the end of a commit; while it opens the store, a call
of a function. So with one thread the same number is the same instant on every machine; with several, the
others are wherever they have come to. Steps can be counted from when so many operations were answered: then
there is something to lose, however the threads took turns.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final
from unittest import mock

from clew.core.engine.commit import Committer, Pending

Tell = Callable[[Any], None]

NOW: Final = "now"
"""What is told at the instant."""


class Instant:
    """Counts the steps of this process from 1; at the one with the given number it tells that it is time."""

    def __init__(
        self,
        tell: Tell,
        step: int,
        *,
        answers_before: int = 0,
        only_commits: bool = False,
        only_thread: str = "",
        is_answered: bool = True,
    ) -> None:
        """`step`: 0 is never. `answers_before`: count steps from when so many operations were answered.
        `only_commits`: their begins and ends alone are steps. `only_thread`: what the thread with this name
        does alone counts. `is_answered`: nobody waits for the thread of the writer."""
        self._tell = tell
        self._left = step
        self._answers_before = answers_before
        self._only_commits = only_commits
        self._only_thread = only_thread
        self._is_answered = is_answered
        self._lock = threading.RLock()
        self._acknowledged = threading.Condition(self._lock)
        self._answers = 0

    def tell(self, line: Any) -> None:
        with self._lock:
            self._tell(line)
            if line[0] in ("acknowledged", "moved"):
                self._answers += 1
                self._answers_before -= self._counts()
                self._acknowledged.notify_all()
        if not self._only_commits:
            self.step()

    def step(self) -> None:
        if not self._counts():
            return
        with self._lock:
            if self._answers_before > 0:
                return
            self._left -= 1
            if self._left == 0:
                is_early = threading.current_thread().name == "clew-writer" and self._is_answered
                if is_early:  # somebody is told too early: see it
                    answers = self._answers
                    self._acknowledged.wait_for(lambda: self._answers > answers)
                self._tell([NOW, ""])
                self._acknowledged.wait_for(lambda: False)

    def _counts(self) -> bool:
        return self._only_thread in ("", threading.current_thread().name)

    def watch_commits(self) -> None:
        """From now on each begin and each end of a commit is a step."""
        really_commit = Committer._commit

        def commit(committer: Committer, batch: Sequence[Pending[Any]]) -> None:
            self.step()
            really_commit(committer, batch)
            self.step()

        mock.patch.object(Committer, "_commit", commit).start()

    def watch_calls(self, open: Callable[[], Any]) -> Any:
        """Take a step with each call of a function, until the store is open."""

        def called(_: FrameType, event: str, __: Any) -> None:
            if event == "call":
                self.step()

        sys.setprofile(called)
        try:
            return open()
        finally:
            sys.setprofile(None)
