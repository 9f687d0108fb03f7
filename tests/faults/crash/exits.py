"""Programs that end without closing their store."""

from __future__ import annotations

import asyncio
import sys
import threading

import clew
from tests.faults.crash.common import message


def leave(path: str, count: int, how: str) -> None:
    """Hand over appends that nobody waits for, and end."""
    store = clew.open(path)
    session = store.session("s")
    for number in range(count):
        session.append_nowait(message(f"{number}"))
    match how:
        case "return":
            pass
        case "exit":
            sys.exit(0)
        case "raise":
            raise RuntimeError("the program has a bug")
        case "forget":
            del store, session


def leave_from_a_thread(path: str, count: int) -> None:
    thread = threading.Thread(target=leave, args=(path, count, "return"))
    thread.start()
    thread.join()


def leave_a_loop(path: str, count: int) -> None:
    async def use() -> None:
        store = await clew.open_async(path)
        session = await store.session("s")
        for number in range(count):
            session.append_nowait(message(f"{number}"))

    asyncio.run(use())
