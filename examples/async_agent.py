"""Many agents in one event loop, one store, and a caller who loses patience.

    python examples/async_agent.py

Appends of different tasks that are ready together share a transaction. A cancelled append is there as a
whole or not at all; with a key, asking again is safe.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import clew

AGENTS = 20
TURNS = 5


async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Pretends to think."""
    await asyncio.sleep(0.002)
    return {"role": "assistant", "content": f"I have read {len(messages)} messages."}


async def work(store: clew.AsyncStore, name: str) -> None:
    """One agent: a session of its own, a few turns."""
    s = await store.session(name, tags=["fleet"])
    for turn in range(TURNS):
        await s.append({"role": "user", "content": f"Go on, {name}."}, key=f"turn-{turn}")
        await s.append(await model(await s.context(max_messages=20)))
    await s.set_var("done", True)


async def impatient(store: clew.AsyncStore) -> list[dict[str, Any]]:
    """Give up waiting, then do the same again: it happens once."""
    s = await store.session("impatient")
    message = {"role": "user", "content": "Is it there?"}
    waiting = asyncio.create_task(s.append(message, key="question"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await s.append(message, key="question")
    return await s.messages()


async def main(path: Path) -> None:
    async with clew.open_async(path) as store:
        async with asyncio.TaskGroup() as group:
            for number in range(AGENTS):
                group.create_task(work(store, f"agent-{number}"))
        page = await store.list(tag="fleet", limit=100)
        print(f"{len(page)} agents, {sum(info.messages for info in page)} messages")
        print(f"the impatient one asked {len(await impatient(store))} time")

        s = await store.get("agent-0")
        other = await s.fork(at=3)
        await other.append({"role": "user", "content": "And if not?"})
        print(f"{other.id} has {(await other.info).messages} messages, {s.id} has {(await s.info).messages}")
        async for entry in other.entries(last=2):
            print(f"  {entry.position} {entry.message['content']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory) / "agents.db"))
