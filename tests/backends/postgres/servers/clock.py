"""A clock for tests in the place of the server's."""

from __future__ import annotations

from collections.abc import Callable

from clew.core.engine.host import Clock, Host, machine_clock


class Timed(Host):
    """Leases are judged by the clock of the server; a test that has a clock of its own gives it to both."""

    def __init__(self, clock: Clock, steady: Clock | None, shared: Callable[[], int | None]) -> None:
        super().__init__(clock, steady, shared)
        if self._steady is not machine_clock:
            self._shared = self._steady
