"""The background thread that sweeps a store."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType

from clew.core.messages.characters import for_a_log
from clew.errors import LeaseHeldError, StoreClosedError
from clew.model import SweepReport


class Maintenance:
    """Sweeps a store from time to time. Stop it, use it as a context manager, or close the store."""

    def __init__(self, sweep: Callable[[], SweepReport], every: float) -> None:
        self._sweep = sweep
        self._every = every
        self._stopping = threading.Event()
        self._process = os.getpid()
        self.last_report: SweepReport | None = None
        """Of the last sweep that this thread finished."""
        self.last_error: Exception | None = None
        """Why the last one failed; None: it did not. That another process was sweeping is no failure."""
        self._thread = threading.Thread(target=self._run, name="clew-maintenance", daemon=True)
        self._thread.start()

    def __enter__(self) -> Maintenance:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Maintenance every {self._every:g} s, {'running' if self.is_running else 'stopped'}>"

    @property
    def is_running(self) -> bool:
        return self._process == os.getpid() and self._thread.is_alive() and not self._stopping.is_set()

    def stop(self) -> None:
        """Sweep no more; wait for the sweep under way. Idempotent."""
        if self._process != os.getpid():
            return  # a forked child has no such thread
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.last_report = self._sweep()
                self.last_error = None
            except LeaseHeldError:
                pass  # whoever sweeps does it for us too
            except StoreClosedError:
                return
            except Exception as error:  # noqa: BLE001 (kept and logged; the next sweep may go well)
                self.last_error = error
                self._tell(error)
            self._stopping.wait(self._every)

    @staticmethod
    def _tell(error: Exception) -> None:
        import logging

        logging.getLogger("clew.retention").warning("a sweep failed: %s", for_a_log(error))
