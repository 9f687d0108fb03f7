"""A repair, or a backup, that is killed (SIGKILL, a process of its own) anywhere: no half store is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.sqlite.reader import SqliteReader
from clew.backends.sqlite.writer import SqliteTransaction
from clew.core.transfer import copy as copying
from tests.core.transfer.kinds import Address
from tests.support.children import Child
from tests.support.effort import spread
from tests.support.stores import dump, wander, with_files

CALLS = ("statement", "mkdir", "fsync", "link", "rename", "replace", "unlink", "rmdir")
"""Statements of SQLite that write, and calls of the system."""
TRIED = 12
"""Of the calls of one kind."""


def write_until(tell: Callable[[int], None], how: str, src: str, dst: str, call: str, deadly: int) -> None:
    """Repair, or back up, and die at a call of that number; else say how many there were."""
    copying.TREES = 1  # type: ignore[misc]
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        if count == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    if call == "statement":
        begin = SqliteReader.__init__

        def counted(self: SqliteReader, connection: Any, branches: Any) -> None:
            begin(self, connection, branches)
            if isinstance(self, SqliteTransaction):
                self._execute = lambda *args: step() or connection.execute(*args)  # type: ignore[assignment]

        SqliteReader.__init__ = counted  # type: ignore[method-assign]
    else:
        real = getattr(os, call)
        setattr(os, call, lambda *args, **options: step() or real(*args, **options))
    with clew.open(src, read_only=True) as store:
        store.repair(to=dst) if how == "repair" else store.backup(dst)
    tell(count)


def deaths(how: str, src: Path, dst: str, scratch: Callable[[], str]) -> Iterator[str]:
    """Where it was killed, again and again."""
    for call in CALLS:
        with Child(write_until, how, str(src), scratch(), call, 0) as whole:
            count = whole.hear()
        for number in spread(range(1, count + 1), TRIED, quick=2):
            assert Child(write_until, how, str(src), dst, call, number).wait() == -signal.SIGKILL
            yield f"{call} {number} of {count}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.db"
    with clew.open(path) as store:
        wander(store, 1)
        with_files(store, tmp_path / "work")
    return path


def _is_whole(path: Path, expected: object) -> bool:
    with clew.open(path) as store:
        return bool(dump(store) == expected)


@pytest.mark.parametrize(("how", "kind"), [("repair", "sqlite"), ("repair", "jsonl"), ("backup", "sqlite")])
def test_what_was_killed_leaves_nothing_that_opens(how: str, kind: str, source: Path, tmp_path: Path) -> None:
    """There is no store, or a whole one; the next call works, and removes what is left."""
    place = tmp_path / "target"
    place.mkdir()
    final = place / ("new.db" if kind == "sqlite" else "new")
    with clew.open(source) as store:
        expected = dump(store)
    numbers = iter(range(10_000))

    def address(path: Path) -> str:
        return str(path) if how == "backup" else f"{kind}://{path}"

    def scratch() -> str:
        other = tmp_path / f"scratch{next(numbers)}"
        other.mkdir()
        return address(other / final.name)

    found = 0
    for death in deaths(how, source, address(final), scratch):
        if final.exists():
            assert _is_whole(final, expected), death
            found += 1
            for path in place.iterdir():
                path.rename(tmp_path / f"gone{next(numbers)}")
        else:
            assert all(path.name.startswith(f".clew-{how}-") for path in place.iterdir()), death
    assert found, "it was killed after the last rename, too"
    with clew.open(source, read_only=True) as store:
        store.repair(to=address(final)) if how == "repair" else store.backup(final)
    assert _is_whole(final, expected)
    assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []


def die_in_postgres(_: object, src: str, dst: str, deadly: int) -> None:
    """Repair into PostgreSQL, one tree in a transaction, and die after that many."""
    copying.TREES = 1  # type: ignore[misc]
    left = deadly

    def progress(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    with clew.open(src, read_only=True) as store:
        store.repair(to=dst, on_progress=progress)


def test_a_repair_into_postgresql_that_was_killed_is_not_opened_and_goes_on(
    source: Path, address: Address
) -> None:
    with clew.open(source) as store:
        expected = dump(store)
    target = address("postgresql")
    for deadly in (1, 2):
        assert Child(die_in_postgres, str(source), target, deadly).wait() == -signal.SIGKILL
        with pytest.raises(clew.errors.CorruptError, match="is not whole: the repair that wrote it"):
            clew.open(target)
    with clew.open(source, read_only=True) as store:
        report = store.repair(to=target)
        assert report.ok
        with pytest.raises(clew.ConflictError, match="is in use"):
            store.repair(to=target)
    with clew.open(target) as new:
        assert dump(new) == expected
        assert new.verify(full=True).problems == ()


def test_a_repair_does_not_replace_what_is_there(source: Path, tmp_path: Path) -> None:
    with clew.open(source, read_only=True) as store:
        for name, kind in (("file", "sqlite"), ("log.db-wal", "sqlite"), ("directory", "jsonl")):
            place = tmp_path / name
            if kind == "jsonl":
                place.mkdir()
            (place / "x" if kind == "jsonl" else place).write_text("mine")
            with pytest.raises(clew.ConflictError, match="exists: this writes a new store"):
                store.repair(to=f"{kind}://{tmp_path / name.removesuffix('-wal')}")
        with pytest.raises(clew.InvalidError, match="clew copy brings that to a server"):
            store.repair(to="https://clew.example.com")
        (tmp_path / "empty").mkdir()
        assert store.repair(to=f"jsonl://{tmp_path / 'empty'}").location == str(tmp_path / "empty")
