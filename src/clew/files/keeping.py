"""Taking a snapshot while `gc` may be at work (see clew.files.records for why this is safe)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from clew.core.log.lease import Lease
from clew.errors import ClewError, LeaseHeldError, StoreBusyError
from clew.files.records import CollectedError, Shelf, end_claim, refuse_if_claimed, shelf_of, take_claim

if TYPE_CHECKING:
    from clew.core.retention.sweep import Machinery

TRIES: Final = 8
WAIT: Final = 30.0
SHORTEST_PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.02
TTL: Final = 600_000_000
"""Nobody renews it; a snapshot that takes longer than this may have to be taken again."""

T = TypeVar("T")


def keep(engine: Machinery, attempt: Callable[[Shelf], T]) -> T:
    """Take a snapshot: `attempt` scans with an ObjectWriter of its own, and passes the shelf
    on to `snapshots.put`. It is called again if `gc` came in between, and then `gc` has to wait."""
    try:
        return attempt(_shelf(engine))
    except CollectedError:
        pass
    for _ in range(TRIES - 1):
        try:
            with claimed(engine):
                return attempt(_shelf(engine))
        except CollectedError:
            continue
    raise StoreBusyError(f"objects were removed while the snapshot was taken, {TRIES} times; it was not kept")


@contextmanager
def claimed(engine: Machinery) -> Iterator[None]:
    """Keep `gc` out, unless it takes too long to end."""
    claim = _claim(engine)
    try:
        yield
    finally:
        if claim is not None:
            _give_back(engine, claim)


def _shelf(engine: Machinery) -> Shelf:
    with engine.read() as reader:
        return shelf_of(reader)


def _claim(engine: Machinery) -> Lease | None:
    """Keep `gc` out, once it is done; None: it takes too long, so try without."""
    end, pause = time.monotonic() + WAIT, SHORTEST_PAUSE
    while True:
        try:
            with engine.read() as reader:  # first: to ask for the right to write holds up others
                refuse_if_claimed(reader, engine.here)
            return engine.run(lambda tx: take_claim(tx, engine.here, TTL))
        except LeaseHeldError:
            if time.monotonic() > end:
                return None
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)


def _give_back(engine: Machinery, claim: Lease) -> None:
    try:
        engine.run(lambda tx: end_claim(tx, claim))
    except ClewError:
        pass  # it ends by itself, and must not hide what became of the snapshot
