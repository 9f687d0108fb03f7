"""What a call costs when nothing is timed: SQL statements, steps of SQLite's machine, bytes written.

None of these depends on who else is busy. Watching costs time, so a store is either watched or timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import apsw

from benchmarks.harness.measure import bytes_written, median

LOG_PAGE = 4096 + 24
"""Bytes that one page takes in the write-ahead log."""


@dataclass
class Cost:
    """Of one call, or the medians of several."""

    statements: float
    steps: float
    """Of the machine that runs SQL: they grow with the rows that are touched, not with the statements."""
    bytes: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


class Tally:
    """Counts on every connection that was opened while it watched."""

    def __init__(self) -> None:
        self._statements = 0
        self._steps = 0

    def attach(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        self._statements += 1
        self._steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def cost(self, call: Callable[[], object]) -> Cost:
        statements, steps, written = self._statements, self._steps, bytes_written()
        call()
        return Cost(self._statements - statements, self._steps - steps, bytes_written() - written)

    def usual_cost(
        self, call: Callable[[], object], times: int = 25, before: Callable[[], object] = lambda: None
    ) -> Cost:
        """Medians: now and then SQLite brings its log home, which is the cost of many calls.

        What is done `before` each call is not counted.
        """
        costs = []
        for _ in range(times):
            before()
            costs.append(self.cost(call))
        return Cost(
            median([cost.statements for cost in costs]),
            median([cost.steps for cost in costs]),
            median([cost.bytes for cost in costs]),
        )


@contextmanager
def watching() -> Iterator[Tally]:
    """Stores opened inside the block are counted, also after it."""
    tally = Tally()
    apsw.connection_hooks.append(tally.attach)
    try:
        yield tally
    finally:
        apsw.connection_hooks.remove(tally.attach)
