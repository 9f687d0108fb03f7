"""A watcher in the thread of the test, on a clock that a story moves: nothing sleeps, and nothing is timed.

The system queues what happens to files as it happens, so a watcher that finds nothing to read has seen all.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.importers.follow.watcher import Watcher

Story = Iterator[float]
"""Each `yield` says how many seconds pass. It goes on when the watcher has done all that was due by then."""


class Stage:
    """Time and waiting of one watcher. The story begins when its first pass is over, and its end stops it."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        """How many seconds the watcher wanted to sleep, each time that it was idle."""
        self._now = self._until = 0.0

    def tell(self, watcher: Watcher, story: Story) -> None:
        self._stop, self._story = watcher.stop, story
        watcher.run()

    def watcher(self, *args: Any, **options: Any) -> Watcher:
        return Watcher(*args, **options, clock=lambda: self._now, wait=self._wait)

    def _wait(self, waiting: select.poll, seconds: float) -> None:
        if waiting.poll(0) or not seconds:
            return
        if self._now < self._until:
            self._now = min(self._until, self._now + seconds)
            return
        self.waits.append(seconds)
        passing = next(self._story, None)
        if passing is None:
            self._stop()
        else:
            self._until = self._now + passing


def leave_word(wake: Path, text: str) -> None:
    """As the script of a hook does."""
    [place] = wake.iterdir()
    (place / ".new").write_text(text)
    (place / ".new").rename(place / "claude-code.77")
