"""The watcher: first everything once, then what changes, as soon as it changes.

One thread, one pass at a time. The first change opens a window of WINDOW seconds; what comes within it is
brought in one pass. While nothing happens it sleeps in one system call: no timer runs but that of the safety
scan, which looks at the stamps of files and reads none that did not change.
A pass may be cut off at any point: what is brought, and how far a file was read, is one transaction.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from clew.errors import ClewError, InvalidError
from clew.importers.follow.lease import Following, Trouble
from clew.importers.follow.pending import Pending
from clew.importers.follow.polling import Polled
from clew.importers.follow.trees import Trees, is_inside
from clew.importers.follow.turns import Turns
from clew.importers.wake import Wake, listening, read_wakes
from clew.model.transfer import ImportedFile, ImportReport

if TYPE_CHECKING:
    from clew.store import Store

WINDOW: Final = 0.1
SAFETY: Final = 15 * 60.0
WAKE_POLL: Final = 1.0
"""Seconds between two looks for words of hooks, where the system does not tell of them."""
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0
_UNWATCHED: Final = {"opencode": ("bin", "log", "snapshot", "tool-output")}
"""By format, directories of a place that hold no sessions, and may hold many directories."""


class Root(Protocol):
    """A place where sessions of a format are kept, or may come to be."""

    @property
    def format(self) -> str | None: ...
    @property
    def path(self) -> Any: ...


class Syncing(Protocol):
    """What brings the files: `clew.importers.sync.Sync`."""

    @property
    def roots(self) -> Sequence[Root]: ...
    def all(self) -> ImportReport: ...
    def some(self, paths: Collection[str]) -> ImportReport: ...


class Stopped(Exception):
    """The watcher was told to stop while a pass was under way."""


class Watcher:
    """Follows until `stop`. Its calls come from the thread that calls `run`, but for `stop` and `rescan`."""

    def __init__(
        self,
        store: Store,
        sync: Syncing,
        *,
        following: Following,
        ignored: Collection[str] = (),
        wake: Path | None = None,
        on_report: Callable[[ImportReport], None] = lambda _: None,
        on_state: Callable[[Following], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[select.poll, float], None] | None = None,
    ) -> None:
        """`ignored`: files of the store itself, and others of our own. `wake`: where hooks leave word, if not
        in the usual directory. `on_state` is told after each pass how it stands. `wait` returns when a
        descriptor is ready or the seconds of `clock` have passed; the default blocks in `poll`."""
        self.following = following
        self._sync = sync
        self._wake = wake
        self._on_report = on_report
        self._on_state = on_state
        self._clock = clock
        self._sleep = wait or _sleep
        unwatched = [
            os.path.join(root.path, name)
            for root in sync.roots
            for name in _UNWATCHED.get(root.format or "", ())
        ]
        self._ignored = [*ignored, *unwatched]
        self._pending = Pending()
        self._turns = Turns(store, self._bring, self._trouble, clock)
        self._polled: dict[str, Polled] = {}
        self._window: float | None = None
        """When the pass begins that is to come."""
        self._retry = 0.0
        self._safety = 0.0
        self._is_stopped = False
        self._is_rescan = False
        self._bell, self._ring = os.pipe()
        for end in (self._bell, self._ring):
            os.set_blocking(end, False)

    # -- from signal handlers and other threads

    def stop(self) -> None:
        """End soon, between two steps of a pass at the latest."""
        self._is_stopped = True
        self._wake_up()

    def rescan(self) -> None:
        """Look at everything, and watch what could not be watched before."""
        self._is_rescan = True
        self._wake_up()

    def _wake_up(self) -> None:
        try:
            os.write(self._ring, b"\0")
        except OSError:  # it rings already, or nobody listens any more
            pass

    def check(self) -> None:
        """For the progress of a pass. Stopped: it is to end."""
        if self._is_stopped:
            raise Stopped

    # -- the loop

    def run(self) -> None:
        """Until `stop`. Raises what a store raises that cannot be used, as VersionError."""
        with ExitStack() as stack:
            place = self._listen(stack)
            wakes = Trees([] if place is None else [str(place)])
            stack.callback(wakes.close)
            trees = Trees([str(root.path) for root in self._sync.roots], ignored=self._ignored)
            stack.callback(trees.close)
            self._scan(trees)
            try:
                while not self._is_stopped:
                    self._step(trees, wakes, place)
            except Stopped:
                pass

    def _listen(self, stack: ExitStack) -> Path | None:
        try:
            place = stack.enter_context(listening(self._wake))
        except OSError as exc:
            self._trouble(f"hooks cannot wake this watcher: {exc.strerror or exc}", str(exc.filename or ""))
            return None
        self.following.wake = str(place)
        return place

    def _scan(self, trees: Trees) -> None:
        """Watch first, then look at everything: so nothing is missed in between."""
        if self._safety:
            trees.watch()
        self._polled = {root: Polled(root, self._clock) for root in trees.polled}
        self.following.polled, self.following.watches = dict(trees.polled), trees.watches
        self._count_places(trees)
        self._on_state(self.following)
        self._is_rescan = False
        self._pending.add_all()
        self._window = self._clock()
        self._safety = self._window + SAFETY

    def _step(self, trees: Trees, wakes: Trees, place: Path | None) -> None:
        """Wait for what comes next, and do it."""
        now = self._clock()
        if self._window is not None and now >= self._window:
            self._take_in(trees)
            self._pass()
        elif self._is_rescan or now >= self._safety:
            self._scan(trees)
        else:
            self._turns.take_due(now)
            if self._turns.snapshots != self.following.snapshots:
                self.following.snapshots = self._turns.snapshots
                self._on_state(self.following)
            self._poll(now)
            self._wait(trees, wakes, now)
            if self._window is None:
                self._take_in(trees)
            if place is not None and (wakes.polled or wakes.read().paths):
                self._answer(read_wakes(place), trees)

    def _wait(self, trees: Trees, wakes: Trees, now: float) -> None:
        """Sleep until something happens. Once the window is open, changes are left to the system's queue."""
        files = None if self._window is not None else trees.fileno()
        dues = [self._safety, self._window, self._turns.due, *(one.due for one in self._polled.values())]
        if wakes.polled:
            dues.append(now + WAKE_POLL)
        left = min(due for due in dues if due is not None) - now
        waiting = select.poll()
        for fd in (self._bell, files, wakes.fileno()):
            if fd is not None:
                waiting.register(fd, select.POLLIN)
        self._sleep(waiting, max(0.0, left))
        try:
            os.read(self._bell, 4096)
        except BlockingIOError:
            pass

    def _take_in(self, trees: Trees) -> None:
        happened = trees.read()
        if happened.paths:
            self._count_places(trees)
        if happened.lost is not None:
            self._pending.add_all()
        self._note(happened.paths)
        self.following.watches = trees.watches
        if trees.polled.keys() != self._polled.keys():
            self._polled = {
                root: self._polled.get(root) or Polled(root, self._clock) for root in trees.polled
            }
            self.following.polled = dict(trees.polled)
            self._on_state(self.following)

    def _count_places(self, trees: Trees) -> None:
        self.following.places = sum(map(os.path.exists, trees.roots))
        self.following.awaited = len(trees.roots) - self.following.places

    def _poll(self, now: float) -> None:
        for polled in self._polled.values():
            if now >= polled.due:
                self._note(polled.look())

    def _answer(self, wakes: Sequence[Wake], trees: Trees) -> None:
        """Hooks of agents whose sessions are not followed say nothing here. A hook that names no file means
        whatever has changed: that is brought at once."""
        ours = [wake for wake in wakes if not wake.transcript or self._is_followed(wake.transcript, trees)]
        if self._window is not None and any(wake.transcript is None for wake in ours):
            self._window = self._clock()
        self._turns.wake(ours)

    def _is_followed(self, path: str, trees: Trees) -> bool:
        return any(is_inside(path, root) for root in trees.roots)

    def _note(self, paths: Collection[str]) -> None:
        self._pending.add(paths)
        if self._pending and self._window is None:
            self._window = self._clock() + WINDOW

    # -- passes

    def _pass(self) -> None:
        """Bring what is pending. A store that cannot take it now is tried again, after a while."""
        self._window = None
        paths = self._pending.take()
        report = self._bring(paths)
        if report is not None and paths is None:
            self.following.sources = report.files
            self._on_state(self.following)
            _give_back_memory()

    def _bring(self, paths: list[str] | None) -> ImportReport | None:
        """What came of these files, or of all; None: nothing can come now, and it is tried again."""
        try:
            report = self._sync.all() if paths is None else self._sync.some(paths)
        except (ClewError, OSError) as exc:
            if isinstance(exc, InvalidError):  # the only place that was named is not there yet
                self._trouble(f"{exc}; it is waited for")
                return self._done(ImportReport(sessions=(), dry_run=False, files=0))
            if isinstance(exc, ClewError) and not exc.retryable:
                raise
            if paths is None:
                self._pending.add_all()
            else:
                self._pending.add(paths)
            self._retry = min(max(self._retry * 2, FIRST_RETRY), LAST_RETRY)
            self._window = self._clock() + self._retry
            self.following.state = "retrying"
            self._trouble(f"the store takes nothing now, next try in {self._retry:g} s: {exc}")
            return None
        return self._done(report)

    def _done(self, report: ImportReport) -> ImportReport:
        self._retry = 0.0
        self.following.state = "following"
        self._report(report)
        return report

    def _report(self, report: ImportReport) -> None:
        now = time.time()
        brought = sum(session.entries for session in report.sessions)
        self.following.passes += 1
        self.following.messages += brought
        self.following.last_pass = now
        self.following.sources += sum(_is_new(source) for source in report.sources)
        if brought:
            self.following.last_news = now
        for problem in [one for source in report.sources if source.read for one in source.problems][-1:]:
            self.following.trouble = Trouble(now, problem.reason, problem.path)
        self._on_report(report)
        self._on_state(self.following)

    def _trouble(self, reason: str, path: str = "") -> None:
        self.following.trouble = Trouble(time.time(), reason, path)
        self._on_state(self.following)


def _sleep(waiting: select.poll, seconds: float) -> None:
    waiting.poll(seconds * 1000 + 1 if seconds else 0)


def _is_new(source: ImportedFile) -> bool:
    return any(session.state == "new" for session in source.sessions)


def _give_back_memory() -> None:
    """What a look at everything took is not needed while nothing happens: objects, pages of databases, and
    what the system's library keeps for later."""
    import ctypes
    import gc

    gc.collect()
    if (apsw := sys.modules.get("apsw")) is not None:
        for connection in apsw.connections():
            try:
                connection.release_memory()
            except apsw.Error:  # another thread uses it, or closed it just now: it keeps what it has
                pass
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # not with this library
        pass
