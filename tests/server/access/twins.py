"""Two servers of one store, one of which has gone on: whatever differs in their answers tells of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import clew
from clew.backends.sqlite import SqliteBackend
from clew.testing.backend.base import Ticking
from tests.server.access.requests import IDLE, STREAM, Caller, Told
from tests.server.conftest import Running, running

BEGUN = 1_800_000_000_000_000
"""When the store is made, in microseconds since 1970."""
ASKED = BEGUN + 3_600_000_000
"""When both are asked: an hour later, whatever happened meanwhile."""


Request: TypeAlias = tuple[str, dict[str, Any], dict[str, str]]
"""A path, a query and headers."""


class Twins(NamedTuple):
    """The same store twice, up to a moment."""

    plain: Running
    later: Running

    def callers(self, token: str) -> tuple[Caller, Caller]:
        return Caller(self.plain, token), Caller(self.later, token)


@contextmanager
def open_twins(
    folder: Path, begin: Callable[[clew.Store], Any], go_on: Callable[[clew.Store], Any]
) -> Iterator[Twins]:
    """Make a store by `begin`, copy its files, and let the copy go on: whoever has a token for one has it for
    both."""
    plain, later = folder / "plain.db", folder / "later.db"
    with clew.Store(SqliteBackend(plain), clock=Ticking(BEGUN)) as store:
        begin(store)
    shutil.copy(plain, later)
    with clew.Store(SqliteBackend(later), clock=Ticking(BEGUN + 60_000_000)) as store:
        go_on(store)
    with ExitStack() as opened:

        def serve(path: Path) -> Running:
            store = opened.enter_context(clew.Store(SqliteBackend(path), clock=Ticking(ASKED, step=0)))
            settings = {"heartbeat": 0.001, "rate": 1e9, "burst": 10**9, "streams": 10**6}
            return opened.enter_context(running(store, **settings))

        yield Twins(serve(plain), serve(later))


def each_once(requests: Iterable[Request]) -> Iterator[Request]:
    """Without those that were there before."""
    seen: set[str] = set()
    for one in requests:
        if str(one) not in seen:
            seen.add(str(one))
            yield one


def difference(what: str, plain: Told, later: Told) -> str | None:
    """None: both answers are the same, byte for byte, with their headers."""
    one, other = (f"{told.status}\n{told.headers}\n\n{_said(told)!r}" for told in (plain, later))
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    at = next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
    begin = max(0, at - 60)
    return f"{what}, at {at}:\n  plain: {one[begin : at + 100]!r}\n  later: {other[begin : at + 100]!r}"


def _said(told: Told) -> bytes:
    """Of a stream all up to its first sign of life: more of these come until the caller has gone away."""
    return told.body.partition(IDLE)[0] if STREAM in told.headers else told.body
