"""Processes that sync while files grow: killed at any point, and two at once. Each line is there, once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew
from clew.importers.reading import seen
from clew.importers.sync import Sync
from tests.importers.test_ledger import NAME
from tests.importers.test_sync import add, line
from tests.support.effort import usually

SYNCING = """
import os, signal, sys, threading
import clew
from clew.core.engine.engine import Engine
from clew.importers import ledger
from clew.importers.sync import Sync
from clew.core.load import load

load.AT_ONCE, ledger.BEHIND = 8, 2000
left, when = int(sys.argv[3]), sys.argv[4]
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
with clew.open(sys.argv[1]) as store:
    sync = Sync(lambda **_: store, [sys.argv[2]])
    print("ready", flush=True)
    while True:
        try:
            sync.all()
        except clew.StoreBusyError:
            continue
"""


@pytest.fixture(autouse=True)
def files_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "RECENT", 0)


def start(address: str, folder: Path, left: int = 0, when: str = "never") -> subprocess.Popen[str]:
    """`left`: the process kills itself with so many writes, before, during or after the last."""
    command = [sys.executable, "-c", SYNCING, address, str(folder), str(left), when]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)  # does nothing if it is over
    assert process.wait() == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()


class Writer:
    """An agent that writes to some files, line by line, sometimes in two parts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.paths = [folder / f"{NAME}{number}.jsonl" for number in range(3)]
        self.lines = [0, 0, 0]
        self._choice = random.Random(1)

    def write(self) -> None:
        number = self._choice.randrange(3)
        path = self.paths[number]
        text = line(path, self.lines[number], words=f"word {self.lines[number]} " + "x" * 100)
        if self.lines[number] == 0:
            text = text.replace(f'"parentUuid": "{path.stem}--1"', '"parentUuid": null')
        cut = self._choice.randrange(len(text)) if self._choice.random() < 0.3 else len(text)
        add(path, text[:cut])
        add(path, text[cut:])
        self.lines[number] += 1

    def check(self, store: clew.Store) -> None:
        """After a last pass, every line is there, once, in its order."""
        assert Sync(lambda **_: store, [self.paths[0].parent]).all().problems == ()
        for path, count in zip(self.paths, self.lines, strict=True):
            if not count:
                continue
            session = store.get(f"claude-code:{path.stem}")
            said = [message["content"].split()[1] for message in session.messages()]
            assert said == [str(number) for number in range(count)]
            assert len(session.tree().branches) == 1
        assert store.stats().entries == sum(self.lines)
        assert store.verify().ok


@pytest.mark.parametrize("kind", ["s.db", "store"])
def test_killed_at_any_point_while_files_grow(tmp_path: Path, kind: str) -> None:
    address, folder = str(tmp_path / kind), tmp_path / "files"
    writer, choice = Writer(folder), random.Random(kind)
    writer.write()
    clew.open(address).close()
    for number in range(usually(12, thorough=300)):
        left = choice.randrange(1, 20) if number % 2 else 0
        process = start(address, folder, left, choice.choice(["before", "during", "after"]))
        until = time.monotonic() + (5 if left else choice.uniform(0.0, 0.25))
        while time.monotonic() < until and process.poll() is None:
            writer.write()
            time.sleep(choice.uniform(0, 0.004))  # as an agent does: the pace is part of the experiment
        kill(process)
        with clew.open(address) as store:
            writer.check(store)


def test_two_processes_that_sync_at_once_bring_each_line_once(tmp_path: Path) -> None:
    address, folder = str(tmp_path / "s.db"), tmp_path / "files"
    writer = Writer(folder)
    writer.write()
    clew.open(address).close()
    processes = [start(address, folder) for _ in range(2)]
    until = time.monotonic() + usually(2, thorough=20)
    while time.monotonic() < until:
        writer.write()
        time.sleep(0.002)
    assert [process.poll() for process in processes] == [None, None]
    for process in processes:
        kill(process)
    with clew.open(address) as store:
        writer.check(store)


def test_postgresql_is_followed_into_too(tmp_path: Path, emptied_postgres: str) -> None:
    folder = tmp_path / "files"
    writer = Writer(folder)
    with clew.open(emptied_postgres) as store:
        sync = Sync(lambda **_: store, [folder])
        for _ in range(20):
            writer.write()
            sync.some(writer.paths)
        writer.check(store)
        assert sync.all().files_read == 0
