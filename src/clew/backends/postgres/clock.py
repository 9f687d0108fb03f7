"""The clock of the server, read here without asking it each time."""

from __future__ import annotations

import threading
import time
from typing import Final

from clew.backends.postgres.connection import Line

ASK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
REFRESH_AFTER: Final = 30.0


class ServerClock:
    """The distance of the server's clock from the monotonic one, to half of a round trip."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._distance = 0.0
        self._measured: float | None = None
        self._last = 0

    @property
    def is_old(self) -> bool:
        return self._measured is None or time.monotonic() - self._measured > REFRESH_AFTER

    def measure(self, line: Line) -> None:
        before = time.monotonic()
        ((server,),) = line.ask(ASK, ())
        after = time.monotonic()
        with self._lock:
            self._distance = server - (before + after) / 2 * 1e6
            self._measured = after

    def postpone(self) -> None:
        """The server has no time for this just now: do not ask again with every look at the clock."""
        with self._lock:
            self._measured = time.monotonic()

    def now(self) -> int:
        """Microseconds since 1970; never goes back."""
        with self._lock:
            self._last = max(self._last, int(time.monotonic() * 1e6 + self._distance))
            return self._last
