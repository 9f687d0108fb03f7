"""The thread that renews leases. It depends on no event loop, and on nobody who appends."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from clew.core.engine.commit import Pending
from clew.core.engine.engine import Engine
from clew.core.runs.lease import renew

if TYPE_CHECKING:
    from clew.run import Run

BEATS: Final = 3
"""A lease is renewed so many times while it lasts: two may fail before it is lost."""


class Heartbeat:
    """One thread for all runs of a store. It knows them weakly: what nobody holds any more ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)
        self.after_fork()

    def after_fork(self) -> None:
        """In the child: the runs are the parent's."""
        self._changed = threading.Condition()
        self._due: dict[int, tuple[weakref.ref[Run], float]] = {}
        """By identity: two runs of one session are equal, as sessions are."""
        self._thread: threading.Thread | None = None
        self._stopping = False

    def watch(self, run: Run) -> None:
        with self._changed:
            self._schedule(run, run._beat)
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._beat, name="clew-heartbeat", daemon=True)
                try:
                    self._thread.start()
                except BaseException:
                    if not self._thread.is_alive():
                        self._thread = None  # the next one tries again
                    raise
            self._changed.notify_all()

    def forget(self, run: Run) -> None:
        with self._changed:
            self._due.pop(id(run), None)

    def _schedule(self, run: Run, wait: float) -> None:
        self._due[id(run)] = weakref.ref(run), time.monotonic() + wait

    def stop(self) -> None:
        """Idempotent. Leases that are not ended run out."""
        with self._changed:
            self._stopping = True
            self._due.clear()
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _beat(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                now = time.monotonic()
                due = [(key, known) for key, (known, moment) in self._due.items() if moment <= now]
                if not due:
                    next_beat = min((moment for _, moment in self._due.values()), default=None)
                    self._changed.wait(None if next_beat is None else next_beat - now)
                    continue
                for key, _ in due:
                    del self._due[key]
            self._renew([run for run in (known() for _, known in due) if run is not None])

    def _renew(self, runs: Sequence[Run]) -> None:
        """All that is due in one transaction."""
        engine = self._engine()
        if engine is None or not runs:
            return
        pending: list[Pending[Any]] = [Pending(_renewing(run)) for run in runs]
        engine.committer.run_all(pending)
        with self._changed:
            for run, outcome in zip(runs, pending, strict=True):
                if outcome.error is None and not outcome.result:
                    run._lost = True
                elif not self._stopping and not run._ended:
                    # After a failure sooner: the lease runs out meanwhile.
                    self._schedule(run, run._beat if outcome.error is None else run._beat / BEATS)


def _renewing(run: Run) -> Any:
    access = run._access
    return lambda tx: renew(tx, access)
