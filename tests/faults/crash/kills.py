"""F-01 in a process of its own: it forks workers, kills them, and looks at what they leave.

This process imports Clew and never opens a store: a fork of it starts in a millisecond and has
nothing of anybody else's in it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
from tests.faults.crash.common import chain_of, check_file, message
from tests.faults.history.checker import History, Operation, Record, check, log_of
from tests.support.children import Child, ProcessFailed
from tests.support.effort import usually

Tell = Callable[[Any], None]

LONGEST = usually(0.04, thorough=0.08)
"""Where a sync costs nothing a worker does as much in less time."""
SESSIONS = ("alpha", "beta", "gamma")
PADDING = "".join(chr(33 + n * 7919 % 90) for n in range(6000))


def append_for_ever(tell: Tell, path: str, cycle: int, planted: str) -> None:
    """Append singles and batches to several sessions; tell before each, and after each."""
    choose = random.Random(cycle).choice
    store = clew.open(path)
    sessions = [store.session(name) for name in SESSIONS]
    for number in range(1_000_000):
        session = choose(sessions)
        values = [f"{cycle}.{number}.{place}" for place in range(choose((1, 1, 1, 2, 5)))]
        padding = choose(("", "", "", PADDING))
        tell([session.id, values])
        tell(_append(session, [message(value, padding=padding) for value in values], planted))


def _append(session: clew.Session, messages: list[dict[str, Any]], planted: str) -> list[list[Any]]:
    if planted == "acknowledges too early":
        for each in messages:
            session.append_nowait(each)
        return []
    if planted == "batch in pieces":
        entries = [entry for each in messages for entry in session.append(each)]
    else:
        entries = session.append(*messages)
    return [[entry.id, entry.hash] for entry in entries]


def look(tell: Tell, path: str) -> None:
    """What the killed worker left."""
    began = time.monotonic()
    store = clew.open(path)
    sessions = [session for name in SESSIONS if (session := store.find(name)) is not None]
    logs = {session.id: log_of(session) for session in sessions}
    hashes = {entry.id: entry.hash for session in sessions for entry in session.entries()}
    wrong = [line for session in sessions for line in chain_of(session)]
    counted = {session.id: session.info.messages for session in sessions}
    store.close()
    tell({"logs": logs, "hashes": hashes, "wrong": wrong, "counted": counted})
    tell({"integrity": check_file(Path(path)), "seconds": time.monotonic() - began})


def kill_cycles(directory: str, cycles: int, seed: int, planted: str = "") -> dict[str, Any]:
    """Kill a worker within LONGEST seconds, look, and again; a new store every 20 cycles."""
    wait = random.Random(seed).uniform
    wrong: list[str] = []
    acknowledged = 0
    unknown_kept = 0
    for cycle in range(cycles):
        if cycle % 20 == 0:
            path = f"{directory}/{cycle}.db"
            history = History()
            promised: dict[str, str] = {}
        worker = Child(append_for_ever, path, seed * 100_000 + cycle, planted)
        time.sleep(wait(0.001, LONGEST))
        worker.kill()
        heard = worker.hear_all()
        if worker.wait() != -9:
            raise ProcessFailed("the worker ended before it was killed")
        for asked, answer in zip(heard[::2], [*heard[1::2], None], strict=False):
            operation = history.invoke("worker", asked[0], asked[1])
            if answer is not None:
                history.end(operation, "ok")
                promised.update(answer)
                acknowledged += 1
        found, verdict = _look(path)
        logs = {name: [Record(*record.values()) for record in log] for name, log in found["logs"].items()}
        wrong += [f"cycle {cycle}: {violation}" for violation in check(history.operations, logs)]
        wrong += [f"cycle {cycle}: {line}" for line in found["wrong"]]
        if verdict["integrity"] != "ok":
            wrong.append(f"cycle {cycle}: {verdict['integrity']}")
        if {name: len(log) for name, log in logs.items()} != found["counted"]:
            wrong.append(f"cycle {cycle}: the sessions count {found['counted']}")
        if moved := [id for id, hash in promised.items() if found["hashes"].get(id) != hash]:
            wrong.append(f"cycle {cycle}: {len(moved)} entries are not what was acknowledged: {moved[:3]}")
        unknown_kept += _settle(history.operations, logs)
    return {"wrong": wrong, "acknowledged": acknowledged, "unknown_kept": unknown_kept}


def _look(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    looker = Child(look, path)
    found, verdict = looker.hear(), looker.hear()
    if looker.wait() != 0:
        raise ProcessFailed("the store could not be read after a kill")
    return found, verdict


def _settle(operations: list[Operation], logs: dict[str, list[Record]]) -> int:
    """What nobody knew is known now: whatever is there must stay, whatever is not must stay away."""
    there = {record.value for log in logs.values() for record in log}
    kept = 0
    for operation in operations:
        if operation.outcome == "unknown":
            is_there = operation.values[0] in there
            operation.outcome = "ok" if is_there else "fail"
            kept += is_there
    return kept
