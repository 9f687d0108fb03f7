"""A file that the system fails to read (F-09): no snapshot passes over it, and no restore touches it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.faults.disk.strace import traced, unreadable
from tests.faults.requirements import needs_strace
from tests.files.playground import House, cache_in

Tell = Callable[[Any], None]
KINDS = ["sqlite", "jsonl"]


def open_store(directory: str, kind: str) -> clew.Store:
    return clew.open(f"{directory}/store.db" if kind == "sqlite" else f"jsonl:///{directory}/store")


@pytest.fixture
def home(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.root.mkdir(exist_ok=True)
    (house.root / "sub").mkdir()
    (house.root / "good").write_text("good")
    (house.root / "sub/broken").write_text("cannot be read")
    return house


def heard_from(program: Callable[..., None], home: House, broken: Path, kind: str) -> list[Any]:
    with traced(program, str(home.directory), kind, strace=unreadable(broken)) as child:
        return child.hear_all()


def take(tell: Tell, directory: str, kind: str) -> None:
    """Tell what a snapshot and a checkpoint are refused with, and what is kept of them."""
    home = House(Path(directory))
    with cache_in(Path(directory)), open_store(directory, kind) as store:
        session = store.session("s")
        for work in (lambda: store.snapshot(home.root), lambda: session.checkpoint("c", files=home.root)):
            try:
                work()
            except clew.errors.SnapshotFailedError as error:
                tell([error.code, error.root, list(error.paths), str(error)])
        tell([len(store.snapshots()), len(session.checkpoints())])
        tell(store.snapshot(home.root, exclude=["broken"]).files)


@needs_strace
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_and_a_checkpoint_fail_by_the_name_of_the_file_that_can_not_be_read(
    home: House, kind: str
) -> None:
    *failed, left, files = heard_from(take, home, home.root / "sub/broken", kind)

    assert [one[:3] for one in failed] == [["snapshot_failed", str(home.root), ["sub/broken"]]] * 2
    assert "'sub/broken'" in failed[0][3]
    assert left == [0, 0]
    assert files == 1


def go_back(tell: Tell, directory: str, kind: str) -> None:
    """Tell what a restore did."""
    with cache_in(Path(directory)), open_store(directory, kind) as store:
        report = store.restore(store.snapshots()[0])
        tell([report.restored, [(kept.path, kept.reason) for kept in report.kept]])


@needs_strace
@pytest.mark.parametrize("kind", KINDS)
def test_p13_a_restore_leaves_a_file_that_can_not_be_read_and_restores_the_others(
    home: House, kind: str
) -> None:
    with cache_in(home.directory), open_store(str(home.directory), kind) as store:
        store.snapshot(home.root)
    (home.root / "good").write_text("changed")
    (home.root / "sub/broken").write_text("changed, and cannot be read")

    [[restored, kept]] = heard_from(go_back, home, home.root / "sub/broken", kind)

    assert restored == ["good"]
    assert kept == [["sub/broken", "read error"]]
    assert (home.root / "sub/broken").read_text() == "changed, and cannot be read"
