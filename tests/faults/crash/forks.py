"""F-26: fork() while a store is open. Each function runs in a process that nobody else shares."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
from tests.faults.crash.common import chain_of, check_file, message, texts
from tests.support.children import Child

Tell = Callable[[Any], None]
Found = dict[str, Any]


def opened(path: str) -> clew.Store:
    """A store in full use: written to, read from, with its background writer at work."""
    store = clew.open(path)
    session = store.session("parent")
    session.append(message("p0"))
    session.append_nowait(message("p1"))
    store.flush()
    session.messages()
    return store


def reopened(path: str, *names: str) -> Found:
    """What a process that was not there finds, and what is wrong with it."""
    watcher = Child(_look, path, names)
    found: Found = watcher.hear()
    watcher.wait()
    return found


def _look(tell: Tell, path: str, names: tuple[str, ...]) -> None:
    with clew.open(path) as store:
        found: Found = {name: texts(store.get(name)) for name in names}
        found["wrong"] = [line for name in names for line in chain_of(store.get(name))]
    tell({**found, "integrity": check_file(Path(path))})


def _append_as_child(tell: Tell, store: clew.Store, count: int) -> None:
    session = store.session("child")
    store.get("parent").append(message("from the child"))
    for number in range(count):
        session.append(message(f"c{number}"))
    session.append_nowait(message("last"))
    store.flush()
    tell(texts(session))


def child_goes_first(path: str) -> Found:
    """Both append; the child ends without a word; the parent goes on."""
    store = opened(path)
    log = Path(path + "-wal")
    before = log.stat().st_ino
    child = Child(_append_as_child, store, 20)
    for number in range(20):
        store.get("parent").append(message(f"meanwhile {number}"))
    heard = child.hear()
    status = child.wait()
    kept = log.stat().st_ino == before and log.stat().st_size > 0
    store.get("parent").append(message("after"))
    seen = reopened(path, "parent", "child")
    store.close()
    return {
        "heard": heard,
        "status": status,
        "log kept": kept,
        **seen,
        "again": reopened(path, "parent", "child"),
    }


def _go_on_alone(tell: Tell, store: clew.Store, go: int) -> None:
    session = store.session("child")
    session.append(message("before"))
    tell("ready")
    os.read(go, 1)
    for number in range(5):
        session.append(message(f"alone {number}"))
    tell("done")
    os.read(go, 1)
    session.append(message("at last"))
    store.close()


def parent_goes_first(path: str) -> Found:
    """The parent closes the store while the child has it open; then others come and go."""
    store = opened(path)
    waiting, go = os.pipe()
    child = Child(_go_on_alone, store, waiting)
    child.hear()
    store.get("parent").append(message("goodbye"))
    store.close()
    os.write(go, b".")
    child.hear()
    first = reopened(path, "parent", "child")
    os.write(go, b".")
    child.wait()
    return {"first": first, "then": reopened(path, "parent", "child"), "status": child.status}


def _close_at_once(tell: Tell, store: clew.Store) -> None:
    store.close()
    tell("closed")


def child_closes(path: str) -> Found:
    """A child that closes the store, and one that never uses it and ends with all clean-up."""
    store = opened(path)
    child = Child(_close_at_once, store)
    heard = [child.hear(), child.wait()]
    store.get("parent").append(message("first"))
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    heard.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    store.get("parent").append(message("second"))
    found = reopened(path, "parent")
    store.close()
    return {"heard": heard, **found}


def _worker(number: int) -> list[str]:
    session = _shared.session(f"worker-{number}")
    for n in range(10):
        session.append(message(f"{number}.{n}"))
    return texts(session)


_shared: clew.Store


def pool_of_workers(path: str) -> Found:
    """multiprocessing with fork: what most programs do who fork at all."""
    global _shared  # noqa: PLW0603 (so it reaches the forks)
    _shared = store = opened(path)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        answer = pool.map_async(_worker, range(8))
        for number in range(20):
            store.get("parent").append(message(f"meanwhile {number}"))
        told = answer.get()
    store.close()
    names = [f"worker-{number}" for number in range(8)]
    found = reopened(path, "parent", *names)
    return {"told": told, "kept": [found[name] for name in names], **found}


def _append_once(tell: Tell, store: clew.Store, number: int) -> None:
    session = store.session(f"child-{number}")
    session.append(message("one"), message("two"))
    tell(texts(session))


def fork_in_a_storm(path: str, forks: int) -> Found:
    """Fork again and again while other threads write and read: no child may wait for a thread it has not."""
    store = clew.open(path)
    stop = threading.Event()
    acknowledged: dict[str, int] = {}

    def write(name: str) -> None:
        session = store.session(name)
        number = 0
        while not stop.is_set():
            session.append(message(f"{number}"))
            number += 1
            acknowledged[name] = number

    def read() -> None:
        while not stop.is_set():
            store.list()

    threads = [threading.Thread(target=write, args=(f"thread-{n}",)) for n in range(2)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    heard = []
    for number in range(forks):
        child = Child(_append_once, store, number)
        heard.append(child.hear())
        child.wait()
    stop.set()
    for thread in threads:
        thread.join()
    store.close()
    found = reopened(path, *acknowledged, *(f"child-{number}" for number in range(forks)))
    kept = {name: len(found[name]) for name in acknowledged}
    return {"heard": heard, "lost": {n: c for n, c in acknowledged.items() if kept[n] != c}, **found}


def _use_with_await(tell: Tell, store: clew.AsyncStore) -> None:
    async def use() -> list[str]:
        session = await store.session("child")
        await session.append(message("c0"))
        return [str(found["content"]) for found in await session.messages()]

    tell(asyncio.run(use()))


def fork_an_async_store(path: str) -> Found:
    """The async face has threads of its own, which do not come along."""

    async def use(store: clew.AsyncStore) -> None:
        session = await store.session("parent")
        await session.append(message("p0"))
        await asyncio.gather(*(session.messages() for _ in range(8)))

    store = clew.AsyncStore.over(clew.open(path))
    asyncio.run(use(store))
    child = Child(_use_with_await, store)
    heard = child.hear()
    child.wait()
    asyncio.run(use(store))
    found = reopened(path, "parent", "child")
    asyncio.run(store.close())
    return {"heard": heard, **found}
