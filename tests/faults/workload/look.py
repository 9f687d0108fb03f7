"""What is found in a store that a crash left, by a new process that knows nothing of the crash."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import clew
from tests.faults.campaign import told_by
from tests.faults.history.checker import Record, check_whole, log_of
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.moves import World, standing_of
from tests.faults.workload.worker import SHARED
from tests.support.children import Child, preload

Tell = Callable[[Any], None]


class Found(msgspec.Struct):
    """All that can be read, and what is wrong with it by itself."""

    logs: dict[str, list[Record]] = {}
    """Of the shared sessions."""
    hashes: dict[str, str] = {}
    world: World = {}
    """Of the others."""
    wrong: list[str] = []
    modules: list[str] = []


def look_at(subject: Subject, snapshots: dict[str, str], planted: str = "") -> Found:
    """Open the store in a process of its own and read everything. `snapshots`: by id, what the file
    `newest` in it says. `planted`: a bug that it has, too: some are in what reads after a crash."""
    found = msgspec.convert(told_by(Child(_look, subject, snapshots, planted))[-1], Found)
    preload(found.modules)
    return found


def _look(tell: Tell, subject: Subject, snapshots: dict[str, str], planted: str) -> None:
    plant(planted)
    found = Found()
    try:
        with tempfile.TemporaryDirectory(prefix="clew-look-") as aside:
            os.environ["XDG_CACHE_HOME"] = aside
            with subject.open() as store:
                _read(store, found)
                found.wrong += map(str, check_whole(store))
                for id, content in snapshots.items():
                    found.wrong += _check_snapshot(store, id, content, Path(aside, "restored"))
        found.wrong += subject.check()
    except Exception:  # noqa: BLE001 (whatever it is, this store is bad)
        found.wrong.append(f"it cannot be read: {traceback.format_exc(limit=-6)}")
    found.modules = list(sys.modules)
    tell(found)


def _read(store: clew.Store, found: Found) -> None:
    for info in store.list(limit=1_000_000):
        session = store.get(info.id)
        if info.id in SHARED:
            found.logs[info.id] = log_of(session)
            found.hashes |= {entry.id: entry.hash for entry in session.entries()}
        else:
            found.world[info.id] = standing_of(session)


def _check_snapshot(store: clew.Store, id: str, content: str, aside: Path) -> list[str]:
    """An acknowledged snapshot gives back what was in the files."""
    store.restore(id, aside / id)
    newest = (aside / id / "newest").read_text()
    return [] if newest == content else [f"the snapshot {id} holds {newest!r}, not {content!r}"]
