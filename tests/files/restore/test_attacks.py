"""S-01, S-07, S-08: tampered trees, symlinks in the way, directories swapped for symlinks half-way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import clew
from clew.core.disk import DIRECTORY_FLAGS, FILE_FLAGS
from clew.errors import CorruptError, DiskFullError, InvalidError
from clew.files import journal
from clew.files.diff.diff import diff
from clew.files.objects import format
from clew.files.objects.format import (
    CHUNKED,
    DIRECTORY,
    FILE,
    FOLDER,
    LINK,
    Chunk,
    TreeEntry,
    encode_chunks,
    encode_directory,
    object_name,
)
from clew.files.restore import root
from clew.files.upkeep.gc import gc
from clew.files.upkeep.verify import verify
from tests.files.restore.nested_trees import Tree, Workshop, paths_kept
from tests.files.snapshots import put, recorded
from tests.files.trees import Link, Program, build, on_disk

OUTSIDE: Tree = {b"a": b"outside", b"known": b"outside", b"e": {b"b": b"outside"}}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    build(tmp_path / "outside", OUTSIDE)
    return tmp_path / "outside"


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "root")


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
    build(shop.root, {b"mine": b"1"})
    content = tampered(*names)
    put(shop.engine, b"evil", content)
    for _ in range(depth):
        content = encode_directory([TreeEntry(b"d", FOLDER, object_name(content), len(content))])
        put(shop.engine, content)

    with pytest.raises(CorruptError):
        shop.restore_tree(object_name(content))

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
    put(shop.engine, content, tree)

    try:
        report = shop.restore_tree(object_name(tree))
    except CorruptError:
        pass
    else:
        assert [failure.path for failure in report.failed] == ["a"]

    assert not shop.root.exists() or shop.state() == {}


def test_s08_a_file_with_a_false_size_is_not_written(shop: Workshop) -> None:
    tree = encode_directory([TreeEntry(b"a", FILE, object_name(b"evil"), 999)])
    put(shop.engine, b"evil", tree)

    report = shop.restore_tree(object_name(tree))

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
    build(shop.root, now)

    shop.restore({b"d": {b"a": b"1"}, b"a": b"2"}, now)

    assert shop.state() == {b"d": {b"a": b"1"}, b"a": b"2"}
    assert on_disk(outside) == OUTSIDE


def test_s08_a_link_of_the_snapshot_is_not_written_through(shop: Workshop, outside: Path) -> None:
    first = {b"d": Link(os.fsencode(outside))}
    build(shop.root, first)

    kept = shop.restore({b"d": {b"a": b"evil"}}, None, on_conflict="keep")
    partly = shop.restore({b"d": {b"a": b"evil"}}, first, paths=["d/a"])

    assert paths_kept(kept) == paths_kept(partly) == ("d",)
    assert shop.state() == first
    assert on_disk(outside) == OUTSIDE


def test_no_flag_that_would_follow_a_link_is_used() -> None:
    assert DIRECTORY_FLAGS & os.O_NOFOLLOW
    assert DIRECTORY_FLAGS & os.O_DIRECTORY
    assert FILE_FLAGS & os.O_NOFOLLOW
    assert root.NEW_FLAGS & os.O_EXCL


# -- modes


@pytest.mark.parametrize("special", [stat.S_ISUID, stat.S_ISGID, stat.S_ISVTX])
def test_s50_no_special_bit_is_brought_back(shop: Workshop, special: int) -> None:
    """Neither of a file nor of a directory, by a restore or by taking one back."""
    build(shop.root, {b"run": Program(b"old"), b"d": {b"a": b"1"}})
    for name, mode in (("run", 0o751), ("d", 0o775)):
        (shop.root / name).chmod(mode | special)
    report = shop.restore({b"run": b"new"}, {b"run": Program(b"old"), b"d": {b"a": b"1"}})

    with shop.engine.read() as reader:
        record = journal.get(reader, report.id or "")
    shop.restore({b"run": Program(b"old"), b"d": {b"a": b"1"}}, {b"run": b"new"}, modes=record.modes)

    found = {name: stat.S_IMODE((shop.root / name).stat().st_mode) for name in ("run", "d")}
    assert found == {"run": 0o751, "d": 0o775}


@pytest.mark.parametrize("special", [stat.S_ISUID, stat.S_ISGID, stat.S_ISVTX])
def test_s50_a_journal_that_asks_for_special_bits_does_not_get_them(shop: Workshop, special: int) -> None:
    modes = {b"run": 0o777 | special, b"d": 0o777 | special, b"d/a": 0o666 | special}
    shop.restore({b"run": Program(b"new"), b"d": {b"a": b"1"}}, {}, modes=modes)

    found = {path: stat.S_IMODE((shop.root / os.fsdecode(path)).stat().st_mode) for path in modes}
    assert found == {b"run": 0o777, b"d": 0o777, b"d/a": 0o666}


# -- small trees that unpack to much

ZEROS = bytes(1000)
HUGE = 10 * 1000**4


def bomb(shop: Workshop, depth: int, leaf: bytes = b"x", size: int = 1) -> bytes:
    """A tree with 2 ** depth files, in as many objects as it is deep."""
    content = encode_directory([TreeEntry(b"f", FILE, object_name(leaf), size)])
    put(shop.engine, leaf, content)
    for _ in range(depth):
        inner = object_name(content)
        content = encode_directory([TreeEntry(name, FOLDER, inner, len(content)) for name in (b"a", b"b")])
        put(shop.engine, content)
    return object_name(content)


def chunked(shop: Workshop, chunks: list[Chunk], size: int) -> bytes:
    """A tree with one file of these chunks."""
    content = encode_chunks(chunks)
    tree = encode_directory([TreeEntry(b"a", FILE | CHUNKED, object_name(content), size)])
    put(shop.engine, ZEROS, content, tree)
    return object_name(tree)


def test_s56_a_tree_of_more_paths_than_any_snapshot_has_is_refused_before_anything_is_touched(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format, "MOST_PATHS", 10_000)
    build(shop.root, {b"mine": b"1"})

    with pytest.raises(CorruptError, match="no snapshot that Clew took is so large"):
        shop.restore_tree(bomb(shop, 200))

    assert shop.state() == {b"mine": b"1"}


def test_s56_a_part_of_such_a_tree_can_be_restored(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format, "MOST_PATHS", 10_000)
    path = "/".join(["a"] * 200 + ["f"])
    shop.restore_tree(bomb(shop, 200), paths=[path])
    assert (shop.root / path).read_bytes() == b"x"


def test_s56_a_tree_whose_paths_are_too_long_together_is_refused(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format, "MOST_BYTES", 100_000)
    content = encode_directory([])
    for _ in range(1000):
        content = encode_directory([TreeEntry(b"d", FOLDER, object_name(content), len(content))])
        put(shop.engine, content)
    with pytest.raises(CorruptError, match="so large"):
        shop.restore_tree(object_name(content))


def test_s56_a_comparison_ends_though_nothing_is_found_to_differ(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are no difference, but directories that say others are not equal, and all are entered."""
    monkeypatch.setattr(format, "MOST_PATHS", 10_000)
    trees = bomb(shop, 200, size=1), bomb(shop, 200, size=2)
    with pytest.raises(CorruptError, match="so large"):
        diff(shop.reader, *trees)
    with pytest.raises(CorruptError, match="so large"):
        diff(shop.reader, None, trees[0])


