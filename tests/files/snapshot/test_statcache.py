"""The stat cache: with it a scan finds what it finds without, only sooner, whatever becomes of the cache."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.backends.memory import MemoryBackend
from clew.core import disk
from clew.core.engine.engine import Engine
from clew.errors import QuotaExceededError
from clew.files.snapshot import classify, ignore, listing, read, scan, statcache, walk
from clew.files.snapshot import statcache as recent
from clew.files.snapshot.classify import Limits
from clew.files.snapshot.listing import Beginning, packed, row_of
from clew.files.snapshot.statcache import StatCache, cache_directory
from tests.files.trees import Link, Program, Tree, build, in_store, on_disk, paths, take, trees

TREE: Tree = {
    b".gitignore": b"*.o\nout/\n",
    b"a": b"1",
    b"x.o": b"ignored",
    b"out": {b"y": b"ignored"},
    b"l": Link(b"a"),
    b"s": {b"b": b"2", b"t": {b"c": Program(b"3")}},
    b"e": {},
}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is about the file: so it is read each time."""
    monkeypatch.setattr(recent, "LARGEST", -1)


@pytest.fixture
def engine() -> Engine:
    return Engine(MemoryBackend())


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all that is on disk had been there for long."""
    for margin in ("MARGIN", "TICKS"):
        monkeypatch.setattr(listing, margin, -(10**18))


class Counted:
    """How often something is done."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        real: Callable[..., Any] = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            self.calls.append(arguments)
            return real(*arguments, **options)

        patch.setattr(owner, name, counting)


@pytest.fixture
def cache(engine: Engine, tmp_path: Path) -> StatCache:
    """What one scan of TREE left, which is in the directory of the test."""
    build(tmp_path, TREE)
    cache = StatCache()
    take(engine, tmp_path, cache=cache)
    return cache


def cached(directory: Path, root: Path, key: bytes = b"k") -> StatCache:
    return StatCache.open(directory, os.path.realpath(root), key)


# -- what it is for


