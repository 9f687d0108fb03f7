"""F-15, P23: what cannot be written can be read, with and without a log that a crash left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.backends.sqlite.children import as_somebody_else, prepare_store, read_it
from tests.faults.crash.common import message, quick_directory, texts
from tests.faults.requirements import mounted
from tests.support.needs import need
from tests.support.rows import each_row


def store_in(directory: Path, *, crashed: bool) -> list[str]:
    """A store that was closed, or one whose process was killed: part of it is in the log only."""
    if not crashed:
        return prepare_store(directory / "a.db")
    with tempfile.TemporaryDirectory() as elsewhere:
        path = Path(elsewhere, "a.db")
        prepare_store(path)
        with clew.open(path) as store:
            store.get("s").append(message("only in the log"))
            expected = texts(store.get("s"))
            for name in ("a.db", "a.db-wal"):
                shutil.copy(path.with_name(name), directory)
    return expected


def check_read(found: dict[str, Any], expected: list[str]) -> None:
    assert found["texts"] == expected
    assert found["again"] == [len(expected)] * 2
    assert found["wrong"] == []
    assert found["listed"] == ["s"]
    assert found["stats"] == len(expected)
    assert found["refused"] == ["read_only", "read_only"]


@contextmanager
def read_only_mount(directory: Path, image: Path) -> Iterator[Path]:
    """A directory as a file system that really is read-only."""
    need("mkfs.ext4")
    image.touch()
    os.truncate(image, 8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-d", directory, image], check=True)
    with mounted(["-o", "loop,ro", str(image)]) as mount:
        yield mount


@pytest.mark.needs("root")
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_f15_a_store_on_a_read_only_file_system_can_be_read(tmp_path: Path, crashed: bool) -> None:
    content = tmp_path / "content"
    content.mkdir()
    expected = store_in(content, crashed=crashed)

    with read_only_mount(content, tmp_path / "image") as mount:
        check_read(read_it(str(mount / "a.db")), expected)


@pytest.mark.needs("root")
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_f15_a_store_on_a_read_only_bind_mount_can_be_read(tmp_path: Path, crashed: bool) -> None:
    expected = store_in(tmp_path, crashed=crashed)

    with mounted(["--bind", str(tmp_path)]) as mount:
        subprocess.run(["mount", "-o", "remount,bind,ro", mount], check=True)

        check_read(read_it(str(mount / "a.db")), expected)


@pytest.mark.needs("root")
@each_row("crashed", [False, True])
@each_row("mode", [0o755, 0o555], ids=oct)
def test_f15_a_user_who_may_only_read_the_files_can_read_the_store(crashed: bool, mode: int) -> None:
    with quick_directory() as directory:
        expected = store_in(directory, crashed=crashed)
        for file in directory.iterdir():
            file.chmod(0o444)
        directory.chmod(mode)

        check_read(as_somebody_else(read_it, str(directory / "a.db")), expected)


@pytest.mark.needs("root")
def test_f15_reading_leaves_nothing_behind_and_its_copies_are_private(tmp_path: Path) -> None:
    """A log on a read-only file system is read through a copy: 0600, and gone after close."""
    content = tmp_path / "content"
    content.mkdir()
    store_in(content, crashed=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    modes = []

    with read_only_mount(content, tmp_path / "image") as mount, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(scratch))
        with clew.open(mount / "a.db") as store:
            assert len(texts(store.get("s"))) == 11
            modes = [stat.S_IMODE(file.stat().st_mode) for file in scratch.rglob("*") if file.is_file()]

    assert set(modes) <= {0o600}
    assert list(scratch.iterdir()) == []


def test_a_store_opened_for_reading_refuses_writes_and_sees_those_of_others(tmp_path: Path) -> None:
    with clew.open(tmp_path / "a.db") as writer:
        writer.session("s").append(message("a"))
        with clew.open(tmp_path / "a.db", read_only=True) as reader:
            session = reader.get("s")
            assert texts(session) == ["a"]
            with pytest.raises(clew.errors.ReadOnlyError):
                session.append(message("b"))
            with pytest.raises(clew.errors.ReadOnlyError):
                reader.delete("s", purge=True)
            writer.get("s").append(message("c"))
            assert texts(session) == ["a", "c"]
