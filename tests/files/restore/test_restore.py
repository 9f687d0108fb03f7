"""Restores on a real disk: what is made, what is left alone, what is told (P13, P14)."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from clew.backends.contract import STORE_WIDE, Transaction
from clew.errors import (
    ConflictError,
    CorruptError,
    DiskFullError,
    InvalidError,
    ObjectMissingError,
    RootRefusedError,
)
from clew.files.objects.format import object_name
from clew.files.objects.store import ObjectReader
from clew.model.files import FileProgress
from tests.faults.requirements import NOBODY, mounted, needs_root
from tests.files.restore.nested_trees import Tree, Workshop, paths_kept
from tests.files.trees import Link, Program, build, trees

BEFORE: Tree = {
    b"same": b"same",
    b"changed": b"new",
    b"program": b"#!",
    b"added": b"x",
    b"d": {b"added": b"y", b"e": {b"added": b"z"}},
    b"to-file": {b"inside": b"1", b"e": {}},
    b"to-folder": b"2",
    b"link": Link(b"elsewhere"),
    b"large": b"n" * 5000,
}
TARGET: Tree = {
    b"same": b"same",
    b"changed": b"old",
    b"program": Program(b"#!"),
    b"deleted": b"",
    b"empty": {},
    b"deep": {b"deeper": {b"a\xff\n": b"\0\1\2"}},
    b"to-file": b"file",
    b"to-folder": {b"inside": Link(b"../same")},
    b"link": Link(b"same"),
    b"large": b"o" * 4500,
}


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "root")


def test_a_directory_becomes_what_the_snapshot_says_and_the_report_names_every_path(shop: Workshop) -> None:
    build(shop.root, BEFORE)

    report = shop.restore(TARGET, BEFORE)

    assert shop.state() == TARGET
    told = {
        change.path: (change.verb, change.kind, change.size, change.old_size) for change in report.changes
    }
    assert told == {
        "changed": ("overwrite", "file", 3, 3),
        "program": ("mode", "file", 2, 2),
        "added": ("delete", "file", 0, 1),
        "d": ("delete", "directory", 0, 0),
        "d/added": ("delete", "file", 0, 1),
        "d/e": ("delete", "directory", 0, 0),
        "d/e/added": ("delete", "file", 0, 1),
        "deleted": ("create", "file", 0, 0),
        "empty": ("create", "directory", 0, 0),
        "deep": ("create", "directory", 0, 0),
        "deep/deeper": ("create", "directory", 0, 0),
        "deep/deeper/a\udcff\n": ("create", "file", 3, 0),
        "to-file": ("overwrite", "file", 4, 0),
        "to-file/e": ("delete", "directory", 0, 0),
        "to-file/inside": ("delete", "file", 0, 1),
        "to-folder": ("overwrite", "directory", 0, 1),
        "to-folder/inside": ("create", "link", 0, 0),
        "link": ("overwrite", "link", 0, 0),
        "large": ("overwrite", "file", 4500, 5000),
    }
    assert (report.conflicts, report.kept, report.failed) == ((), (), ())
    assert (report.snapshot, report.safety, report.dry_run) == ("snapshot-1", "safety-1", False)


def test_s05_undoing_leaves_a_secret_file_secret_although_the_restore_never_touched_it(
    shop: Workshop,
) -> None:
    build(shop.root, {b"secret": b"1"})
    (shop.root / "secret").chmod(0o600)

    shop.restore({b"secret": b"2"}, {b"secret": b"1"}, modes={})

    assert stat.S_IMODE((shop.root / "secret").stat().st_mode) == 0o600


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees(4096), trees(4096))
def test_i20_any_tree_becomes_any_other_and_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, one: Tree, other: Tree
) -> None:
    shop = Workshop(tmp_path_factory.mktemp("trees") / "root")
    build(shop.root, one)

    there = shop.restore(other, one)
    first = shop.state()
    back = shop.restore(one, other)

    assert (there.failed, there.kept, back.failed, back.kept) == ((), (), (), ())
    assert first == other
    assert shop.state() == one


def test_a_dry_run_writes_nothing_and_says_what_the_restore_then_does(shop: Workshop) -> None:
    build(shop.root, BEFORE)
    written = _times(shop.root)

    planned = shop.restore(TARGET, BEFORE, dry_run=True)

    assert _times(shop.root) == written
    assert shop.safeties == []
    assert (planned.dry_run, planned.id, planned.safety) == (True, None, None)
    with shop.engine.read() as reader:
        assert reader.scan_records(STORE_WIDE, "restore") == []
    assert shop.restore(TARGET, BEFORE).changes == planned.changes


def _times(root: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in [root, *root.rglob("*")]}


def test_a_root_that_is_missing_is_made_but_not_by_a_dry_run(shop: Workshop) -> None:
    planned = shop.restore(TARGET, dry_run=True)
    assert not shop.root.exists()

    report = shop.restore(TARGET)

    assert shop.state() == TARGET
    assert report.changes == planned.changes


def test_p13_an_ignored_file_that_the_snapshot_names_is_saved_before_it_is_replaced(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "root", ignored=[b".env", b"build"])
    build(shop.root, {b".env": b"mine", b"build": {b"a": b"mine", b"b": b"never named"}})
    target = {b".env": b"old", b"build": {b"a": b"old"}}

    kept = shop.restore(target, None, on_conflict="keep")
    report = shop.restore(target, None)

    assert paths_kept(kept) == (".env", "build/a")
    assert report.conflicts == (".env", "build/a")
    assert shop.state() == {b".env": b"old", b"build": {b"a": b"old", b"b": b"never named"}}
    saved = {entry.name: entry.digest for entry in shop.reader.directory(shop.safeties[-1])}
    assert saved[b".env"] == object_name(b"mine")


def test_an_ignored_directory_is_not_replaced_by_a_file_of_its_name(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "root", ignored=[b"build"])
    build(shop.root, {b"build": {b"a": b"mine"}})

    report = shop.restore({b"build": b"file"}, {})

    assert shop.state() == {b"build": {b"a": b"mine"}}
    assert paths_kept(report) == report.conflicts == ("build",)


def test_a_directory_with_ignored_files_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "root", ignored=[b"ignored"])
    before = {b"x": {b"known": b"1", b"ignored": b"2"}}
    build(shop.root, before)

    report = shop.restore({b"x": b"file"}, {b"x": {b"known": b"1"}})

    assert shop.state() == before
    assert paths_kept(report) == ("x",)


def test_i21_what_no_snapshot_can_hold_is_not_replaced(shop: Workshop) -> None:
    shop.root.mkdir()
    os.mkfifo(shop.root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(shop.root / "socket"))

        report = shop.restore({b"fifo": b"1", b"socket": b"2", b"a": b"3"}, None)

    assert paths_kept(report) == ("fifo", "socket")
    assert stat.S_ISFIFO((shop.root / "fifo").lstat().st_mode)
    assert shop.state() == {b"a": b"3"}


@pytest.mark.parametrize("paths", [["d/e", "added"], ["./d/e/", "added"]])
def test_only_the_paths_that_were_asked_for_are_restored(shop: Workshop, paths: list[str]) -> None:
    build(shop.root, BEFORE)

    shop.restore({b"d": {b"e": {b"back": b"1"}}}, BEFORE, paths=paths)

    expected: Tree = {**BEFORE, b"d": {b"added": b"y", b"e": {b"back": b"1"}}}
    del expected[b"added"]
    assert shop.state() == expected


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        (["no", "same", "d/no"], "'no', 'd/no'"),
        (["../x"], "'../x'"),
        (["/etc/passwd"], "'/etc/passwd'"),
        (["a/../../x"], "'a/../../x'"),
        (["a\0b"], "'a\\x00b'"),
        ("same", "'same'"),
        ([b"same"], "b'same'"),
    ],
)  # fmt: skip
def test_a_path_that_is_unknown_or_leads_elsewhere_is_refused_by_name(
    shop: Workshop, paths: Any, named: str
) -> None:
    build(shop.root, BEFORE)

    with pytest.raises(InvalidError) as refused:
        shop.restore(TARGET, BEFORE, paths=paths)

    assert named in str(refused.value)
    assert shop.state() == BEFORE


def test_an_unknown_way_with_conflicts_is_refused(shop: Workshop) -> None:
    with pytest.raises(InvalidError, match="merge"):
        shop.restore(TARGET, on_conflict="merge")  # type: ignore[arg-type]
    assert not shop.root.exists()


def test_permissions_of_a_replaced_file_stay_apart_from_the_executable_bits(shop: Workshop) -> None:
    before: Tree = {b"secret": b"1", b"script": Program(b"1"), b"plain": b"1"}
    build(shop.root, before)
    for name, mode in (("secret", 0o600), ("script", 0o750), ("plain", 0o640)):
        (shop.root / name).chmod(mode)

    shop.restore({b"secret": b"2", b"script": b"2", b"plain": Program(b"2")}, before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shop.root.iterdir()}
    assert modes == {"secret": 0o600, "script": 0o640, "plain": 0o750}


def test_a_new_file_has_the_permissions_that_the_umask_leaves(shop: Workshop) -> None:
    old = os.umask(0o027)
    try:
        shop.restore({b"a": b"1", b"b": Program(b"2"), b"d": {}})
    finally:
        os.umask(old)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shop.root.iterdir()}
    assert modes == {"a": 0o640, "b": 0o750, "d": 0o750}


def test_s08_a_hard_link_to_a_file_outside_keeps_its_content_and_mode(shop: Workshop, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"1")
    outside.chmod(0o644)
    shop.root.mkdir()
    (shop.root / "a").hardlink_to(outside)
    (shop.root / "b").hardlink_to(outside)

    shop.restore({b"a": b"2", b"b": Program(b"1")}, {b"a": b"1", b"b": b"1"})

    assert shop.state() == {b"a": b"2", b"b": Program(b"1")}
    assert outside.read_bytes() == b"1"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


def test_many_files_are_written_by_several_threads_with_progress(shop: Workshop) -> None:
    target: Tree = {b"d%d" % n: {b"f%d" % m: b"%d/%d" % (n, m) for m in range(20)} for n in range(20)}
    target[b"copies"] = {b"c%d" % n: b"0/0" for n in range(20)}
    told: list[FileProgress] = []

    report = shop.restore(target, on_progress=told.append)

    assert shop.state() == target
    assert report.failed == ()
    assert told[-1].files == told[-1].total_files == 420
    assert told[-1].bytes == sum(change.size for change in report.changes)
    assert len(told) > 3


class LyingReader(ObjectReader):
    """Gives other bytes than were asked for."""

    def get_many(self, names: Any) -> Any:
        for name, content in super().get_many(names):
            yield name, b"lies" if content == b"truth" else content


def test_content_with_another_hash_is_never_written(shop: Workshop) -> None:
    before = {b"a": b"mine", b"b": b"1"}
    build(shop.root, before)

    target = shop.put({b"a": b"truth", b"b": b"2"})
    report = shop.restore_tree(target, shop.put(before), reader=LyingReader(shop.engine.read))

    assert shop.state() == {b"a": b"mine", b"b": b"2"}
    assert [failure.path for failure in report.failed] == ["a"]
    assert "hash" in report.failed[0].reason


class BrokenReader(ObjectReader):
    """One object is damaged."""

    def _cut(self, name: bytes, place: Any) -> bytes:
        if name == object_name(b"damaged"):
            raise CorruptError(f"the object {name.hex()} is damaged")
        return super()._cut(name, place)


def test_a_damaged_object_costs_only_the_files_that_need_it(shop: Workshop) -> None:
    target = {b"a": b"damaged", b"b": b"1", b"c": b"2", b"d": b"damaged"}

    report = shop.restore_tree(shop.put(target), reader=BrokenReader(shop.engine.read))

    assert shop.state() == {b"b": b"1", b"c": b"2"}
    assert [failure.path for failure in report.failed] == ["a", "d"]


@pytest.mark.parametrize("lost", [b"of the target", b"of the present", b"x" * 1000])
def test_p13_nothing_is_touched_when_an_object_is_missing(shop: Workshop, lost: bytes) -> None:
    before = {b"a": b"of the present", b"b": b"1"}
    build(shop.root, before)
    target = {b"a": b"of the target", b"b": b"x" * 5500, b"c": b"3"}
    shop.put(target)
    name = object_name(lost)

    calm = shop.take_safety

    def take_safety(also: Any) -> tuple[str, bytes]:
        taken = calm(also)
        shop.engine.run(lambda tx: tx.drop_objects([name]))
        return taken

    shop.take_safety = take_safety  # type: ignore[method-assign]
    with pytest.raises(ObjectMissingError, match=name.hex()):
        shop.restore(target, before)

    assert shop.state() == before
    assert shop.pending() == []


def test_f44_a_file_that_changes_after_the_safety_snapshot_is_left_alone_and_reported(shop: Workshop) -> None:
    before = {b"changed": b"1", b"deleted": b"1", b"gone": b"1", b"same": b"1"}
    build(shop.root, before)
    calm = shop.take_safety

    def take_safety(also: Any) -> tuple[str, bytes]:
        taken = calm(also)
        (shop.root / "changed").write_bytes(b"2")  # of the same size, and within the tick of a clock
        (shop.root / "deleted").write_bytes(b"3")
        (shop.root / "gone").unlink()
        return taken

    shop.take_safety = take_safety  # type: ignore[method-assign]
    report = shop.restore({b"changed": b"0", b"gone": b"0", b"same": b"0"}, before)

    assert shop.state() == {b"changed": b"2", b"deleted": b"3", b"gone": b"0", b"same": b"0"}
    assert [(failure.path, failure.reason) for failure in report.failed] == [
        ("changed", "changed while restoring"),
        ("deleted", "changed while restoring"),
    ]
    assert [change.path for change in report.changes] == ["gone", "same"]


def test_f44_a_file_that_appears_where_one_is_created_is_not_overwritten(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.root.mkdir()
    real = os.fsync

    def appear(fd: int) -> None:
        (shop.root / "a").write_bytes(b"mine")
        real(fd)

    monkeypatch.setattr(os, "fsync", appear)
    report = shop.restore({b"a": b"1"})

    assert shop.state() == {b"a": b"mine"}
    assert [failure.reason for failure in report.failed] == ["changed while restoring"]


def test_f44_a_file_that_is_rewritten_while_its_successor_is_written_is_not_overwritten(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(shop.root, {b"a": b"1"})
    real = os.fsync

    def rewrite(fd: int) -> None:
        (shop.root / "a").write_bytes(b"mine")
        real(fd)

    monkeypatch.setattr(os, "fsync", rewrite)
    report = shop.restore({b"a": b"2"}, {b"a": b"1"})

    assert shop.state() == {b"a": b"mine"}
    assert [failure.reason for failure in report.failed] == ["changed while restoring"]


def test_a_root_that_can_not_be_made_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    shop = Workshop(tmp_path / "file" / "root")

    with pytest.raises(RootRefusedError, match="Not a directory"):
        shop.restore(TARGET)

    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_file_system_without_hard_links_is_restored_as_well(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    report = shop.restore({b"a": b"1", b"b": Link(b"a")})

    assert report.failed == ()
    assert shop.state() == {b"a": b"1", b"b": Link(b"a")}


@needs_root
def test_a_directory_that_must_not_be_written_to_is_reported_and_keeps_its_mode(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "root")
    before: Tree = {b"closed": {b"a": b"1"}, b"open": b"1"}
    build(shop.root, before)
    os.chown(shop.root, NOBODY, NOBODY)
    (shop.root / "closed").chmod(0o555)
    for path in [*tmp_path.parents, tmp_path]:
        if path.stat().st_mode & 0o001 == 0:
            path.chmod(path.stat().st_mode | 0o011)
    os.seteuid(NOBODY)
    try:
        report = shop.restore({b"closed": {b"b": b"2"}, b"open": b"2"}, before)
    finally:
        os.seteuid(0)

    assert [(failure.path, failure.reason) for failure in report.failed] == [
        ("closed/a", "Permission denied"),
        ("closed/b", "Permission denied"),
    ]
    assert shop.state() == {b"closed": {b"a": b"1"}, b"open": b"2"}
    assert stat.S_IMODE((shop.root / "closed").stat().st_mode) == 0o555


@needs_root
def test_s56_a_restore_for_which_there_is_no_room_changes_nothing() -> None:
    with mounted(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) as disk:
        shop = Workshop(disk / "root")
        before = {b"a": b"1", b"z": b"1"}
        build(shop.root, before)
        (disk / "ballast").write_bytes(bytes(500_000))
        target = {b"a": b"2", **{b"f%d" % n: b"%d" % n * 90_000 for n in range(8)}, b"z": b"2"}

        with pytest.raises(DiskFullError, match="are free"):
            shop.restore(target, before)

        assert shop.state() == before
        assert shop.pending() == []


def test_a_head_that_can_not_move_leaves_the_restore_pending_and_both_ways_open(shop: Workshop) -> None:
    build(shop.root, BEFORE)

    def refuse(tx: Transaction) -> None:
        raise ConflictError("the head moved")

    with pytest.raises(ConflictError, match="the head moved"):
        shop.restore(TARGET, BEFORE, finishing=refuse)
    [record] = shop.pending()
    assert record.holder is None, "another process must be able to take it over, while this one lives"
    shop.roll_back(record.id)

    assert shop.state() == BEFORE
