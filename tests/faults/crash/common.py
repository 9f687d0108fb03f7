"""What the crash tests share. Imports no pytest: the processes that they start import it too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from clew import Session, Store
from clew.core.log.digest import ROOT
from tests.faults.history.checker import Violation, check_digest

MEMORY = Path("/dev/shm")


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def texts(session: Session) -> list[str]:
    return [str(found["content"]) for found in session.messages()]


@contextmanager
def quick_directory() -> Iterator[Path]:
    """A directory in memory, where a sync costs nothing: for states that were made, not written."""
    base = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="clew-", dir=base) as directory:
        yield Path(directory)


def check_file(path: Path) -> str:
    """What SQLite itself says about a database: 'ok' when all is well."""
    connection = apsw.Connection(str(path))
    try:
        return "; ".join(str(row[0]) for row in connection.execute("PRAGMA integrity_check"))
    finally:
        connection.close()


def everything(store: Store) -> dict[str, Any]:
    """All that can be read from a store, to be compared."""
    found: dict[str, Any] = {"stats": (stats := store.stats()).messages, "entries": stats.entries}
    for info in store.list(limit=1000):
        session = store.get(info.id)
        found[info.id] = (
            info,
            [(entry.id, entry.raw, entry.digest, dict(entry.annotations)) for entry in session.entries()],
            session.messages(),
            session.checkpoints(),
            session.vars(),
            session.summary,
            session.tree(),
        )
    found["(trash)"] = list(store.list(deleted=True, limit=1000))
    return found


def chain_of(session: Session) -> list[str]:
    """What is wrong with the positions and hashes of a session; [] when nothing is."""
    wrong = []
    digest = ROOT
    for place, entry in enumerate(session.entries()):
        if entry.position != place:
            wrong.append(f"{entry.id} is at {place}")
        if entry.digest != check_digest(entry, digest):
            wrong.append(f"the hash of {entry.id} does not fit")
        digest = entry.digest
    if session.info.hash != digest.hex():
        wrong.append(f"the head's hash is not that of the last entry of {session.id!r}")
    return wrong


def said(violations: list[Violation]) -> str:
    return "\n".join(map(str, violations[:20]))
