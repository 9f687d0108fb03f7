"""This process and its machine: clocks that can be trusted, and whether another process is alive."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import Final, Literal, TypeAlias

from clew.core.log.lease import Holder, Now

Clock: TypeAlias = Callable[[], int]

TOLERANCE: Final = 5_000_000
"""A clock is corrected by small steps all the time; this much in one step is a jump."""
SHARED: Final = "store"
"""The domain of the clock of the storage."""


def wall_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def machine_clock() -> int:
    """Microseconds since the machine was started, sleep included: no user can set it, and all processes
    of the machine agree on it. Read from the kernel's file, because what intercepts the calls for
    the time in one process does not reach it."""
    try:
        with open("/proc/uptime", "rb") as file:
            return int(float(file.read().split()[0]) * 1_000_000)
    except OSError:
        return time.monotonic_ns() // 1000


class Host:
    """What work needs to know of the world around the store."""

    def __init__(
        self,
        clock: Clock = wall_clock,
        steady: Clock | None = None,
        shared: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`shared`: the clock of the storage, if it has one (see `Backend.clock`)."""
        self._clock = clock
        self._steady = steady or (machine_clock if clock is wall_clock else clock)
        self._shared = shared
        self._monotonic: Clock = _monotonic if self._steady is machine_clock else self._steady
        self._offset = self._clock() - self._monotonic()
        if self._steady is clock:
            self.now = clock  # type: ignore[method-assign]

    def now(self) -> int:
        """The time for stamps, in microseconds since 1970 UTC. It follows the clock, but not when that
        is set back: a session must not look as if it was idle for hours."""
        wall = self._clock()
        expected = self._monotonic() + self._offset
        if wall < expected - TOLERANCE:
            return expected
        self._offset += wall - expected
        return wall

    def elapsed(self) -> float:
        """Seconds by a clock that nobody sets, since some moment: for what lasts within this process."""
        return self._monotonic() / 1_000_000

    def moment(self) -> Now:
        """The present by the clock for stamps, and by one that all users of the store share."""
        shared = self._shared()
        if shared is not None:
            return Now(self.now(), shared, SHARED)
        return Now(self.now(), self._steady(), self.domain)

    @cached_property
    def me(self) -> Holder:
        pid = os.getpid()
        return Holder(_text("/proc/sys/kernel/random/boot_id"), _namespace("pid"), pid, _started(pid) or "")

    @cached_property
    def domain(self) -> str:
        """Names the machine's clock: equal names, comparable times. Empty: there is no such name."""
        boot = _text("/proc/sys/kernel/random/boot_id")
        return f"{boot} {_namespace('time')}" if boot else ""

    @cached_property
    def name(self) -> str:
        """The name of this process, if the caller gives none."""
        host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "host")
        return f"{host}:{os.getpid()}"

    def after_fork(self) -> None:
        """After a fork the child gets a name of its own."""
        self.__dict__.pop("me", None)
        self.__dict__.pop("name", None)

    def is_gone(self, holder: Holder, domain: str = "") -> bool:
        """Whether the process is surely not there any more. When in doubt it is. `domain`: the clock by which
        it measured; with that of the storage it may be on any machine, also if this process has the storage
        for itself, as a server does."""
        me = self.me
        if not (holder.boot and holder.namespace and holder.started and me.boot):
            return False
        if holder.boot != me.boot:
            return self._shared() is None and domain != SHARED  # one machine only: it was restarted since
        if holder.namespace != me.namespace:
            return False  # its number means nothing here
        started = _started(holder.pid)
        return started is not None and started != holder.started


def _monotonic() -> int:
    return time.monotonic_ns() // 1000


def _namespace(kind: Literal["pid", "time"]) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _started(pid: int) -> str | None:
    """When a process began, as the kernel says it; empty if there is none, or only one that has ended
    and waits to be collected; None if the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            stat = file.read()
    except OSError:
        return "" if _is_unused(pid) else None
    # The name of the program, in parentheses, may hold anything; what follows the last one may not.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    return "" if fields[0] in ("Z", "X", "x") else fields[19]


def _is_unused(pid: int) -> bool:
    """Whether no process has this number. /proc may hide those of other users."""
    if not os.path.isdir("/proc/self"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
