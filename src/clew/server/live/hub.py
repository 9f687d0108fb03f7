"""One thread looks at the store for all streams, and wakes those that something concerns.

It waits for commits, looks once (core.streams.watch), and wakes the streams of the sessions that changed.
From time to time it asks whether the callers behind the streams may still see what they see. It runs while
there are streams.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from clew.backends.contract import Reader
from clew.core.engine.engine import Engine
from clew.core.streams.watch import EVERY, News, Watcher
from clew.errors import ClewError, CorruptError, StoreClosedError
from clew.server.access.principal import Principal
from clew.server.problems import Problem

CHECK: Final = 1.0
"""Seconds between two questions whether a caller may still be here: a stream ends soon after a revocation."""
SLICE: Final = 0.5
"""Seconds that the thread waits at once."""
AGAIN: Final = 1.0
"""Seconds until another try, when the store cannot be read."""
LINGER: Final = 5.0
"""Seconds for which the thread stays though there are no streams: a page that is loaded again finds it."""
MOST_NEWS: Final = 10_000
"""Changes that wait for a stream of the store. One that is so far behind is ended: it resumes."""

log = logging.getLogger("clew.server")


class Subscription:
    """One stream, as the hub knows it. All but the reasons is used in the event loop only."""

    def __init__(self, principal: Principal, sids: Iterable[int] | None, *, hears_all: bool = False) -> None:
        """`sids`: the sessions of the stream; None: all of the store. `hears_all`: it gets the changes of all
        others too."""
        self.principal = principal
        self.sids = None if sids is None else frozenset(sids)
        self._hears_all = hears_all or sids is None
        self.loop = asyncio.get_running_loop()
        self.over: str | None = None
        """Why the stream is to end; None: it is not."""
        self.ready = asyncio.Event()
        """Set when whatever is committed from now on will be told, or the stream is to end."""
        self._woken = asyncio.Event()
        self._changed: set[int] = set(self.sids or ())
        self._news: list[News] = []

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to do, at most so long; whether there is."""
        if not self._woken.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
        return self._woken.is_set()

    def take(self) -> tuple[set[int], list[News]]:
        """The sessions to look at, and the changes, since the last call."""
        self._woken.clear()
        if self.over is not None:
            self._woken.set()
        changed, self._changed = self._changed, set()
        news, self._news = self._news, []
        return changed, news

    def wake(self, changed: Iterable[int], news: list[News]) -> None:
        """Called by the hub."""
        if self.sids is not None:
            self._changed.update(self.sids.intersection(changed))
        if self._hears_all and len(self._news) + len(news) > MOST_NEWS:
            self.over = self.over or "slow"
        elif self._hears_all:
            self._news += news
        if self._changed or self._news or self.over:
            self._woken.set()

    def follow(self, sids: Iterable[int]) -> None:
        """These are the sessions of the stream from now on."""
        self.sids = frozenset(sids)

    def end(self, reason: str) -> None:
        """Called by the hub."""
        self.over = self.over or reason
        self.ready.set()
        self._woken.set()

    def begin(self) -> None:
        """Called by the hub, which has had its first look: what was before is for the stream to find."""
        self.ready.set()
        self.wake(self.sids or (), [])


