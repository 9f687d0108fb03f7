"""A process that takes snapshots, or collects garbage, over and over; run as a module."""

from __future__ import annotations

import random
import sys
import time
from functools import partial

import clew
from clew.core.engine.engine import Engine
from clew.errors import LeaseHeldError
from clew.files import records
from clew.files.upkeep.gc import gc
from tests.files.snapshots import Tree, take


def some_tree(chance: random.Random) -> Tree:
    """Few contents, so that what one snapshot forgets another one takes up again."""
    return {
        f"d{folder}": {f"f{file}": b"content %d" % chance.randrange(12) for file in range(3)}
        for folder in range(chance.randrange(1, 4))
    }


def take_and_delete(engine: Engine, seed: int, end: float) -> int:
    """Take at least three snapshots, and delete all but the last two."""
    chance = random.Random(seed)
    mine: list[str] = []
    count = 0
    while count < 3 or time.monotonic() < end:
        mine.append(take(engine, some_tree(chance)).id)
        count += 1
        if len(mine) > 2:
            engine.run(partial(records.delete, id=mine.pop(0)))
    return count


def collect(engine: Engine, end: float) -> int:
    """Collect over and over; how many objects went."""
    removed = 0
    while time.monotonic() < end:
        try:
            removed += gc(engine, thorough=True, merge=True).objects
        except LeaseHeldError:
            pass
        time.sleep(0.003)  # without a gap a snapshot that waits for its turn gets it by luck
    return removed


def main(path: str, what: str, seed: str, seconds: str) -> None:
    with clew.open(path) as store:
        end = time.monotonic() + float(seconds)
        engine = store._engine
        count = collect(engine, end) if what == "collect" else take_and_delete(engine, int(seed), end)
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
