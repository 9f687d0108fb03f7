"""`clew.copy` and files: no checkpoint of the copy lacks them, whatever happens to both stores meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.transfer.source import Source, TreeImage
from clew.files.upkeep.transfer import FileTransfer
from tests.core.transfer.kinds import KINDS, Address, Open
from tests.support.effort import usually
from tests.support.stores import say

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    return work


def keep(session: clew.Session, work: Path, text: str) -> None:
    (work / "file").write_text(text)
    session.checkpoint("only", files=work)


def lacking(store: clew.Store) -> list[str]:
    """Checkpoints whose files are not there, and what else is wrong with a store."""
    found = []
    for info in store.list(limit=1000):
        for checkpoint in store.get(info.id).checkpoints():
            try:
                store.get_snapshot(checkpoint.snapshot or "none")
            except clew.errors.SnapshotNotFoundError:
                found.append(f"{info.id}@{checkpoint.name}")
    return [*found, *store.verify(full=True).problems]


def stale_once(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """The first tree that a copy reads changes right after it was read."""
    real, changed = Source.image, list[int]()

    def image(self: Source, tree: int) -> TreeImage:
        found = real(self, tree)
        if not changed:
            changed.append(tree)
            change()
        return found

    monkeypatch.setattr(Source, "image", image)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_whose_files_went_while_it_was_copied_is_read_again(
    kind: str, stores: Open, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint moved on, and what it named before was collected."""
    src, dst = stores(kind), stores("sqlite")
    session = src.session("s")
    session.append(say(1))
    keep(session, work, "first")

    def move_on() -> None:
        keep(session, work, "second")
        src.gc()

    stale_once(monkeypatch, move_on)

    report = clew.copy(src, dst)

    assert lacking(dst) == []
    assert report.snapshots == 1
    dst.get("s").restore_files("only", work.parent / "back")
    assert (work.parent / "back" / "file").read_text() == "second"


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_is_purged_while_it_is_copied_stays_behind(
    kind: str, stores: Open, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src, dst = stores(kind), stores("sqlite")
    for name in ("s", "t"):
        src.session(name).append(say(1), say(2))
    keep(src.get("s"), work, "first")

    def purge() -> None:
        src.delete("s", purge=True)
        src.gc()

    stale_once(monkeypatch, purge)
    monkeypatch.setattr(Source, "trees", lambda self: iter(sorted({row.tree for row in self.rows()})))

    clew.copy(src, dst)

    assert [info.id for info in dst.list()] == ["t"]
    assert lacking(dst) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_target_collects_meanwhile_is_brought_again(
    kind: str, stores: Open, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that no record names yet are rubbish to a collection there."""
    src, dst = stores("memory"), stores(kind)
    keep(src.session("s"), work, "first")
    src.snapshot(work)
    (work / "file").write_text("second")
    src.snapshot(work)
    real, refused = FileTransfer._store, []

    def store_and_collect(self: FileTransfer, missing: Any) -> None:
        real(self, missing)
        try:
            dst.gc()
        except clew.LeaseHeldError:
            refused.append(1)

    monkeypatch.setattr(FileTransfer, "_store", store_and_collect)

    clew.copy(src, dst)

    assert refused
    assert lacking(dst) == []
    assert len(dst.snapshots()) == len(src.snapshots()) == 3


def test_no_checkpoint_is_seen_in_the_target_before_its_files_are_there(stores: Open, work: Path) -> None:
    src, dst = stores("memory"), stores("sqlite")
    for number in range(5):
        session = src.session(f"s{number}")
        session.append(say(number))
        keep(session, work, f"{number}")
        session.rewind("only", files=True)
    seen: list[str] = []

    clew.copy(src, dst, on_progress=lambda _: seen.extend(lacking(dst)))

    assert seen == []
    assert lacking(dst) == []


def test_a_checkpoint_that_had_no_files_in_the_source_any_more_is_copied_without(
    stores: Open, work: Path
) -> None:
    """Somebody deleted the snapshot of it: that is no reason to wait for ever."""
    src, dst = stores("memory"), stores("sqlite")
    keep(src.session("s"), work, "first")
    src.delete_snapshot(src.get("s").get_checkpoint("only").snapshot or "")

    clew.copy(src, dst)

    assert lacking(dst) == lacking(src)
    assert lacking(dst)[0] == "s@only"


@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "postgresql"])
def test_copies_are_whole_while_others_write(kind: str, address: Address, tmp_path: Path, work: Path) -> None:
    """And purge, and collect."""
    source = address(kind)
    clew.open(source).close()
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.core.transfer.churn", source, str(work)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    wrong: list[str] = []
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"busy\n"
        for number in range(usually(4, thorough=40)):
            with clew.open(tmp_path / f"copy-{number}.db") as copy:
                stopped = threading.Event()
                collector = threading.Thread(target=collect, args=(copy, stopped))
                collector.start()
                try:
                    clew.copy(source, copy)
                finally:
                    stopped.set()
                    collector.join()
                wrong += lacking(copy)
    finally:
        child.communicate()
    assert child.returncode == 0
    assert wrong == []


def collect(store: clew.Store, stopped: threading.Event) -> None:
    while not stopped.wait(0.003):
        try:
            store.gc()
        except clew.LeaseHeldError:
            pass