class Hub:
    """The streams of one server. Safe from any thread."""

    def __init__(self, engine: Engine, is_current: Callable[[Principal], bool], most: int) -> None:
        """`is_current`: whether a caller may still do what it could when its stream began; it may block.
        `most`: streams of one caller."""
        self._engine = engine
        self._now = engine.host.elapsed
        self._is_current = is_current
        self._most = most
        self._mutex = threading.Lock()
        self._open: set[Subscription] = set()
        self._counts: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._came = threading.Event()
        self._is_following = False
        """The thread has had its first look."""
        self._is_stopped = False
        self._checked = -math.inf
        """When the callers were last asked for, by `_now`."""

    @property
    def streams(self) -> int:
        """That are open, for the metrics."""
        return len(self._open)

    def check_room(self, principal: Principal) -> None:
        """Raises a problem if this caller has as many streams as it may."""
        if self._counts[principal.id] >= self._most:
            raise Problem(
                429,
                "too_many_streams",
                "Too many streams are open",
                f"one caller may have {self._most} streams",
                next="close some, or follow several sessions in one: /api/v1/live?session=a&session=b",
                retryable=True,
                headers={"retry-after": "1"},
            )

    @contextmanager
    def subscribed(
        self, principal: Principal, sids: Iterable[int] | None, *, hears_all: bool = False
    ) -> Iterator[Subscription]:
        """A stream, from now on."""
        one = Subscription(principal, sids, hears_all=hears_all)
        with self._mutex:
            if self._is_stopped:
                one.end("stopping")
            elif self._counts[principal.id] >= self._most:
                one.end("too_many_streams")
            if self._is_following:
                one.ready.set()
            self._open.add(one)
            self._counts[principal.id] += 1
            self._came.set()
            if self._thread is None and not self._is_stopped:
                self._thread = threading.Thread(target=self._run, name="clew-live", daemon=True)
                self._thread.start()
        try:
            yield one
        finally:
            with self._mutex:
                self._open.discard(one)
                self._counts[principal.id] -= 1
                if not self._counts[principal.id]:
                    del self._counts[principal.id]

    def stop(self) -> None:
        """End every stream: each tells its client to connect again. Idempotent."""
        with self._mutex:
            self._is_stopped = True
            self._came.set()
            streams = list(self._open)
        self._tell(streams, lambda one: one.end("stopping"))

    # -- the thread

    def _run(self) -> None:
        watcher: Watcher | None = None  # the same one after an error: so nothing is passed over
        while self._has_streams():
            try:
                if watcher is None:
                    watcher = Watcher(self._engine, None, EVERY)
                    self._begin()
                self._follow(watcher)
            except StoreClosedError:
                self.stop()
            except ClewError as exc:
                log.warning("the streams cannot read the store: %s", exc)
                time.sleep(AGAIN)
            except Exception:
                log.exception("the streams cannot look at the store; they try again")
                time.sleep(AGAIN)

    def _begin(self) -> None:
        with self._mutex:
            self._is_following = True
            streams = list(self._open)
        self._tell(streams, lambda one: one.begin())

    def _has_streams(self) -> bool:
        """Waits a while for the first. False: this thread ends."""
        deadline = self._now() + LINGER
        while True:
            with self._mutex:
                if self._is_stopped or (not self._open and self._now() >= deadline):
                    self._thread, self._is_following = None, False
                    return False
                if self._open:
                    return True
                self._came.clear()
            self._came.wait(max(deadline - self._now(), 0))

    def _follow(self, watcher: Watcher) -> None:
        """Look at the store until there is no stream any more."""
        is_changed = False
        while self._open and not self._is_stopped:
            if watcher.pause(SLICE):
                is_changed = True
                news = watcher.news()
                if news:
                    self._deliver(news)
            if self._now() - self._checked >= CHECK:
                self._checked, was_changed, is_changed = self._now(), is_changed, False
                self._check(was_changed)

    def _deliver(self, news: list[News]) -> None:
        changed = {each.row.sid for each in news}
        self._tell(self._streams(), lambda one: one.wake(changed, news))

    def _check(self, was_changed: bool) -> None:
        """End the streams of callers that are not let in any more. Wake those whose sessions are gone, or
        may have left the reach of their callers: of that no news tells."""
        streams = self._streams()
        known: dict[Principal, bool] = {}
        for one in streams:
            if one.principal not in known:
                known[one.principal] = self._is_current(one.principal)
        self._tell([one for one in streams if not known[one.principal]], lambda one: one.end("revoked"))
        if not was_changed:
            return
        followed = {sid for one in streams for sid in one.sids or ()}
        with self._engine.read() as reader:
            gone = {sid for sid in followed if _is_gone(reader, sid)}
        self._tell(
            [one for one in streams if one.principal.is_bound or not gone.isdisjoint(one.sids or ())],
            lambda one: one.wake(one.sids or (), []),
        )

    def _streams(self) -> list[Subscription]:
        with self._mutex:
            return list(self._open)

    @staticmethod
    def _tell(streams: Iterable[Subscription], what: Callable[[Subscription], None]) -> None:
        """In their loops, one call for all of one loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Subscription]] = {}
        for one in streams:
            by_loop.setdefault(one.loop, []).append(one)
        for loop, mine in by_loop.items():
            with suppress(RuntimeError):  # the loop has ended, and its streams with it
                loop.call_soon_threadsafe(_call_each, what, mine)


def _is_gone(reader: Reader, sid: int) -> bool:
    try:
        return reader.get_session(sid) is None
    except CorruptError:
        return False


def _call_each(what: Callable[[Subscription], None], streams: list[Subscription]) -> None:
    for one in streams:
        what(one)
