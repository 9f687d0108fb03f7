"""Power cuts: only what was synced is left, of the files and of their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.jsonl import JsonlBackend, disk
from clew.backends.jsonl.disk import Directory, File
from clew.testing.backend.base import user
from clew.testing.chain import check_store
from tests.backends.jsonl.stores import said

OPENING = ("open_for_appending", "open_for_patching", "create")


class Recorder:
    """Knows what of a directory would survive, and can make it so elsewhere."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self._root = root
        self._paths: dict[int, Path] = {}
        self._content: dict[int, bytes] = {}
        """By inode, as it was when it was synced."""
        self._names: dict[Path, int] = {}
        """Names that are durable, with the inodes they lead to."""
        for name in OPENING:
            monkeypatch.setattr(disk, name, self._opening(getattr(disk, name)))
        monkeypatch.setattr(disk, "sync", self.sync)
        monkeypatch.setattr(disk, "sync_directory", self.sync_directory)

    def _opening(self, real: Callable[[File], int]) -> Callable[[File], int]:
        def call(file: File) -> int:
            handle = real(file)
            self._paths[handle] = file.path
            return handle

        return call

    def sync(self, handle: int) -> None:
        path = self._paths[handle]
        if self._is_ours(path):
            with open(f"/proc/self/fd/{handle}", "rb") as file:
                self._content[os.fstat(handle).st_ino] = file.read()

    def sync_directory(self, directory: Directory) -> None:
        path = directory.path
        for name in [name for name in self._names if name.parent == path]:
            del self._names[name]
        for file in path.iterdir():
            if file.is_file() and self._is_ours(file):
                self._names[file] = file.stat().st_ino

    def _is_ours(self, path: Path) -> bool:
        return path.is_relative_to(self._root) and not path.name.startswith("index.db")

    def cut(self, target: Path) -> None:
        """The directory as a power cut now may leave it: the worst case, and without an index."""
        for directory in ("sessions", "packs", "quarantine", "locks"):
            (target / directory).mkdir(parents=True)
        for name, inode in self._names.items():
            (target / name.relative_to(self._root)).write_bytes(self._content.get(inode, b""))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, fast_path: Path) -> Recorder:
    return Recorder(monkeypatch, fast_path / "store")


def steps(store: clew.Store) -> Iterator[Callable[[clew.Store], Any]]:
    """Does something, and yields what must be so from then on."""
    session = store.session("s")
    yield lambda s: s.get("s").info.id == "s"
    session.append(user("0"))
    yield lambda s: len(s.get("s").messages()) > 0
    session.append(user("1"))
    yield lambda s: len(s.get("s").messages()) > 1
    session.append(user("2"))
    yield lambda s: len(s.get("s").messages()) > 2
    session.set_var("v", 1)
    yield lambda s: s.get("s").get_var("v") == 1
    fork = session.fork("f")
    yield lambda s: len(s.get("f").messages()) == 3
    fork.append(user("fork"))
    session.append(user("base"))
    yield lambda s: s.get("f").messages()[-1]["content"] == "fork"
    session.rewind(0)
    yield lambda s: len(s.get("s").messages()) == 1
    session.add_alias("alias")
    yield lambda s: s.get("alias").id == "s"
    store.delete("s", purge=True)
    yield lambda s: len(s.get("f").messages()) >= 4
    fork.append(user("after the purge"))
    yield lambda s: s.get("f").messages()[-1]["content"] == "after the purge"


GONE_LATER = {2: 7, 3: 7, 4: 9, 7: 9, 8: 9, 0: 9, 1: 9, 5: 6, 6: 10}
"""What is so after a step is so until this one."""


def test_a_power_cut_after_any_step_loses_nothing_acknowledged(fast_path: Path, recorder: Recorder) -> None:
    """P1, P2, P12, F-03, F-04: the logs and the journal are enough."""
    store = clew.Store(JsonlBackend(fast_path / "store"))
    facts: list[Callable[[clew.Store], Any]] = []
    for number, fact in enumerate(steps(store)):
        facts.append(fact)
        place = fast_path / f"cut-{number}"
        recorder.cut(place)
        with clew.open(f"jsonl:///{place}") as found:
            check_store(found)
            for earlier, expected in enumerate(facts):
                if GONE_LATER.get(earlier, 99) > number or earlier == number:
                    assert expected(found), f"what step {earlier} wrote is gone after step {number}"
            if number >= 9:
                assert found.find("s") is None, "what was purged came back"
    store.close()


def test_a_purge_survives_a_power_cut(fast_path: Path, recorder: Recorder) -> None:
    """P18: no byte of it comes back."""
    with clew.open(f"jsonl:///{fast_path / 'store'}") as store:
        session = store.session("s")
        session.append(user("shared"))
        session.fork("f")
        session.append(user("secret-7f3a"))
        store.delete("s", purge=True)
        recorder.cut(fast_path / "cut")

    with clew.open(f"jsonl:///{fast_path / 'cut'}") as store:
        assert said(store, "f") == ["shared"]
    assert not any(b"secret-7f3a" in file.read_bytes() for file in (fast_path / "cut").rglob("*.jsonl"))


def test_what_a_scrub_took_away_stays_away_after_a_power_cut(fast_path: Path, recorder: Recorder) -> None:
    """P18: the new log has taken the place of the old one for good."""
    backend = JsonlBackend(fast_path / "store")
    with clew.Store(backend) as store:
        store.session("s").append(user("first"), user("secret-7f3a"), user("kept"))
        with backend.write() as tx:
            row = tx.find_session("s")
            assert row is not None
            tx.erase_entries(row.head.branch, [1])
        backend.scrub()
        recorder.cut(fast_path / "cut")

    with clew.open(f"jsonl:///{fast_path / 'cut'}") as store:
        assert store.get("s").messages()[-1]["content"] == "kept"
    assert not any(b"secret-7f3a" in file.read_bytes() for file in (fast_path / "cut").rglob("*.jsonl"))
