"""Those who take snapshots and collect garbage at the same time. Imports no pytest."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import clew
from clew.backends.contract import Transaction
from clew.core.engine.engine import Engine
from clew.errors import LeaseHeldError
from clew.files import records
from clew.files.upkeep import gc as collecting
from clew.files.upkeep import merge
from clew.files.upkeep.gc import gc
from tests.files.snapshots import take
from tests.files.trees import Tree
from tests.support.children import Child
from tests.support.waiting import until

Tell = Callable[[Any], None]


def some_tree(chance: random.Random) -> Tree:
    """Few contents, so that what one snapshot forgets another one takes up again."""
    return {
        f"d{folder}": {f"f{file}": b"content %d" % chance.randrange(12) for file in range(3)}
        for folder in range(chance.randrange(1, 4))
    }


def take_and_delete(engine: Engine, seed: int, count: int) -> None:
    """Take so many snapshots, and delete all but the last two."""
    chance = random.Random(seed)
    mine: list[str] = []
    for _ in range(count):
        mine.append(take(engine, some_tree(chance)).id)
        if len(mine) > 2:
            engine.run(partial(records.delete, id=mine.pop(0)))


def collect(engine: Engine, is_over: Callable[[], bool]) -> int:
    """Collect whenever there is another snapshot, and once more in the end; how many objects went."""
    removed, goes_on = 0, True
    while goes_on:
        goes_on = not is_over()
        seen = _snapshots(engine)
        try:
            removed += gc(engine, thorough=True, merge=True).objects
        except LeaseHeldError:
            pass
        until(lambda seen=seen: is_over() or _snapshots(engine) != seen)  # type: ignore[misc]
    return removed


def _snapshots(engine: Engine) -> list[str]:
    with engine.read() as reader:
        return [record.id for record in records.iterate(reader)]


# -- in processes


def in_processes(path: str, count: int) -> list[Any]:
    """Two who take and one who collects; the number of objects that went, and how they ended."""
    over, end = os.pipe()
    takers = [Child(_take, path, seed, count, end) for seed in (1, 2)]
    collector = Child(_collect, path, over, end)
    ends = [taker.wait() for taker in takers]
    os.close(end)
    return [collector.hear(), *ends, collector.wait()]


def _take(tell: Tell, path: str, seed: int, count: int, end: int) -> None:
    os.close(end)
    with clew.open(path) as store:
        take_and_delete(store._engine, seed, count)


def _collect(tell: Tell, path: str, over: int, end: int) -> None:
    os.close(end)
    os.set_blocking(over, False)

    def is_over() -> bool:
        try:
            return os.read(over, 1) == b""
        except BlockingIOError:
            return False

    with clew.open(path) as store:
        tell(collect(store._engine, is_over))


def claim_and_vanish(path: str) -> None:
    """End without a word, with the right to collect for an hour."""
    engine = clew.open(path)._engine
    engine.run(lambda tx: records.take_claim(tx, engine.host, 3_600_000_000))
    os._exit(0)


def die_collecting(path: str, number: int) -> None:
    """Collect in small steps, and die inside the transaction of the one with this number (from 1)."""
    for name in ("PACKS_AT_ONCE", "OBJECTS_AT_ONCE", "BYTES_AT_ONCE"):
        setattr(collecting, name, 1)
    collecting._Collection._apply = _deadly(collecting._Collection._apply, number)  # type: ignore[method-assign]
    gc(clew.open(path)._engine)


def die_merging(path: str, number: int) -> None:
    """Merge small packs, and die inside the transaction of the one with this number."""
    for name, value in {"FEWEST": 2, "MERGED": 6000, "SMALL": 3000, "PACKS_AT_ONCE": 1}.items():
        setattr(merge, name, value)
    merge.PackMove.apply = _deadly(merge.PackMove.apply, number)  # type: ignore[method-assign]
    engine = clew.open(path)._engine
    while True:
        gc(engine, thorough=True, merge=True)


def _deadly(apply: Callable[..., Any], number: int) -> Callable[..., Any]:
    left = number

    def instead(self: Any, tx: Transaction, **more: Any) -> Any:
        nonlocal left
        left -= 1
        applied = apply(self, tx, **more)
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return applied

    return instead