def test_s56_verify_and_gc_of_such_a_tree_end(shop: Workshop) -> None:
    """Each directory is looked at once; of what is missing a few paths are told, not all of them."""
    tree = bomb(shop, 200)
    engine = shop.engine
    recorded(engine, tree)
    assert verify(engine).problems == ()
    gc(engine)
    engine.run(lambda tx: tx.drop_objects([object_name(b"x")]))
    (problem,) = verify(engine).problems
    assert problem.count(" of the snapshot ") == 3
    assert problem.endswith("and more")


@pytest.mark.parametrize("size", [HUGE, 2**63])
def test_s56_a_restore_that_the_disk_has_no_room_for_is_refused_before_anything_is_touched(
    shop: Workshop, size: int
) -> None:
    """A list of chunks that names one of them again and again, honest about how long that is."""
    build(shop.root, {b"mine": b"1"})
    tree = chunked(shop, [Chunk(object_name(ZEROS), size)], size)

    with pytest.raises(DiskFullError, match="bytes are free"):
        shop.restore_tree(tree)

    assert shop.state() == {b"mine": b"1"}
    assert os.listdir(shop.root) == ["mine"]


def test_a_restore_may_replace_more_than_is_free(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes makes room for what comes."""
    build(shop.root, {b"a": b"1" * 900})
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result([1] * 9 + [255]))
    report = shop.restore({b"a": b"2" * 900}, {b"a": b"1" * 900})
    assert report.failed == ()


@pytest.mark.parametrize(
    ("chunks", "size"),
    [
        ([Chunk(object_name(ZEROS), 1000)] * 3, 2000),
        ([Chunk(object_name(ZEROS), 1000)] * 3, 4000),
        ([Chunk(object_name(ZEROS), 10)] * 3, 30),
        ([Chunk(object_name(ZEROS), 2000)], 2000),
    ],
)
def test_s56_a_file_whose_chunks_are_not_as_long_as_it_says_is_not_written(
    shop: Workshop, chunks: list[Chunk], size: int
) -> None:
    tree = chunked(shop, chunks, size)

    report = shop.restore_tree(tree)

    assert [failure.path for failure in report.failed] == ["a"]
    assert shop.state() == {}
    with pytest.raises(CorruptError):
        list(shop.reader.pieces(TreeEntry(b"a", FILE | CHUNKED, object_name(encode_chunks(chunks)), size)))


def test_s56_nothing_is_read_of_a_file_that_is_longer_than_it_says(shop: Workshop) -> None:
    chunks = [Chunk(object_name(ZEROS), 1000)] * 1000
    put(shop.engine, ZEROS, encode_chunks(chunks))
    entry = TreeEntry(b"a", FILE | CHUNKED, object_name(encode_chunks(chunks)), 10)
    with pytest.raises(CorruptError, match="its directory says 10"):
        next(shop.reader.pieces(entry))


def test_s56_a_file_that_is_too_long_for_memory_is_not_read(tmp_path: Path) -> None:
    with clew.open(tmp_path / "store.db") as store:
        shop = Workshop(tmp_path / "root", store._engine)
        tree = chunked(shop, [Chunk(object_name(ZEROS), HUGE)], HUGE)
        snapshot = recorded(store._engine, tree)
        with pytest.raises(InvalidError, match="10,000,000,000,000 bytes, more than max_bytes"):
            store.read_file(snapshot, "a")
        (told,) = store.diff(snapshot, store.snapshot(_made(tmp_path / "empty")), text=True)
        assert told.text is None


def _made(path: Path) -> Path:
    path.mkdir()
    return path
