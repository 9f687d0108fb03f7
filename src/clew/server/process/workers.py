"""Several processes that serve one store from the same sockets, and the one that looks after them.

The parent opens no connection to the store and has no threads: it forks, waits for signals, and starts a
worker again that died. Signals wait in a queue of the system while it works, so none is lost. If the parent
is killed, the workers see it at the end of a pipe, and stop.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from clew.core.work_folder import make_work_folder, remove_abandoned, remove_work_folder
from clew.errors import BackendUnavailableError
from clew.server.process.access_log import Log

if TYPE_CHECKING:
    from clew.server.process.notify import Manager
    from clew.server.process.serve import Options
    from clew.server.process.settings import Settings
    from clew.store import Store

_WAITED_FOR: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGALRM,
    signal.SIGUSR1,
)
_READY: Final = signal.SIGUSR1
"""A worker sends it when it serves."""
_LIVED: Final = 10.0
"""A worker that lived for so long is started again at once; others after a while, which grows."""
_FIRST_WAIT: Final = 0.5
_LAST_WAIT: Final = 30.0
_LATE: Final = 5.0
"""Seconds that a worker has to end after its requests had theirs."""


class Workers:
    """The parent of the workers."""

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Store]],
        settings: Settings,
        options: Options,
        sockets: list[socket.socket],
        manager: Manager,
        *,
        address: str | None,
        on_ready: Callable[[], None],
    ) -> None:
        self._opened = opened
        self._settings = settings
        self._options = options
        self._sockets = sockets
        self._manager = manager
        self._address = address
        self._on_ready = on_ready
        self._folder = make_work_folder("serve")
        self._pids: dict[int, int] = {}
        """The worker of each process."""
        self._born: dict[int, float] = {}
        self._waits: dict[int, float] = {}
        self._due: dict[int, float] = {}
        """When a worker that died is started again."""
        self._is_ready = False
        self._signal = 0
        self._failed = False
        self._kill_at = 0.0
        self._is_orphan = False
        """In a worker: its parent was killed."""
        self._alive_end, self._held_end = os.pipe()
        self._log = Log(options.log_file, is_quiet=options.quiet, is_threaded=False)

    def run(self) -> int:
        """Until a signal ends it: its number."""
        is_terminal = sys.stderr.isatty() or sys.stdout.isatty()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
        try:
            for worker in range(self._options.workers):
                self._start(worker)
            while self._pids or (self._due and not self._signal):
                self._set_alarm()
                match signal.sigwait(_WAITED_FOR):
                    case signal.SIGCHLD | signal.SIGALRM:
                        self._reap()
                        self._start_due()
                    case signal.SIGUSR1:
                        self._see_ready()
                    case signal.SIGHUP if not is_terminal:
                        self._reload()
                    case number:
                        self._stop(number)
                self._manager.alive()
        finally:
            self._kill_all(signal.SIGKILL)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._held_end)
            os.close(self._alive_end)
            remove_work_folder(self._folder)
        if self._failed:
            raise BackendUnavailableError("no worker could start; what they said is above")
        return self._signal

    # -- what happens

    def _set_alarm(self) -> None:
        now = time.monotonic()
        times = [*self._due.values(), *([self._kill_at] if self._kill_at else []), now + 1.0]
        signal.setitimer(signal.ITIMER_REAL, max(0.01, min(times) - now))

    def _start(self, worker: int) -> None:
        self._born[worker] = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._work(worker)
        self._pids[pid] = worker

    def _start_due(self) -> None:
        now = time.monotonic()
        for worker, due in list(self._due.items()):
            if now >= due and not self._signal:
                del self._due[worker]
                self._start(worker)
        if self._kill_at and now >= self._kill_at:
            self._kill_all(signal.SIGKILL)

    def _reap(self) -> None:
        while self._pids:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._pids.pop(pid, None)
            if worker is not None:
                self._ended(worker, pid, os.waitstatus_to_exitcode(status))

    def _ended(self, worker: int, pid: int, code: int) -> None:
        for name in (f"{worker}.json", f"{worker}.ready"):
            (self._folder / name).unlink(missing_ok=True)
        if self._signal:
            return
        if not self._is_ready:  # the very first start: it will not be better a second time
            self._failed = True
            self._stop(signal.SIGTERM)
            return
        lived = time.monotonic() - self._born[worker]
        wait = 0.0 if lived > _LIVED else min(max(self._waits.get(worker, 0.0) * 2, _FIRST_WAIT), _LAST_WAIT)
        self._waits[worker] = wait
        self._due[worker] = time.monotonic() + wait
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._log.note(f"worker {worker} (process {pid}) ended with {how}; it is started again")

    def _see_ready(self) -> None:
        there = sum((self._folder / f"{worker}.ready").exists() for worker in range(self._options.workers))
        if not self._is_ready and there == self._options.workers:
            self._is_ready = True
            self._on_ready()

    def _reload(self) -> None:
        self._manager.reloading()
        self._log.reopen()
        self._kill_all(signal.SIGHUP)
        self._manager.ready()

    def _stop(self, number: int) -> None:
        if self._signal:
            self._kill_all(signal.SIGKILL)
            return
        self._signal = number
        self._manager.stopping()
        self._kill_at = time.monotonic() + self._options.grace + _LATE
        self._kill_all(signal.SIGTERM)

    def _kill_all(self, number: int) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # -- the life of a worker

    def _work(self, worker: int) -> NoReturn:
        """In the child. Nothing of the parent's runs here any more, whatever happens."""
        code = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            os.close(self._held_end)
            self._serve(worker)
            code = 0
        except BaseException as exc:  # noqa: BLE001  # it ends here, and says why
            self._say(exc)
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(code)

    def _say(self, exc: BaseException) -> None:
        from clew.backends.registry import masked_addresses
        from clew.errors import ClewError

        text = str(exc) if isinstance(exc, ClewError | OSError) else "".join(traceback.format_exception(exc))
        sys.stderr.write(f"clew: worker: {masked_addresses(text)}\n")

    def _serve(self, worker: int) -> None:
        from clew.server.process.notify import Manager
        from clew.server.process.serve import Process, attached

        log = Log(self._options.log_file, is_quiet=self._options.quiet)
        with self._opened() as store, attached(log):
            process = Process(
                store,
                self._settings,
                self._options,
                self._sockets,
                log,
                Manager(),
                on_started=lambda: ready(),
            )
            metrics = process.app.metrics
            metrics.folder, metrics.numbers.worker = self._folder, worker

            def ready() -> None:
                metrics.tell()
                (self._folder / f"{worker}.ready").touch()
                os.kill(os.getppid(), _READY)

            threading.Thread(target=self._watch_parent, args=(process.loop.stop,), daemon=True).start()
            process.run_as_worker(address=self._address, unblock=_WAITED_FOR)
            if self._is_orphan:  # the parent cannot remove it any more: the last worker does
                remove_work_folder(self._folder)
                remove_abandoned()

    def _watch_parent(self, stop: Callable[[], None]) -> None:
        """Its end of the pipe closes when it ends, in whatever way."""
        with suppress(OSError):
            os.read(self._alive_end, 1)
        self._is_orphan = True
        stop()
