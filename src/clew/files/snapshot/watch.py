"""A watcher tells which directories below a root changed, so that a snapshot need not look at the others.

It may report too many directories as changed, never too few. Whenever it cannot vouch, everything is looked
at: before it has seen the whole tree once, after the queue of events was full, after an error, in a forked
child, when the root or a mount was replaced, and every few minutes in any case.

It vouches for directories, never for files (see `clew.core.directory_watch` for how). For each
`WatchedCache`, one cache under one set of rules, this holds between two scans: a directory that the cache
knows is either

    watched     since before the scan that the cache is of listed it, or
    suspect     and so the next scan lists it

Not noticed before the next look at everything: what is written through a memory map after its file was
closed, and by a second name that a file was given outside of the tree.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Final

from clew.core.directory_watch import CannotWatchError, DirectoryWatches
from clew.files.snapshot.statcache import StatCache

TRUSTED: Final = 300.0
"""Seconds from one look at everything to the next."""
MOST_CACHES: Final = 4


class WatchedCache:
    """What one set of rules has seen of a root: its cache, and what has to be looked at again."""

    def __init__(self, cache: StatCache) -> None:
        self.cache = cache
        self.changed: frozenset[bytes] | None = None
        """For the scan under way: only these directories need a look. None: all of them."""
        self.suspect: set[bytes] = set()
        self.looked_at: float | None = None
        """When everything was looked at last, with the watches that are still open."""
        self.watches: DirectoryWatches | None = None
        """Those that were open when the scan under way began, and the number of that moment."""
        self.began = 0
        self.is_busy = False


class Watch:
    """A directory tree that is watched, so that snapshots of it are fast; until `stop()`, the end of a
    `with` block, or the end of the store. Safe from any thread."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self.why_not: str | None = "there was no snapshot yet"
        """Why the last snapshot had to look at everything; None: it had not."""
        self._clock = clock
        self._lock = threading.Lock()
        self._caches: OrderedDict[bytes, WatchedCache] = OrderedDict()
        self._watches: DirectoryWatches | None = None
        self._refused_at: float | None = None
        """When the system did not let us watch."""
        self._process = os.getpid()
        self._is_stopped = False

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Watch of {self.root!r}, {'running' if self.is_running else 'stopped'}>"

    @property
    def is_running(self) -> bool:
        """A forked child does not watch: the events are its parent's."""
        return not self._is_stopped and self._process == os.getpid()

    def stop(self) -> None:
        """Watch no more. Idempotent."""
        with self._lock:
            if self.is_running:
                for known in self._caches.values():
                    known.cache.save()
            self._is_stopped = True
            self._close_watches()
            self._caches.clear()

    def after_fork(self) -> None:
        """In the child. Its descriptors are copies: to close them does not end the parent's watch."""
        self._lock = threading.Lock()
        self.stop()

    # -- for scans

    def begin(self, key: bytes, open_cache: Callable[[], StatCache]) -> WatchedCache:
        """Before a scan: the cache to scan with, and what `changed`. After it call `end`, or `fail`.
        `key`: all that a cache depends on, but the root."""
        with self._lock:
            known = self._cache_of(key, open_cache) if self.is_running else None
            if known is None or known.is_busy:  # of two at once the second one goes by itself
                return WatchedCache(open_cache())
            known.is_busy = True
            self.why_not = self._take_in() or self._why_all(known)
            if self.why_not is None:
                known.changed = frozenset(known.suspect)
            else:
                known.changed = None
                self._watch_known(known)
            known.suspect = set()
            known.watches = self._watches
            known.began = self._watches.moment() if self._watches is not None else 0
            return known

    def end(self, known: WatchedCache) -> None:
        """After a scan that brought the cache up to date."""
        with self._lock:
            known.is_busy = False
            if self._watches is None or known.watches is not self._watches or not self._is_ours(known):
                return
            if known.changed is None:
                known.looked_at = self._clock()
            try:
                self._watches.look_for_second_names()
                known.suspect |= self._watches.watch(known.cache.folders, known.began)
            except CannotWatchError as exc:
                self._refuse(exc)

    def fail(self, known: WatchedCache) -> None:
        """After a scan that was broken off."""
        with self._lock:
            known.is_busy = False
            known.looked_at = None

    # -- what is known

    def _cache_of(self, key: bytes, open_cache: Callable[[], StatCache]) -> WatchedCache:
        known = self._caches.get(key)
        if known is None:
            known = self._caches[key] = WatchedCache(open_cache())
            if len(self._caches) > MOST_CACHES:
                self._caches.popitem(last=False)
        self._caches.move_to_end(key)
        return known

    def _is_ours(self, known: WatchedCache) -> bool:
        return any(one is known for one in self._caches.values())

    def _take_in(self) -> str | None:
        """Let all caches know what happened since the last time; why the watches had to be closed."""
        if self._watches is None:
            return "nothing was watched before"
        suspect, reason = set[bytes](), None
        try:
            suspect, reason = self._watches.changes()
        except CannotWatchError as exc:
            reason = f"the system does not tell what changed ({exc})"
        if reason is not None:
            self._close_watches()
        for known in self._caches.values():
            known.suspect |= suspect
        return reason

    def _why_all(self, known: WatchedCache) -> str | None:
        if known.looked_at is None or not known.cache.folders:
            return "not everything was looked at before"
        if self._clock() - known.looked_at > TRUSTED:
            return f"everything was looked at more than {TRUSTED:g} seconds ago"
        return None

    def _watch_known(self, known: WatchedCache) -> None:
        """Watch all that the cache knows, before the scan looks at it."""
        if self._refused_at is not None and self._clock() - self._refused_at < TRUSTED:
            return
        try:
            if self._watches is None:
                self._watches = DirectoryWatches(self.root)
            self._watches.watch(known.cache.folders)
        except CannotWatchError as exc:
            self._refuse(exc)

    def _refuse(self, exc: CannotWatchError) -> None:
        """Too many watches, or nothing to watch with: no use in trying it each time."""
        self.why_not = f"the system does not let it be watched ({exc})"
        self._refused_at = self._clock()
        self._close_watches()

    def _close_watches(self) -> None:
        watches, self._watches = self._watches, None
        for known in self._caches.values():
            known.looked_at = None
        if watches is not None:
            watches.close()
