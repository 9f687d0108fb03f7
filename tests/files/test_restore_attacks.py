"""S-01, S-07, S-08: tampered trees, symlinks in the way, directories swapped for symlinks half-way."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from clew.core.objects import (
    CHUNKED,
    DIRECTORY,
    FILE,
    FOLDER,
    LINK,
    TreeEntry,
    encode_directory,
    object_name,
)
from clew.errors import CorruptError
from clew.files import rooted
from clew.files.objects import ObjectWriter
from clew.files.restore import restore
from clew.model.files import RestoreReport
from tests.files.restoring import Link, Program, Tree, Workshop, paths_kept, read, write

OUTSIDE: Tree = {b"a": b"outside", b"known": b"outside", b"e": {b"b": b"outside"}}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    write(tmp_path / "outside", OUTSIDE)
    return tmp_path / "outside"


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "root")


def put_objects(shop: Workshop, *contents: bytes) -> None:
    writer = ObjectWriter(shop.engine)
    for content in contents:
        writer.put(content)
    writer.flush()


def restore_tree(shop: Workshop, target: bytes, **more: Any) -> RestoreReport:
    return restore(
        shop.engine,
        shop.reader,
        snapshot_id="s",
        target=target,
        last=None,
        root=str(shop.root),
        take_safety=shop.take_safety,
        look=shop.look,
        **more,
    )


def tampered(*names: bytes, kind: int = FILE, content: bytes = b"evil") -> bytes:
    """A directory as nobody would have written it."""
    entries = [
        encode_directory([TreeEntry(name, kind, object_name(content), len(content))]) for name in names
    ]
    return DIRECTORY + b"".join(entry[len(DIRECTORY) :] for entry in entries)


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(
    "names",
    [
        [b".."],
        [b"."],
        [b""],
        [b"../evil"],
        [b"/tmp/evil"],
        [b"d/../../evil"],
        [b"nul\0"],
        [b"twice", b"twice"],
        [b"b", b"a"],
        [b"x" * 256],
    ],
)
def test_s01_a_tree_with_names_that_lead_elsewhere_is_refused_before_anything_is_touched(
    shop: Workshop, names: list[bytes], depth: int
) -> None:
    write(shop.root, {b"mine": b"1"})
    content = tampered(*names)
    put_objects(shop, b"evil", content)
    for _ in range(depth):
        content = encode_directory([TreeEntry(b"d", FOLDER, object_name(content), len(content))])
        put_objects(shop, content)

    with pytest.raises(CorruptError):
        restore_tree(shop, object_name(content))

    assert shop.state() == {b"mine": b"1"}
    assert sorted(os.listdir(shop.root.parent)) == ["root"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (FOLDER, b"evil"),
        (FILE | CHUNKED, b"evil"),
        (LINK, b"to\0nowhere"),
        (LINK, b""),
        (7, b"evil"),
    ],
)
def test_s01_an_object_that_is_not_what_its_directory_says_makes_no_file(
    shop: Workshop, kind: int, content: bytes
) -> None:
    tree = tampered(b"a", kind=kind, content=content)
    put_objects(shop, content, tree)

    try:
        report = restore_tree(shop, object_name(tree))
    except CorruptError:
        pass
    else:
        assert [failure.path for failure in report.failed] == ["a"]

    assert not shop.root.exists() or shop.state() == {}


def test_s08_a_file_with_a_false_size_is_not_written(shop: Workshop) -> None:
    tree = encode_directory([TreeEntry(b"a", FILE, object_name(b"evil"), 999)])
    put_objects(shop, b"evil", tree)

    report = restore_tree(shop, object_name(tree))

    assert [failure.path for failure in report.failed] == ["a"]
    assert shop.state() == {}


def test_s08_names_that_differ_only_in_case_are_two_files(shop: Workshop) -> None:
    target = {b"Readme": b"1", b"README": b"2", b"caf\xc3\xa9": b"3", b"cafe\xcc\x81": b"4"}

    report = shop.restore(target)

    assert (shop.state(), report.failed) == (target, ())


def test_s07_a_symlink_in_the_way_is_replaced_itself_and_what_it_leads_to_stays(
    shop: Workshop, outside: Path
) -> None:
    now = {b"d": Link(os.fsencode(outside)), b"a": Link(os.fsencode(outside / "a"))}
    write(shop.root, now)

    shop.restore({b"d": {b"a": b"1"}, b"a": b"2"}, now)

    assert shop.state() == {b"d": {b"a": b"1"}, b"a": b"2"}
    assert read(outside) == OUTSIDE


def test_s08_a_link_of_the_snapshot_is_not_written_through(shop: Workshop, outside: Path) -> None:
    first = {b"d": Link(os.fsencode(outside))}
    write(shop.root, first)

    kept = shop.restore({b"d": {b"a": b"evil"}}, None, on_conflict="keep")
    partly = shop.restore({b"d": {b"a": b"evil"}}, first, paths=["d/a"])

    assert paths_kept(kept) == paths_kept(partly) == ("d",)
    assert shop.state() == first
    assert read(outside) == OUTSIDE


BEFORE: Tree = {b"d": {b"a": b"1", b"known": b"2", b"e": {b"b": b"3"}}, b"z": b"4"}
TARGET: Tree = {
    b"d": {b"a": b"new", b"e": {b"b": Program(b"new"), b"c": {b"f": b"5"}}, b"l": Link(b"a")},
    b"z": b"9",
}
CALLS = (
    "open",
    "stat",
    "readlink",
    "link",
    "unlink",
    "rename",
    "symlink",
    "mkdir",
    "rmdir",
    "fsync",
    "write",
    "read",
)


class Interloper:
    """Does something before one of the calls by which restores touch the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.at = -1
        self.act: Any = lambda: None
        for name in CALLS:
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))

    def _before(self, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if "dir_fd" in kwargs or "src_dir_fd" in kwargs or isinstance(args[0], int):
                self.count += 1
                if self.count == self.at:
                    self.act()
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("swapped", ["d", "d/e"])
def test_s08_a_directory_swapped_for_a_symlink_before_any_call_leads_nowhere(
    tmp_path: Path, outside: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interloper = Interloper(monkeypatch)
    at, rounds = 0, 0
    while True:
        at += 1
        shop = Workshop(tmp_path / f"root-{at}")
        interloper.at = -1
        write(shop.root, BEFORE)

        def swap(root: Path = shop.root) -> None:
            (root / swapped).rename(root / "moved")
            (root / swapped).symlink_to(outside)

        interloper.count, interloper.at, interloper.act = 0, at, swap
        report = shop.restore(TARGET, BEFORE)
        reached = interloper.count >= at
        interloper.at = -1

        assert read(outside) == OUTSIDE, f"at call {at}"
        if not reached:
            assert report.failed == ()
            break
        rounds += 1
    assert rounds > 50


def test_s08_a_thread_that_swaps_a_directory_for_a_symlink_all_the_time_leads_nowhere(
    shop: Workshop, outside: Path
) -> None:
    swaps, is_over = 0, threading.Event()

    def swap() -> None:
        nonlocal swaps
        folder, aside = shop.root / "d", shop.root / "aside"
        while not is_over.is_set():
            try:
                folder.rename(aside)
                folder.symlink_to(outside)
                swaps += 1
                folder.unlink()
                aside.rename(folder)
            except OSError:  # the restore made a directory of this name meanwhile
                shutil.rmtree(aside, ignore_errors=True)

    target: Tree = {b"d": {b"f%d" % n: b"new" for n in range(20)}}
    write(shop.root, BEFORE)
    thread = threading.Thread(target=swap)
    thread.start()
    rounds, failures = 0, 0
    try:
        while rounds < 100 or swaps < 2000:
            for wanted, last in ((target, BEFORE), (BEFORE, target)):
                report = _restore_anyhow(shop, wanted, last)
                failures += bool(report is None or report.failed or report.kept)
            rounds += 1
            assert read(outside) == OUTSIDE
    finally:
        is_over.set()
        thread.join()

    assert read(outside) == OUTSIDE
    assert failures > 0, "the thread never came in between"


def _restore_anyhow(shop: Workshop, target: Tree, last: Tree) -> RestoreReport | None:
    """The look at the tree is a simple one, which a swap may break; None then."""
    try:
        return shop.restore(target, last)
    except OSError:
        return None


def test_no_flag_that_would_follow_a_link_is_used() -> None:
    assert rooted.FOLDER_FLAGS & os.O_NOFOLLOW
    assert rooted.FOLDER_FLAGS & os.O_DIRECTORY
    assert rooted.READ_FLAGS & os.O_NOFOLLOW
    assert rooted.NEW_FLAGS & os.O_EXCL
