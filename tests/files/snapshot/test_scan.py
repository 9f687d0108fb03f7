"""Scanning: every byte of a tree, nothing from outside of it, and a list of what is not in it."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings

from clew.backends.memory import MemoryBackend
from clew.core.engine.engine import Engine
from clew.errors import InvalidError, QuotaExceededError, RootRefusedError
from clew.files.objects.format import CHUNKED
from clew.files.objects.store import ObjectReader, ObjectWriter
from clew.files.roots import check_root
from clew.files.snapshot import read
from clew.files.snapshot.classify import Limits
from clew.files.snapshot.statcache import StatCache
from clew.model.files import FileProgress
from tests.files.trees import MIB, Link, Tree, build, in_store, on_disk, paths, take, trees


@pytest.fixture
def engine() -> Engine:
    return Engine(MemoryBackend())


def skips(engine: Engine, root: Path, **options: Any) -> dict[str, str]:
    return {one.path: one.reason for one in take(engine, root, **options).skipped}


# -- what is in it


@settings(max_examples=30)
@given(tree=trees(largest=4 * MIB + 1))
def test_i20_every_byte_name_mode_link_and_empty_directory_comes_back(tree: Tree) -> None:
    with TemporaryDirectory() as place:
        build(place, tree)
        engine = Engine(MemoryBackend())
        scan = take(engine, place)
        assert in_store(engine, scan.tree) == on_disk(place) == tree
        assert scan.skipped == ()


@settings(max_examples=30)
@given(first=trees(largest=0, max_leaves=6), second=trees(largest=0, max_leaves=6))
def test_equal_trees_have_equal_names_and_others_have_others(first: Tree, second: Tree) -> None:
    engine = Engine(MemoryBackend())
    with TemporaryDirectory() as a, TemporaryDirectory() as b:
        build(a, first)
        build(b, second)
        assert (take(engine, a).tree == take(engine, b).tree) is (first == second)


def test_it_counts_what_it_holds(engine: Engine, tmp_path: Path) -> None:
    build(tmp_path, {b"a": b"123", b"b": {b"c": b"4567", b"l": Link(b"x")}, b"e": {}})
    scan = take(engine, tmp_path)
    assert (scan.files, scan.links, scan.directories, scan.bytes) == (2, 1, 2, 7)


def test_a_path_of_4096_bytes_is_taken(engine: Engine, tmp_path: Path) -> None:
    fd, depth = os.open(tmp_path, os.O_RDONLY), 600
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    cache = StatCache()
    first = take(engine, tmp_path, cache=cache)
    assert (first.files, first.directories) == (1, depth)
    assert take(engine, tmp_path, cache=cache) == first
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_a_large_file_is_stored_in_chunks_and_an_edit_costs_those_around_it(
    engine: Engine, tmp_path: Path
) -> None:
    content = os.urandom(12 * MIB)
    (tmp_path / "large").write_bytes(content)
    writer = ObjectWriter(engine)
    first = take(engine, tmp_path)
    entry = ObjectReader(engine.read).directory(first.tree)[0]
    assert entry.kind & CHUNKED
    (tmp_path / "large").write_bytes(content[: 6 * MIB] + b"inserted" + content[6 * MIB :])
    from clew.files.snapshot.scan import scan

    second = scan(os.path.realpath(tmp_path), writer, limits=Limits(), cache=None)
    assert in_store(engine, second.tree) == on_disk(tmp_path)
    assert 0 < writer.new_bytes < 9 * MIB


def test_the_cuts_of_large_files_are_part_of_the_format(tmp_path: Path) -> None:
    content = b"".join(number.to_bytes(4, "big") * (number % 7 + 1) for number in range(600_000))
    (tmp_path / "f").write_bytes(content)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        pieces = [len(piece) for piece in read.cut(fd)]
    finally:
        os.close(fd)
    assert sum(pieces) == len(content)
    assert pieces == [1926783, 1020290, 1515882, 1392049, 1457987, 2286989]


# -- what is not in it


def test_i21_devices_and_other_mounts_are_not_entered(engine: Engine) -> None:
    if not os.path.ismount("/dev/pts") and not os.path.ismount("/dev/shm"):
        pytest.skip("nothing is mounted below /dev")
    found = skips(engine, Path("/dev"))
    assert found["null"] == "device"
    assert "other mount" in found.values()
    assert not any(path.startswith(("pts/", "shm/")) for path in found)


def test_what_can_not_be_read_is_listed_and_tried_again(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, {b"a": b"1", b"closed": {b"b": b"2"}, b"open": {b"c": b"3"}})
    cache = StatCache()
    with monkeypatch.context() as patch:
        _forbid(patch, {"a", "closed"})
        assert skips(engine, tmp_path, cache=cache) == {"a": "unreadable", "closed": "unreadable"}
        assert skips(engine, tmp_path, cache=cache) == {"a": "unreadable", "closed": "unreadable"}
    assert skips(engine, tmp_path, cache=cache) == {}
    assert in_store(engine, take(engine, tmp_path, cache=cache).tree) == on_disk(tmp_path)


def _forbid(patch: pytest.MonkeyPatch, names: set[str]) -> None:
    """Root may read everything: so the refusal is played."""
    real = os.open

    def refusing(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if os.fsdecode(path) in names:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode, dir_fd=dir_fd)

    patch.setattr(os, "open", refusing)


def test_a_failure_of_this_process_is_no_unreadable_file(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, {b"a": b"1"})
    real = os.open

    def exhausted(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "a":
            raise OSError(24, "Too many open files")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", exhausted)
    with pytest.raises(OSError, match="Too many open files"):
        take(engine, tmp_path)


def test_the_files_of_the_store_and_of_a_restore_are_never_in_it(engine: Engine, tmp_path: Path) -> None:
    build(tmp_path, {b"s.db": b"x", b"s.db-wal": b"y", b"store": {b"z": b""}, b"w": b""})
    (tmp_path / ".clew-restore-1").write_bytes(b"half")
    never = [str(tmp_path / "s.db"), str(tmp_path / "s.db-wal"), str(tmp_path / "store"), "/elsewhere"]
    options: dict[str, Any] = {"never": never, "include": ["s.db"], "also": [b"s.db", b"store/z"]}
    assert skips(engine, tmp_path, **options) == dict.fromkeys(
        [".clew-restore-1", "s.db", "s.db-wal", "store"], "store"
    )
    assert paths(in_store(engine, take(engine, tmp_path, **options).tree)) == {b"w"}


def test_i22_more_than_the_limits_is_refused_before_anything_is_read(engine: Engine, tmp_path: Path) -> None:
    build(tmp_path, {b"a": b"123", b"b": b"456", b"c": {b"d": b"7"}})
    for limits in (Limits(max_files=2), Limits(max_bytes=6)):
        writer = ObjectWriter(engine)
        with pytest.raises(QuotaExceededError, match=str(tmp_path)):
            take(engine, tmp_path, limits=limits)
        assert writer.new_objects == 0
    assert skips(engine, tmp_path, limits=Limits(max_file_bytes=2)) == {"a": "too large", "b": "too large"}
    with pytest.raises(InvalidError, match="max_files"):
        Limits(max_files=-1)


def test_the_limits_hold_for_what_the_cache_knows_as_well(engine: Engine, tmp_path: Path) -> None:
    build(tmp_path, {b"a": b"123", b"b": b"456"})
    cache = StatCache()
    take(engine, tmp_path, cache=cache)
    with pytest.raises(QuotaExceededError):
        take(engine, tmp_path, cache=cache, limits=Limits(max_files=1))
    assert skips(engine, tmp_path, cache=cache, limits=Limits(max_file_bytes=1)) == {
        "a": "too large",
        "b": "too large",
    }


# -- what changes meanwhile


@pytest.fixture
def old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no file were so young that it is read twice."""
    monkeypatch.setattr(read, "FRESH", -(10**18))


