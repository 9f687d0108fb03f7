"""An import that is killed: the next one brings the rest, once, and the ledger claims nothing that is not
there."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.load.entries import recall
from clew.importers.ledger import Ledger
from clew.importers.reading import seen
from clew.importers.records import path_in
from tests.importers.test_ledger import NAME, answered, codex
from tests.importers.test_run import write_claude
from tests.support.effort import usually

CHILD = """
import os, random, signal, sys, threading, time
import clew
from clew.core.engine.engine import Engine
from clew.core.load import load
from clew.importers import ledger
from clew.importers.reading import seen

load.AT_ONCE, ledger._AT_ONCE, seen.RECENT = 4, 3, 0
address, folder, left, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
run = Engine.run

def counted(self, work):
    global left
    left -= 1
    if left == 0 and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    if left == 0 and when == "during":
        threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    found = run(self, work)
    if left == 0 and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return found

Engine.run = counted
with clew.open(address) as store:
    store.import_path(folder)
print(left)
"""


def import_in_process(address: str, folder: Path, left: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, address, str(folder), str(left), when]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    for number in range(5):
        write_claude(place / f"{NAME}{number}.jsonl", 9)
    write_claude(place / f"{NAME}0" / "subagents" / "agent-a1.jsonl", 6)
    answered(place / f"{NAME}6.jsonl", ["m1", "m2"])
    answered(place / f"{NAME}7.jsonl", ["m1", "m2", "m3"])
    for thread in ("c1", "c2"):
        codex(place, thread)
    return place


def contents(store: clew.Store) -> dict[str, object]:
    return {
        info.id: (
            info.hash,
            info.messages,
            len(list(store.get(info.id).events())),
            store.get(info.id).usage(),
        )
        for info in store.list()
    }


def check_claims(store: clew.Store, whole: dict[str, object]) -> int:
    """Every record of the ledger names sessions that are there to their end; how many records."""
    ledger = Ledger(store._engine)
    with store._engine.read() as reader:
        names = [name for name, _ in reader.scan_records(STORE_WIDE, "source")]
    for name in names:
        source = ledger.find(path_in(name))
        assert source is not None
        for session in source.sessions:
            with store._engine.read() as reader:
                row = reader.get_session(session.sid)
                assert row is not None, f"{name} claims {session.id}, which is not there"
                memory = recall(reader, row.sid)
            assert memory is not None
            assert memory.state.ended
            assert store.get(session.id).info.hash == whole[session.id][0]  # type: ignore[index]
    return len(names)


@pytest.mark.parametrize("kind", ["s.db", "store"])
def test_killed_at_any_write_and_then_again_is_as_once(
    folder: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "RECENT", 0)
    many = 1_000_000
    done = import_in_process(str(tmp_path / f"whole-{kind}"), folder, many, "before")
    writes = many - int(done.stdout)
    with clew.open(tmp_path / f"whole-{kind}") as store:
        whole = contents(store)
    assert len(whole) == 10
    choice = random.Random(kind)
    claimed = []
    for number in sorted(choice.sample(range(1, writes + 1), usually(10, thorough=writes))):
        address = str(tmp_path / f"{number}-{kind}")
        killed = import_in_process(address, folder, number, choice.choice(["before", "during", "after"]))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with clew.open(address) as store:
            claimed.append(check_claims(store, whole))
            store.import_path(folder)
            assert contents(store) == whole
            assert check_claims(store, whole) == 10
            assert store.import_path(folder).files_read == 0
            assert store.verify().ok
    assert max(claimed) > min(claimed)
