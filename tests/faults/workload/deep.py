"""Everything that can be read from a store, exactly, in the parts that differ in how they are guarded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

import clew
from tests.faults.workload.steps import message

BATCH: Final = "of one batch"
"""The last three messages of `s0` begin so."""


class Deep(msgspec.Struct):
    """What reading gave."""

    log: dict[str, list[Any]] = {}
    """By session: its entries, with their hashes; and its messages."""
    counted: dict[str, list[Any]] = {}
    """What is known of a session without reading its entries."""
    beside: dict[str, Any] = {}
    files: dict[str, str] = {}
    """What the snapshots hold."""


def fill(store: clew.Store, files: Path, *, each: bool) -> list[Deep]:
    """Put something of everything in it; how it looks in the end, or after each step."""
    files.mkdir(parents=True, exist_ok=True)
    stages: list[Deep] = []

    def look() -> None:
        if each:
            stages.append(deep_view(store, None))

    look()
    sessions: list[clew.Session] = []
    for n in range(4):
        sessions.append(store.create(f"s{n}", title=f"title {n}", tags=["tag"]))
        look()
    for number in range(12):
        for n, session in enumerate(sessions):
            size = 9_000 if number % 5 == 3 else 40 + number * 17
            session.append(message(f"<{n}.{number}>" + "abcdefghij"[number % 10] * size))
            look()
        if number == 6:
            _beside(sessions[0], files)
            look()
            fork = sessions[2].fork("fork", at=3)
            look()
            fork.append(message("aside"))
            look()
            sessions[3].rewind(2)
            look()
    sessions[0].append(*(message(f"{BATCH} {n}") for n in range(3)))
    return [*stages, deep_view(store, files.with_name("aside-0"))]


def _beside(session: clew.Session, files: Path) -> None:
    for name in "abc":
        (files / name).write_bytes(name.encode() * 3_000)
    session.checkpoint("files", files=files, state={"n": 1})
    session.annotate(2, label="gold")
    session.set_var("k", [1, 2, {"deep": "value"}])
    session.add_event("tool", {"name": "grep"})
    session.add_usage(model="m", input_tokens=7, output_tokens=5)
    session.compact("in short")


def deep_view(store: clew.Store, aside: Path | None) -> Deep:
    """Read everything in several ways. `aside`: restore the snapshots there, and read them too."""
    found = Deep()
    for info in store.list(limit=1000):
        session = store.get(info.id)
        entries = [
            [entry.id, entry.position, entry.kind, entry.raw.hex(), entry.stamp, entry.hash]
            for entry in session.entries()
        ]
        found.log[info.id] = [*entries, session.messages(), session.messages(last=3)]
        found.counted[info.id] = [info.messages, info.entries, info.user_turns, info.bytes, info.hash]
        found.beside[info.id] = msgspec.to_builtins(
            [
                info,
                [dict(entry.annotations) for entry in session.entries()],
                session.checkpoints(),
                session.vars(),
                list(session.events()),
                session.usage(),
                session.summary,
            ]
        )
        for checkpoint in session.checkpoints() if aside is not None else ():
            if checkpoint.snapshot and aside is not None:
                found.files |= _restored(store, checkpoint.snapshot, aside / info.id)
    found.beside["(trash)"] = [info.id for info in store.list(deleted=True)]
    return msgspec.json.decode(msgspec.json.encode(found), type=Deep)  # as it looks to other processes


def _restored(store: clew.Store, snapshot: str, aside: Path) -> dict[str, str]:
    store.restore(snapshot, aside)
    return {path.name: path.read_bytes().hex() for path in sorted(aside.iterdir())}