@pytest.mark.usefixtures("old_files")
def test_f44_a_file_that_changes_while_it_is_read_is_read_again(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    _meddle(monkeypatch, [lambda: path.write_bytes(b"after it all")])
    assert in_store(engine, take(engine, tmp_path).tree) == {b"a": b"after it all"}


def _meddle(patch: pytest.MonkeyPatch, actions: list[Callable[[], object]], *, after: bool = False) -> None:
    """Do something in the middle of (or after) each reading of a file."""
    real = read._read_whole
    left = iter(actions)

    def meddled(fd: int, size: int) -> bytes:
        content = real(fd, size) if after else b""
        action = next(left, None)
        if action:
            action()
        return content if after else real(fd, size)

    patch.setattr(read, "_read_whole", meddled)


# -- progress, roots


def test_progress_is_told_and_an_error_of_the_listener_ends_the_scan(engine: Engine, tmp_path: Path) -> None:
    build(tmp_path, {b"%d" % number: b"ab" for number in range(300)})
    told: list[FileProgress] = []
    take(engine, tmp_path, on_progress=told.append)
    assert [(one.phase, one.total_files) for one in told] == [("scan", 300), ("store", 300), ("store", 300)]
    assert (told[-1].files, told[-1].bytes) == (300, 600)

    def cancel(progress: FileProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(Engine(MemoryBackend()), tmp_path, on_progress=cancel)


def test_i22_the_file_system_and_home_directories_are_refused_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "users/me"
    home.mkdir(parents=True)
    (tmp_path / "accounts/me").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path / "accounts/me")))
    for root in ("/", home, home.parent, tmp_path, tmp_path / "accounts/me"):
        with pytest.raises(RootRefusedError, match="force=True"):
            check_root(root, force=False)
        assert check_root(root, force=True) == os.path.realpath(root)
    (home / "project").mkdir()
    os.symlink(home / "project", tmp_path / "link")
    assert check_root(tmp_path / "link", force=False) == str((home / "project").resolve())


def test_what_is_no_directory_is_refused_even_if_forced(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.symlink("loop", tmp_path / "loop")
    for root in (
        tmp_path / "file",
        tmp_path / "missing",
        tmp_path / "loop",
        "a\0b",
        str(tmp_path / "file/x"),
    ):
        with pytest.raises(RootRefusedError):
            check_root(root, force=True)
