"""How much one caller may ask for: requests a second, requests at the same time, failed sign-ins.

Token buckets, in the memory of one process. The owner's own requests are not counted by the second: who owns
the store cannot be kept from it.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

from clew.server.access import peer
from clew.server.problems import Problem

if TYPE_CHECKING:
    from clew.core.engine.host import Host
    from clew.server.access.guard import Asked
    from clew.server.access.principal import Principal
    from clew.server.process.settings import Settings

MOST_KEPT: Final = 10_000
"""Buckets; the one that was not used for longest goes."""
SIGN_INS_A_SECOND: Final = 0.5
SHARE: Final = 10
"""A share may ask for a tenth of what a token may."""


class Buckets:
    """A bucket for each name: it holds `burst`, and is filled by `rate` a second."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, name: str, now: float) -> float:
        """Take one; the seconds to wait if there is none, else 0."""
        with self._lock:
            left = self._left(name, now)
            if left < 1:
                return (1 - left) / self._rate
            self._held[name] = (left - 1, now)
            self._held.move_to_end(name)
            if len(self._held) > MOST_KEPT:
                self._held.popitem(last=False)
        return 0.0

    def _left(self, name: str, now: float) -> float:
        left, then = self._held.get(name, (self._burst, now))
        return min(self._burst, left + max(0.0, now - then) * self._rate)


class Limits:
    """The limits of one application."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self._now = host.elapsed
        self._requests = Buckets(settings.rate, settings.burst)
        self._of_shares = Buckets(settings.rate / SHARE, settings.burst / SHARE)
        self._failed = Buckets(SIGN_INS_A_SECOND, settings.sign_ins)
        self._most = settings.concurrent
        self._working: Counter[str] = Counter()

    def check_rate(self, principal: Principal) -> None:
        """Count a request; Problem 429 if there were too many."""
        if principal.kind == "owner":
            return
        buckets = self._of_shares if principal.kind == "share" else self._requests
        wait = buckets.take(principal.id, self._now())
        if wait:
            raise _too_many("this caller asks too often", wait)

    @contextmanager
    def working(self, principal: Principal) -> Iterator[None]:
        """While a request of this caller is worked on."""
        if principal.kind == "nobody":
            yield
            return
        if self._working[principal.id] >= self._most:
            raise _too_many(f"this caller has {self._most} requests that are not answered yet", 1)
        self._working[principal.id] += 1
        try:
            yield
        finally:
            self._working[principal.id] -= 1
            if not self._working[principal.id]:
                del self._working[principal.id]

    def failed(self, asked: Asked) -> None:
        """Count a sign-in that failed; Problem 429 if there were too many from this address, or of this user
        of this machine. A token or a code that is right is never refused because of others that were wrong:
        each has at least 128 random bits, so the limit spares the machine, and keeps no guess from coming
        true."""
        wait = self._failed.take(_source(asked), self._now())
        if wait:
            raise _too_many("too many sign-ins from this address failed", wait)


def _source(asked: Asked) -> str:
    """Whose failures are counted together. All users of one machine have one address: each counts apart."""
    client, server = asked.ends
    user = peer.user_of(client, server) if asked.is_local and client and server else None
    return asked.client if user is None else f"{asked.client} user {user}"


def _too_many(detail: str, wait: float) -> Problem:
    return Problem(
        429,
        "too_many_requests",
        "Too many requests",
        detail,
        next="wait as long as Retry-After says",
        retryable=True,
        headers={"retry-after": str(max(1, math.ceil(wait)))},
    )
