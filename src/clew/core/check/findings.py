"""What a check of the store has found so far, and when it has to end."""

from __future__ import annotations

import time
from typing import Final

from clew.model.files import FileProgress, OnProgress, VerifyProblem

MOST: Final = 10_000
"""Problems that are listed: whoever has more of them needs no list, and memory is bounded."""


class EnoughError(Exception):
    """The time is over, or there are too many problems to go on."""


class Findings:
    """Problems, each once, in the order in which they were found."""

    def __init__(self, time_limit: float | None = None, on_progress: OnProgress | None = None) -> None:
        self.problems: dict[VerifyProblem, None] = {}
        self.sessions = self.entries = self.bytes = 0
        self._end = None if time_limit is None else time.monotonic() + time_limit
        self._on_progress = on_progress

    def add(self, problem: VerifyProblem) -> None:
        if len(self.problems) >= MOST and problem not in self.problems:
            raise EnoughError
        self.problems[problem] = None

    def looked(self, *, sessions: int = 0, entries: int = 0, size: int = 0) -> None:
        """Count, tell the caller, and go on if there is time."""
        self.sessions += sessions
        self.entries += entries
        self.bytes += size
        self.tell(FileProgress(phase="check", files=self.sessions, bytes=self.bytes, total_files=None))

    def tell(self, progress: FileProgress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)
        self.check_time()

    def check_time(self) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            raise EnoughError
