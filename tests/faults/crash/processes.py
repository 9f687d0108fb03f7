"""Several processes on one file, each of these functions in a process that forks them."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from typing import Any

import apsw
import msgspec

import clew
from tests.faults.crash.common import chain_of, message
from tests.faults.history.checker import History, Operation, check, log_of
from tests.support.children import Child, ProcessFailed

Tell = Callable[[Any], None]


class Gate:
    """Lets processes that were forked behind it go all at once."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def wait(self) -> None:
        os.close(self._writing)
        os.read(self._reading, 1)

    def open(self) -> None:
        os.close(self._writing)
        os.close(self._reading)


def all_at_once(function: Callable[..., None], count: int, *args: Any) -> list[list[Any]]:
    """Run a function in so many forks that start together; what each of them told."""
    gate = Gate()
    children = [Child(function, gate, number, *args) for number in range(count)]
    gate.open()
    heard = [child.hear_all() for child in children]
    ends = [child.wait() for child in children]
    if any(ends):
        raise ProcessFailed(f"the processes ended with {ends}")
    return heard


# F-22


def append_many(tell: Tell, gate: Gate, number: int, path: str, count: int) -> None:
    store = clew.open(path)
    session = store.session(f"s{number}")
    history = History()
    gate.wait()
    for n in range(count):
        values = [f"{number}.{n}.{part}" for part in range(1 + n % 3)]
        with history.append(f"process {number}", session.id, values):
            session.append(*map(message, values))
    store.close()
    tell(history.operations)


def append_together(path: str, processes: int, count: int) -> list[str]:
    """The broken promises when so many processes appended to sessions of their own."""
    clew.open(path).close()
    heard = all_at_once(append_many, processes, path, count)
    operations = msgspec.convert([operation for told in heard for operation in told[0]], list[Operation])
    with clew.open(path) as store:
        sessions = [store.get(f"s{number}") for number in range(processes)]
        wrong = [line for session in sessions for line in chain_of(session)]
        wrong += map(str, check(operations, {session.id: log_of(session) for session in sessions}))
    expected = processes * count
    done = sum(operation.outcome == "ok" for operation in operations)
    return wrong if done == expected else [*wrong, f"{done} of {expected} appends were acknowledged"]


def hold_the_store(tell: Tell, path: str) -> None:
    """Another program in the middle of a transaction, until it is killed."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    tell("held")
    os.read(os.pipe()[0], 1)


def append_while_held(path: str) -> list[Any]:
    """What an append says while another process holds the store, and afterwards."""
    clew.open(path).close()
    holder = Child(hold_the_store, path)
    holder.hear()
    store = clew.open(path, timeout=0.2)
    before = len(store.list())
    try:
        store.create("refused")
        said: list[Any] = ["nothing"]
    except clew.StoreBusyError as error:
        said = [error.code, error.retryable, isinstance(error.__cause__, apsw.BusyError)]
    holder.kill()
    holder.wait()
    created = store.find("refused") is not None
    store.create("accepted")
    return [*said, created, len(store.list()) - before]


# F-23


def contend(tell: Tell, gate: Gate, number: int, path: str, head: dict[str, Any]) -> None:
    session = clew.open(path).get("s")
    gate.wait()
    try:
        session.append(message(f"{number}"), expect=clew.Head(**head))
        tell("won")
    except clew.HeadMovedError as error:
        tell(["lost", str(error.actual), str(session.head)])


def duel(path: str, rounds: int) -> list[str]:
    """Two processes append behind the same head: what went otherwise than one winning."""
    wrong = []
    store = clew.open(path)
    head = store.session("s").head
    store.close()
    for number in range(rounds):
        place = {"branch": head.branch, "position": head.position}
        heard = list(chain.from_iterable(all_at_once(contend, 2, path, place)))
        store = clew.open(path)
        session = store.get("s")
        head = session.head
        told = [["lost", str(head), str(head)], "won"]
        if sorted(heard, key=str) != sorted(told, key=str) or session.info.entries != number + 1:
            wrong.append(f"round {number}: {heard}, {session.info.entries} entries")
        wrong += chain_of(session)
        store.close()
    return wrong