@pytest.mark.usefixtures("settled")
def test_of_an_unchanged_tree_nothing_is_read_matched_encoded_or_written(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, place = tmp_path / "root", tmp_path / "cache"
    build(root, TREE)
    first = take(engine, root, cache=cached(place, root))
    counts = [
        Counted(monkeypatch, scan, "store_file"),
        Counted(monkeypatch, ignore.Patterns, "verdict"),
        Counted(monkeypatch, classify.Draft, "folder"),
        Counted(monkeypatch, statcache, "_replace"),
    ]
    assert take(engine, root, cache=cached(place, root)) == first
    assert [count.calls for count in counts] == [[], [], [], []]


@pytest.mark.usefixtures("settled")
def test_of_a_changed_directory_only_what_changed_is_read(
    engine: Engine, tmp_path: Path, cache: StatCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s/new").write_bytes(b"n")
    (tmp_path / "a").write_bytes(b"changed")
    reads = Counted(monkeypatch, scan, "store_file")
    verdicts = Counted(monkeypatch, ignore.Ignore, "takes_file")
    after = take(engine, tmp_path, cache=cache)
    assert sorted(call[1] for call in reads.calls) == ["a", "new"]
    assert [call[3] for call in verdicts.calls] == ["s/new"]
    assert after == take(engine, tmp_path)


# -- when it must not be believed


@pytest.mark.parametrize("margin", [listing.MARGIN, listing.TICKS])
def test_times_that_are_not_well_in_the_past_are_racy(margin: int) -> None:
    began = Beginning(1_000_000_000_123_456_789, margin)
    old, young = began.time - margin - 1, began.time - margin
    assert not began.is_racy(old, old)
    assert began.is_racy(old, young)
    assert began.is_racy(old, began.time + 100 * margin)  # the clock was set back since
    assert began.is_racy(young, old)
    assert not began.is_racy(began.time + 1000 * margin, old)  # somebody set it; whoever did left a ctime


def test_times_of_whole_seconds_have_to_be_older() -> None:
    """ext4 with small inodes keeps no more than seconds."""
    began = Beginning(1_000_000_000_500_000_000, listing.TICKS)
    assert began.is_racy(1, 999_999_999_000_000_000)
    assert not began.is_racy(1, 999_999_999_000_000_001)
    assert not began.is_racy(1, 999_999_998_000_000_000)


def test_only_local_file_systems_are_trusted_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, margin in ((disk.EXT4, listing.TICKS), (0x6969, listing.MARGIN), (None, listing.MARGIN)):
        monkeypatch.setattr(listing, "kind_of", lambda fd, kind=kind: kind)
        assert Beginning.now(str(tmp_path)).margin == margin


def test_no_change_keeps_the_stamp_that_it_had_a_tick_before(tmp_path: Path) -> None:
    """What the margin rests upon: a change is stamped by a clock that ticks more often than that."""
    file = tmp_path / "file"
    for _ in range(300):
        began = read._stamp()
        file.write_bytes(b"x")
        assert file.stat().st_ctime_ns >= began
    assert read.TICK * 1e9 <= listing.TICKS // 5


def test_a_change_that_leaves_no_trace_in_the_times_is_seen(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    (tmp_path / "s/b").write_bytes(b"X")
    os.unlink(tmp_path / "l")
    os.symlink("b", tmp_path / "l")
    _pretend_same_times(cache, tmp_path)
    assert in_store(engine, take(engine, tmp_path, cache=cache).tree)[b"s"] == on_disk(tmp_path / "s")
    assert take(engine, tmp_path, cache=cache).tree == take(engine, tmp_path).tree


def _pretend_same_times(cache: StatCache, root: Path) -> None:
    """As if the changes had happened within one tick of the clock, in the same inodes."""
    for path, folder in cache.folders.items():
        names = folder.names.split(b"\0") if folder.names else []
        rows = [row_of(os.lstat(os.path.join(os.fsencode(root), path, name))) for name in names]
        cache.folders[path] = msgspec.structs.replace(folder, stats=packed(rows))


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", ["content", "times", "mode", "inode", "kind"])
def test_whatever_a_file_shows_of_a_change_is_seen(
    engine: Engine, tmp_path: Path, cache: StatCache, change: str
) -> None:
    path = tmp_path / "a"
    before = os.stat(path)
    match change:
        case "content":
            path.write_bytes(b"12")
        case "times":
            path.write_bytes(b"9")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "mode":
            path.chmod(0o755)
        case "inode":
            (tmp_path / "other").write_bytes(b"8")
            os.utime(tmp_path / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
            os.replace(tmp_path / "other", path)
        case "kind":
            path.unlink()
            path.mkdir()
    assert take(engine, tmp_path, cache=cache) == take(engine, tmp_path)


def test_objects_that_the_store_lost_are_stored_again(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    other = Engine(MemoryBackend())
    found = take(other, tmp_path, cache=cache)
    assert in_store(other, found.tree) == in_store(engine, found.tree)


@pytest.mark.usefixtures("settled")
def test_a_cache_of_another_root_or_key_or_format_is_not_believed(tmp_path: Path, engine: Engine) -> None:
    root, place = tmp_path / "root", tmp_path / "cache"
    build(root, TREE)
    take(engine, root, cache=cached(place, root))
    assert cached(place, root).folders
    assert not cached(place, root, b"after gc").folders
    assert not cached(place, tmp_path / "elsewhere").folders
    (file,) = place.iterdir()
    shutil.copy(file, place / os.path.basename(_file_of(cached(place, tmp_path / "elsewhere"))))
    assert not cached(place, tmp_path / "elsewhere").folders


def _file_of(cache: StatCache) -> str:
    assert cache._path is not None
    return cache._path


@pytest.mark.usefixtures("settled")
@given(data=st.data())
@settings(max_examples=60)
def test_f_a_damaged_cache_costs_time_and_nothing_else(data: st.DataObject) -> None:
    engine = Engine(MemoryBackend())
    with TemporaryDirectory() as directory:
        root, place = Path(directory, "root"), Path(directory, "cache")
        build(root, TREE)
        first = take(engine, root, cache=cached(place, root))
        (file,) = place.iterdir()
        content = bytearray(file.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            del content[at:]
        else:
            content[at] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        damaged = cached(place, root)
        assert not damaged.folders
        assert take(engine, root, cache=damaged) == first


@pytest.mark.usefixtures("settled")
def test_s05_s06_it_is_the_users_alone_and_a_planted_one_is_not_read(engine: Engine, tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "cache"
    build(root, TREE)
    old = os.umask(0)
    try:
        take(engine, root, cache=cached(place, root))
    finally:
        os.umask(old)
    (file,) = place.iterdir()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o666)
    assert not cached(place, root).folders
    file.chmod(0o600)
    os.rename(file, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", file)
    assert not cached(place, root).folders
    take(engine, root, cache=cached(place, root))
    assert not file.is_symlink()


def test_where_it_can_not_be_written_there_is_none(engine: Engine, tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, TREE)
    (tmp_path / "file").write_bytes(b"")
    first = take(engine, root, cache=cached(tmp_path / "file/cache", root))
    assert take(engine, root, cache=cached(tmp_path / "file/cache", root)) == first


def test_each_store_has_a_place_of_its_own_in_the_users_cache_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    places = {cache_directory("/a.db"), cache_directory("/b.db")}
    assert len(places) == 2
    assert all(place is not None and place.startswith("/caches/clew/") for place in places)
    assert cache_directory("memory:") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_directory("/a.db") is None


@pytest.mark.usefixtures("settled")
def test_a_scan_that_failed_leaves_the_cache_as_it_was(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    before = dict(cache.folders)
    (tmp_path / "a").write_bytes(b"more than there may be")
    with pytest.raises(QuotaExceededError):
        take(engine, tmp_path, cache=cache, limits=Limits(max_bytes=10))
    assert cache.folders == before


# -- other rules, and what a restore needs


@pytest.mark.usefixtures("settled")
def test_other_rules_are_obeyed_though_no_file_changed(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    rules: list[dict[str, Any]] = [
        {"exclude": ["b"]},
        {"include": ["x.o", "out/"]},
        {"never": [str(tmp_path / "s")]},
        {},
    ]
    for options in rules:
        assert take(engine, tmp_path, cache=cache, **options) == take(engine, tmp_path, **options)
    (tmp_path / ".gitignore").write_bytes(b"c\n")
    after = take(engine, tmp_path, cache=cache)
    assert after == take(engine, tmp_path)
    assert paths(in_store(engine, after.tree)) >= {b"x.o", b"out/y", b"s/t/"}
    assert b"s/t/c" not in paths(in_store(engine, after.tree))


@pytest.mark.usefixtures("settled")
def test_what_was_taken_for_a_restore_is_not_remembered_as_what_the_rules_say(
    engine: Engine, tmp_path: Path
) -> None:
    build(tmp_path, TREE)
    cache = StatCache()
    plain = take(engine, tmp_path, cache=cache)
    also = [b"x.o", b"out/y", b"s/b"]
    forced = take(engine, tmp_path, cache=cache, also=also)
    assert forced == take(engine, tmp_path, also=also)
    assert paths(in_store(engine, forced.tree)) >= {b"x.o", b"out/y"}
    assert take(engine, tmp_path, cache=cache) == plain
    assert take(engine, tmp_path, cache=cache, also=also) == forced


# -- any sequence of changes


class Edits:
    """Changes to a tree, drawn by Hypothesis; the directories whose listing or files they changed."""

    def __init__(self, root: Path, data: st.DataObject) -> None:
        self.root = root
        self.changed: set[bytes] = set()
        self._data = data

    def make(self) -> None:
        places = sorted(path[:-1] for path in paths(on_disk(self.root)) if path.endswith(b"/"))
        place = self._data.draw(st.sampled_from([b"", *places]))
        names = sorted(os.listdir(os.fsencode(self.root) + b"/" + place))
        name = self._data.draw(st.sampled_from([b"n1", b"n2", *names]))
        path = os.path.join(os.fsencode(self.root), place, name)
        self.changed.add(place)
        match self._data.draw(st.sampled_from(["write", "remove", "folder", "move", "rules"])):
            case "write" if not os.path.isdir(path) or os.path.islink(path):
                _remove(path)
                Path(os.fsdecode(path)).write_bytes(self._data.draw(st.binary(min_size=1, max_size=2)))
            case "remove":
                _remove(path)
            case "folder":
                _remove(path)
                build(os.fsdecode(path), self._data.draw(trees(largest=0, max_leaves=4)))
            case "move" if os.path.lexists(path) and (place or name).split(b"/")[0] != b"moved":
                target = os.path.join(os.fsencode(self.root), b"moved")
                _remove(target)
                os.rename(path, target)
                self.changed.add(b"")
            case "rules":
                rules = self._data.draw(st.sampled_from([b"*", b"n1\n", b"*/\n", b"!*\n", b"moved\n"]))
                target = os.path.join(os.fsencode(self.root), place, b".gitignore")
                _remove(target)
                Path(os.fsdecode(target)).write_bytes(rules)


def _remove(path: bytes) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


@settings(max_examples=30)
@given(tree=trees(largest=0), data=st.data())
@pytest.mark.parametrize("by_watcher", [False, True])
def test_with_the_cache_a_scan_finds_what_it_finds_without(
    by_watcher: bool, tree: Tree, data: st.DataObject
) -> None:
    engine = Engine(MemoryBackend())
    with TemporaryDirectory() as directory:
        root, place = Path(directory, "root"), Path(directory, "cache")
        build(root, tree)
        kept = cached(place, root)
        take(engine, root, cache=kept)
        for _ in range(3):
            edits = Edits(root, data)
            for _ in range(data.draw(st.integers(0, 3))):
                edits.make()
            cache = kept if by_watcher else cached(place, root)
            found = take(engine, root, cache=cache, changed_dirs=edits.changed if by_watcher else None)
            assert found == take(engine, root)
            assert in_store(engine, found.tree) is not None


# -- with a watcher


@pytest.mark.usefixtures("settled")
def test_with_a_watcher_only_what_it_names_is_listed(
    engine: Engine, tmp_path: Path, cache: StatCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s/t/c").write_bytes(b"changed")
    listed = Counted(monkeypatch, walk, "list_directory")
    found = take(engine, tmp_path, cache=cache, changed_dirs=[b"s/t"])
    assert len(listed.calls) == 1
    assert found == take(engine, tmp_path)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("changed", [[b""], [b"", b"s/t"], [b"", b"s"]])
def test_with_a_watcher_another_directory_of_the_same_name_is_looked_at(
    engine: Engine, tmp_path: Path, changed: list[bytes]
) -> None:
    root = tmp_path / "root"
    build(root, {b"s": {b"t": {b"c": b"1"}, b"u": {b"d": b"2"}}})
    cache = StatCache()
    take(engine, root, cache=cache)
    build(tmp_path / "new", {b"t": {b"c": b"1"}, b"u": {b"d": b"3"}})
    os.rename(root / "s", tmp_path / "old")
    os.rename(tmp_path / "new", root / "s")
    found = take(engine, root, cache=cache, changed_dirs=changed)
    assert in_store(engine, found.tree) == on_disk(root)


@pytest.mark.usefixtures("settled")
def test_with_a_watcher_a_directory_that_is_gone_leaves_no_trace(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    shutil.rmtree(tmp_path / "s")
    assert take(engine, tmp_path, cache=cache, changed_dirs=[b"s/t"]) == take(engine, tmp_path)
    assert not any(path.startswith(b"s") for path in cache.folders)


def test_a_racy_file_that_can_not_be_read_any_more_is_not_what_it_was(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, TREE)
    cache = StatCache()
    whole = take(engine, tmp_path, cache=cache)
    with monkeypatch.context() as patch:
        patch.setattr(scan, "store_file", lambda *_: "unreadable")
        found = take(engine, tmp_path, cache=cache)
        assert {skipped.path for skipped in found.skipped} == {".gitignore", "a", "s/b", "s/t/c"}
        assert paths(in_store(engine, found.tree)) == {b"e/", b"l", b"s/", b"s/t/"}
        assert all(map(statcache._is_whole, cache.folders.values()))
    assert take(engine, tmp_path, cache=cache) == whole


def test_with_a_watcher_and_no_cache_everything_is_listed(engine: Engine, tmp_path: Path) -> None:
    build(tmp_path, TREE)
    assert take(engine, tmp_path, cache=StatCache(), changed_dirs=[]) == take(engine, tmp_path)


@pytest.mark.usefixtures("settled")
def test_with_a_watcher_new_rules_reach_the_directories_below(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    (tmp_path / ".gitignore").write_bytes(b"c\n")
    assert take(engine, tmp_path, cache=cache, changed_dirs=[b""]) == take(engine, tmp_path)


def test_above_a_change_a_directory_with_racy_files_is_made_anew(
    engine: Engine, tmp_path: Path, cache: StatCache
) -> None:
    (tmp_path / "s/t/c").write_bytes(b"changed, and longer")
    assert take(engine, tmp_path, cache=cache) == take(engine, tmp_path)
