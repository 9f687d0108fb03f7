"""A process that mirrors turns into a store until it is killed, and says of each when it is kept."""

from __future__ import annotations

import asyncio
import itertools
import sys

import clew
from clew.adapters.claude import ClewSessionStore
from tests.adapters.claude.lines import KEY, turn


async def mirror(url: str) -> None:
    async with clew.open_async(url) as store:
        adapter = ClewSessionStore(store)
        for number in itertools.count():
            await adapter.append(KEY, turn(number))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(mirror(sys.argv[1]))
