"""Syncing while files grow: gone or killed at any write, and two at once. Each line is there, once."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import clew
from clew.core.load import load
from clew.importers import ledger
from clew.importers.reading import seen
from clew.importers.sync import Sync
from tests.importers.cutting import GoneError, claim_too_early, each_write, gone_at, killed_at
from tests.importers.test_ledger import NAME
from tests.importers.test_sync import add, line
from tests.support.children import Child
from tests.support.effort import usually
from tests.support.rows import named


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "AT_ONCE", 8)
    monkeypatch.setattr(ledger, "BEHIND", 2000)
    monkeypatch.setattr(seen, "RECENT", 0)


class Writer:
    """An agent that writes to some files, line by line, sometimes in two parts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.paths = [folder / f"{NAME}{number}.jsonl" for number in range(3)]
        self.lines = [0, 0, 0]
        self._choice = random.Random(1)
        self.write()

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
        assert syncing(store, self).all().problems == ()
        for path, count in zip(self.paths, self.lines, strict=True):
            if not count:
                continue
            session = store.get(f"claude-code:{path.stem}")
            said = [message["content"].split()[1] for message in session.messages()]
            assert said == [str(number) for number in range(count)]
            assert len(session.tree().branches) == 1
        assert store.stats().entries == sum(self.lines)
        assert store.verify().ok


def syncing(store: clew.Store, writer: Writer) -> Sync:
    return Sync(lambda **_: store, [writer.folder])


def gone_while_files_grow(address: str, writer: Writer, number: int, when: str) -> None:
    """A line more before each write, and the end at the given one."""
    end = gone_at(number, when)

    def told(number: int, at: str) -> None:
        if at == "before":
            writer.write()
        end(number, at)

    with each_write(told), clew.open(address) as store, suppress(GoneError):
        sync = syncing(store, writer)
        while True:
            writer.write()
            sync.all()


@pytest.mark.parametrize("kind", ["s.db", "store"])
def test_gone_at_any_write_while_files_grow(tmp_path: Path, kind: str) -> None:
    writer, choice = Writer(tmp_path / "files"), random.Random(kind)
    for _ in range(usually(16, quick=5, thorough=300)):
        number, when = choice.randrange(1, 20), choice.choice(["before", "after"])
        gone_while_files_grow(str(tmp_path / kind), writer, number, when)
        with named(f"{when} write {number}"), clew.open(tmp_path / kind) as store:
            writer.check(store)


def test_a_place_that_lies_before_what_was_brought_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_too_early(monkeypatch)
    writer = Writer(tmp_path / "files")
    for number in range(1, 20):
        gone_while_files_grow(str(tmp_path / "s.db"), writer, number, "after")
        try:
            with clew.open(tmp_path / "s.db") as store:
                writer.check(store)
        except AssertionError:
            return
    pytest.fail("the planted bug was not found")


def _sync(tell: Callable[[str], None], address: str, folder: str, number: int, when: str) -> None:
    """Again and again; every write and every pass is told."""
    end = killed_at(number, when)

    def told(number: int, at: str) -> None:
        tell(at)
        end(number, at)

    with each_write(told), clew.open(address) as store:
        sync = Sync(lambda **_: store, [folder])
        while True:
            with suppress(clew.StoreBusyError):
                sync.all()
            tell("pass")


@pytest.mark.parametrize("kind", ["s.db", "store"])
def test_killed_at_any_write_while_files_grow(tmp_path: Path, kind: str) -> None:
    """By a real signal, which may come in the middle of a write, while this process writes lines."""
    writer, choice = Writer(tmp_path / "files"), random.Random(kind)
    for _ in range(usually(12, quick=1, thorough=300)):
        number, when = choice.randrange(1, 20), choice.choice(["before", "during", "after"])
        with Child(_sync, str(tmp_path / kind), str(writer.folder), number, when) as child:
            while child.hear() is not None:
                writer.write()
            assert child.wait() == -signal.SIGKILL
        with named(f"{when} write {number}"), clew.open(tmp_path / kind) as store:
            writer.check(store)


def test_two_that_sync_at_once_bring_each_line_once(tmp_path: Path) -> None:
    """Before each write of the one, the other makes a whole pass, and the file has grown again."""
    writer, is_busy = Writer(tmp_path / "files"), [False]

    def told(number: int, at: str) -> None:
        if at == "before" and not is_busy[0]:
            is_busy[0] = True
            syncing(other, writer).all()
            writer.write()
            is_busy[0] = False

    with clew.open(tmp_path / "s.db") as one, clew.open(tmp_path / "s.db") as other:
        sync = syncing(one, writer)
        with each_write(told):
            for _ in range(20):
                writer.write()
                sync.all()
        writer.check(one)
        writer.check(other)


def test_two_processes_that_sync_at_once_bring_each_line_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "files")
    given = str(tmp_path / "s.db"), str(writer.folder), 0, "never"
    with Child(_sync, *given) as one, Child(_sync, *given) as other:
        for _ in range(usually(200, thorough=2000)):
            for child in (one, other):
                assert child.hear() is not None
                writer.write()
    with clew.open(tmp_path / "s.db") as store:
        writer.check(store)


def test_postgresql_is_followed_into_too(tmp_path: Path, emptied_postgres: str) -> None:
    writer = Writer(tmp_path / "files")
    with clew.open(emptied_postgres) as store:
        sync = syncing(store, writer)
        for _ in range(20):
            writer.write()
            sync.some(writer.paths)
        writer.check(store)
        assert sync.all().files_read == 0
