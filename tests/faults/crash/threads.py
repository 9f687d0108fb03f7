"""Many threads and tasks on one store; each function in a process of its own."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import clew
from tests.faults.crash.common import chain_of, message, said, texts
from tests.faults.history.checker import History, check, log_of


def together(functions: list[Callable[[], object]]) -> list[BaseException]:
    """Run functions in threads that start at once; what they raised."""
    barrier = threading.Barrier(len(functions))
    raised: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        barrier.wait()
        try:
            function()
        except BaseException as error:  # noqa: BLE001 (told to the caller)
            raised.append(error)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def thread_storm(url: str, threads: int, appends: int, sessions: int) -> dict[str, Any]:
    """F-31: every thread appends to any session and reads it; the interpreter switches all the time."""
    sys.setswitchinterval(1e-6)
    store = clew.open(url)
    handles = [store.session(f"s{number}") for number in range(sessions)]
    history = History()

    def client(number: int) -> None:
        choose = random.Random(number)
        for n in range(appends):
            session = choose.choice(handles)
            values = [f"{number}.{n}.{part}" for part in range(choose.choice((1, 1, 3)))]
            with history.append(f"thread {number}", session.id, values):
                entries = session.append(*map(message, values))
            if [entry.message["content"] for entry in entries] != values:
                raise AssertionError(f"{values} came back as {entries}")
            if choose.random() < 0.3:
                history.read(f"thread {number}", session.id, partial(texts, session))

    raised = together([partial(client, number) for number in range(threads)])
    logs = {session.id: log_of(session) for session in handles}
    wrong = [line for session in handles for line in chain_of(session)]
    counted = sum(session.info.messages for session in handles)
    total = store.stats().messages
    store.close()
    return {
        "raised": list(map(repr, raised)),
        "violations": said(check(history.operations, logs)),
        "wrong": wrong,
        "operations": len(history.operations),
        "counts": [counted, total, sum(map(len, logs.values()))],
    }


def readers_and_writer(url: str, appends: int) -> dict[str, Any]:
    """J7: threads that read, whole and from the end, while one appends."""
    sys.setswitchinterval(1e-6)
    store = clew.open(url)
    session = store.session("s")
    history = History()
    done = threading.Event()
    wrong: list[str] = []

    def write() -> None:
        for number in range(appends):
            with history.append("writer", "s", [f"{number}", f"{number}+"]):
                session.append(message(f"{number}"), message(f"{number}+"))
        done.set()

    def read(name: str) -> None:
        is_over = False
        while not is_over:
            is_over = done.is_set()
            history.read(name, "s", lambda: texts(session))
            history.read(name, "s", lambda: [e.message["content"] for e in session.entries()])
            last = [str(found["content"]) for found in session.messages(last=2)]
            if last and last[1] != last[0] + "+":
                wrong.append(f"half a batch is last: {last}")
            if session.info.messages % 2:
                wrong.append("half a batch is counted")

    raised = together([write, *(partial(read, name) for name in ("r1", "r2", "r3"))])
    log = log_of(session)
    store.close()
    reads = sum(operation.kind == "read" for operation in history.operations)
    return {
        "raised": list(map(repr, raised)),
        "violations": said(check(history.operations, {"s": log})),
        "wrong": wrong[:10],
        "sizes": [len(log), reads],
    }


def crowd_of_threads(path: str, count: int) -> list[str]:
    """So many threads append once each, at the same moment."""
    with clew.open(path) as store:
        sessions = [store.session(f"s{number}") for number in range(8)]

        def append(n: int) -> None:
            sessions[n % 8].append(message(f"{n}a"), message(f"{n}b"))

        raised = together([partial(append, n) for n in range(count)]) if count else []
        return [*map(repr, raised), *_whole(store, count)]


def crowd_of_tasks(path: str, count: int) -> list[str]:
    """So many tasks append once each, in the same turn of the loop."""

    async def use(store: clew.AsyncStore) -> None:
        sessions = [await store.session(f"s{number}") for number in range(8)]
        await asyncio.gather(
            *(sessions[n % 8].append(message(f"{n}a"), message(f"{n}b")) for n in range(count))
        )

    with clew.open(path) as store:
        asyncio.run(use(clew.AsyncStore.over(store)))
        return _whole(store, count)


def _whole(store: clew.Store, count: int) -> list[str]:
    """What is not as it should be after a crowd of batches."""
    wrong = []
    found: list[str] = []
    for number in range(8):
        mine = texts(store.get(f"s{number}"))
        wrong += chain_of(store.get(f"s{number}"))
        wrong += [f"{a} {b}" for a, b in zip(mine[::2], mine[1::2], strict=True) if b != a[:-1] + "b"]
        found += mine
    if sorted(found) != sorted(f"{n}{part}" for n in range(count) for part in "ab"):
        wrong.append(f"{len(found)} messages")
    return wrong
