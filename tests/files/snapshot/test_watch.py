"""The watcher: what it vouches for has not changed, and whenever it cannot vouch, it does not."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from clew.backends.memory import MemoryBackend
from clew.core import directory_watch
from clew.core.directory_watch import Inotify
from clew.core.engine.engine import Engine
from clew.files.objects.store import ObjectWriter
from clew.files.snapshot import watch
from clew.files.snapshot.classify import Limits
from clew.files.snapshot.scan import scan
from clew.files.snapshot.statcache import StatCache
from clew.files.snapshot.watch import Watch, WatchedCache
from tests.files.trees import Tree, build, take

pytestmark = pytest.mark.skipif(not directory_watch.IS_THERE, reason="only Linux tells exactly what changed")

TREE: Tree = {
    b"top.txt": b"top",
    b"a": {b"one.txt": b"1", b"sub": {b"deep.txt": b"deep", b"more.txt": b"more"}},
    b"b": {b"two.txt": b"2", b"sub": {b"deep.txt": b"other"}},
    b"odd\xff": {b"x\n": b"x"},
    b"empty": {},
}


class Scene:
    """A tree that is watched."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 1000.0
        self.engine = Engine(MemoryBackend())
        self.watch = Watch(str(root), clock=lambda: self.now)
        self.seen: dict[int, dict[bytes, object]] = {}
        """Of each cache: what its directories were like at the last scan."""

    def begin(self, key: bytes = b"rules") -> WatchedCache:
        return self.watch.begin(key, StatCache)

    def scan(self, lens: WatchedCache) -> bytes:
        self.check_vouched(lens)
        writer = ObjectWriter(self.engine)
        found = scan(str(self.root), writer, limits=Limits(), cache=lens.cache, changed_dirs=lens.changed)
        self.seen[id(lens.cache)] = {path: look_at(self.root, path) for path in lens.cache.folders}
        return found.tree

    def check_vouched(self, lens: WatchedCache) -> None:
        """Scans have walls of their own (identities, times that may lie): here the word alone counts."""
        if lens.changed is not None:
            now = {path: look_at(self.root, path) for path in lens.cache.folders}
            before = self.seen[id(lens.cache)]
            wrong = {path for path in now if now[path] != before[path]}
            assert wrong <= lens.changed

    def snapshot(self, key: bytes = b"rules") -> bytes:
        lens = self.begin(key)
        tree = self.scan(lens)
        self.watch.end(lens)
        return tree

    def fresh(self) -> bytes:
        """What somebody sees who knows nothing."""
        return take(self.engine, self.root).tree

    def warm(self) -> None:
        """Take snapshots until the watcher vouches."""
        for _ in range(3):
            self.snapshot()
        assert self.watch.why_not is None


def look_at(root: Path, path: bytes) -> object:
    """All that can be seen of a directory itself; None: it is none."""
    at = os.fsencode(root) + b"/" + path
    try:
        entries = [(entry, entry.stat(follow_symlinks=False)) for entry in os.scandir(at)]
        inode = os.stat(at, follow_symlinks=False).st_ino
    except OSError:
        return None
    return inode, sorted((entry.name, _look_at_entry(entry, found)) for entry, found in entries)


def _look_at_entry(entry: os.DirEntry[bytes], found: os.stat_result) -> tuple[object, ...]:
    if entry.is_dir(follow_symlinks=False):
        return (found.st_ino,)
    content = Path(os.fsdecode(entry.path)).read_bytes() if entry.is_file(follow_symlinks=False) else b""
    return found.st_ino, found.st_mode, content


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    root = tmp_path.resolve() / "root"
    build(root, TREE)
    scene = Scene(root)
    with scene.watch:
        yield scene


# -- what it vouches for


def test_the_first_looks_are_at_everything_and_then_nothing_needs_one(scene: Scene) -> None:
    """Before it was armed it cannot vouch; what it watched too late, it has looked at again."""
    reasons, seen = [], []
    for _ in range(4):
        lens = scene.begin()
        reasons.append(scene.watch.why_not is None)
        seen.append(lens.changed)
        assert scene.scan(lens) == scene.fresh()
        scene.watch.end(lens)

    assert reasons[0] is False
    assert reasons[-2:] == [True, True]
    assert seen[-1] == frozenset()


def test_only_the_directory_of_a_change_needs_a_look(scene: Scene) -> None:
    scene.warm()
    (scene.root / "a/sub/deep.txt").write_text("changed")

    assert scene.begin().changed == frozenset({b"a/sub"})


def _swap(root: Path) -> None:
    (root / "b").rename(root / "c")
    (root / "a").rename(root / "b")


def _to_link(root: Path) -> None:
    (root / "a").rename(root.parent / "outside")
    (root / "a").symlink_to(root.parent / "outside")


def _again(root: Path) -> None:
    shutil.rmtree(root / "a")
    build(root / "a", {b"sub": {b"deep.txt": b"DEEP"}})


def _in_place(root: Path) -> None:
    """The same size, and the same time of modification."""
    file = root / "a/one.txt"
    before = file.stat()
    file.write_text("9")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "write": lambda root: (root / "a/sub/deep.txt").write_text("new"),
    "write in place": _in_place,
    "create": lambda root: (root / "empty/new.txt").write_text("new"),
    "delete": lambda root: (root / "b/two.txt").unlink(),
    "rename": lambda root: (root / "a/one.txt").rename(root / "b/one.txt"),
    "mode": lambda root: (root / "a/one.txt").chmod(0o755),
    "mode of a directory": lambda root: (root / "a/sub").chmod(0o711),
    "link": lambda root: (root / "a/link").symlink_to("one.txt"),
    "new directories": lambda root: build(root / "a/x/y/z", {b"f": b"f", b"w": {}}),
    "directory gone": lambda root: shutil.rmtree(root / "a"),
    "directory moved": lambda root: (root / "a").rename(root / "empty/a"),
    "directory moved out": lambda root: (root / "a").rename(root.parent / "a"),
    "directories swapped": _swap,
    "directory for symlink": _to_link,
    "directory made again": _again,
    "rules": lambda root: (root / ".gitignore").write_text("sub/\n"),
    "rules below": lambda root: (root / "a/.clewignore").write_text("*.txt\n"),
    "a name that is no utf-8": lambda root: Path(os.fsdecode(os.fsencode(root) + b"/odd\xff/y")).touch(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen_and_later_ones_too(scene: Scene, change: Callable[[Path], object]) -> None:
    """The watcher vouches all the time, and the tree is what somebody sees who knows nothing."""
    scene.warm()
    change(scene.root)

    assert scene.snapshot() == scene.fresh()
    assert scene.watch.why_not is None
    for directory, _, files in os.walk(scene.root):  # whatever is new, or in a new place, is watched too
        for name in files:
            with open(os.path.join(directory, name), "a") as file:
                file.write("#")
        assert scene.snapshot() == scene.fresh()
    assert scene.watch.why_not is None


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_tree_is_right(scene: Scene, seed: int) -> None:
    """Random changes, several between two snapshots, by two sets of rules in turn."""
    chance = random.Random(seed)
    scene.warm()
    vouched = 0
    for step in range(40):
        for _ in range(chance.randrange(4)):
            _change_something(scene.root, chance, step)
        assert scene.snapshot(chance.choice([b"rules", b"others"])) == scene.fresh()
        vouched += scene.watch.why_not is None
    assert vouched > 20


def _change_something(root: Path, chance: random.Random, step: int) -> None:
    """Few names, so that they come again with other content."""
    directories = [Path(at) for at, _, _ in os.walk(root)]
    files = [Path(at) / name for at, _, names in os.walk(root) for name in names]
    one, other = chance.choice(directories), chance.choice(directories)
    match chance.randrange(6):
        case 0:
            (one / f"f{chance.randrange(3)}").write_text(str(step))
        case 1 if files:
            chance.choice(files).unlink()
        case 2:
            build(one / f"d{chance.randrange(3)}", {b"f": b"%d" % step})
        case 3 if one != root and one not in (other, *other.parents):
            place = other / f"d{chance.randrange(3)}"
            if place not in (one, *one.parents):
                shutil.rmtree(place, ignore_errors=True)
                one.rename(place)
        case 4 if one != root and chance.random() < 0.3:
            shutil.rmtree(one)
        case _ if files:
            with chance.choice(files).open("a") as file:
                file.write(f"{step}")


def test_a_directory_that_somebody_holds_open_and_is_made_again_is_noticed(scene: Scene) -> None:
    """It does not say itself that it was deleted before the last one lets go of it."""
    scene.warm()
    held = os.open(scene.root / "a/sub", os.O_RDONLY)
    try:
        _again(scene.root)
        assert scene.snapshot() == scene.fresh()
        (scene.root / "a/sub/deep.txt").write_text("in the new one")
        assert scene.snapshot() == scene.fresh()
    finally:
        os.close(held)
    assert scene.watch.why_not is None


def test_f44_what_changes_during_a_scan_is_seen_by_the_next_one(scene: Scene) -> None:
    scene.warm()
    (scene.root / "a/one.txt").write_text("before")
    lens = scene.begin()
    scene.scan(lens)
    (scene.root / "a/one.txt").write_text("meanwhile")
    scene.watch.end(lens)

    assert scene.snapshot() == scene.fresh()


def test_a_directory_that_was_watched_after_its_listing_is_looked_at_again(scene: Scene) -> None:
    """A new directory can be watched only when the scan has found it; till then nobody tells."""
    scene.warm()
    build(scene.root / "new/deep", {b"f": b"1"})
    lens = scene.begin()
    scene.scan(lens)
    (scene.root / "new/deep/f").write_text("2")
    (scene.root / "new/deep/g").write_text("3")
    scene.watch.end(lens)

    assert scene.snapshot() == scene.fresh()
    assert scene.watch.why_not is None


def test_a_watch_that_another_lens_added_meanwhile_is_too_late_for_this_one(scene: Scene) -> None:
    first = scene.begin(b"one")
    scene.scan(first)
    (scene.root / "a/one.txt").write_text("after the first scan")
    scene.snapshot(b"two")  # it watches a
    scene.snapshot(b"two")
    scene.watch.end(first)

    assert scene.snapshot(b"one") == scene.fresh()


def test_a_file_with_two_names_is_always_looked_at(scene: Scene, tmp_path: Path) -> None:
    """The kernel gives notice only in the directory whose name was used."""
    other = tmp_path / "other-name"
    other.write_text("1")
    os.link(other, scene.root / "a/shared")
    scene.warm()
    other.write_text("changed by its other name")

    assert scene.snapshot() == scene.fresh()
    assert scene.watch.why_not is None


def test_a_file_that_gets_a_second_name_later_is_looked_at_from_then_on(scene: Scene, tmp_path: Path) -> None:
    scene.warm()
    other = tmp_path / "other-name"
    other.write_text("1")
    os.link(other, scene.root / "a/shared")
    scene.snapshot()
    other.write_text("changed by its other name")

    assert scene.snapshot() == scene.fresh()
    assert scene.watch.why_not is None


# -- when it cannot vouch


def test_after_a_failed_scan_everything_is_looked_at(scene: Scene) -> None:
    scene.warm()
    (scene.root / "a/one.txt").write_text("changed")
    scene.watch.fail(scene.begin())

    assert scene.begin().changed is None


def test_after_an_overflow_everything_is_looked_at(scene: Scene) -> None:
    """A real one: more events than the queue holds."""
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 200_000:
        pytest.skip("the queue of this machine is too long to be filled")
    scene.warm()
    for number in range(most + 10):
        os.utime(scene.root / ("a/one.txt" if number % 2 else "b/two.txt"), ns=(number, number))
    (scene.root / "a/sub/deep.txt").write_text("nobody tells of this")

    assert scene.snapshot() == scene.fresh()
    assert "could not tell all" in str(scene.watch.why_not)
    assert scene.snapshot() == scene.fresh()
    scene.snapshot()
    assert scene.watch.why_not is None  # it has recovered


def fail(self: Inotify) -> NoReturn:
    raise OSError(errno.EIO, "broken")


def test_after_an_error_everything_is_looked_at(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.warm()
    (scene.root / "a/one.txt").write_text("changed")
    monkeypatch.setattr(Inotify, "read", fail)

    assert scene.snapshot() == scene.fresh()
    assert "broken" in str(scene.watch.why_not)


def test_what_one_set_of_rules_could_not_be_told_no_other_vouches_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        scene.snapshot(b"others")
    scene.warm()
    (scene.root / "a/one.txt").write_text("changed")
    with monkeypatch.context() as broken:
        broken.setattr(Inotify, "read", fail)
        scene.snapshot()

    assert scene.begin(b"others").changed is None


def test_after_a_restart_everything_is_looked_at(scene: Scene) -> None:
    scene.warm()
    cache = scene.begin().cache
    scene.watch.stop()
    (scene.root / "a/one.txt").write_text("while nobody watched")
    with Watch(str(scene.root)) as watch:
        lens = watch.begin(b"rules", lambda: cache)
        assert lens.changed is None
        assert scene.scan(lens) == scene.fresh()


def test_when_another_directory_is_in_the_place_of_the_root_everything_is_looked_at(scene: Scene) -> None:
    scene.warm()
    scene.root.rename(scene.root.parent / "old")
    build(scene.root, {b"a": {b"one.txt": b"other"}})

    assert scene.snapshot() == scene.fresh()
    assert scene.watch.why_not is not None
    (scene.root / "a/one.txt").write_text("changed")
    assert scene.snapshot() == scene.fresh()


def test_when_the_parent_of_the_root_was_replaced_everything_is_looked_at(tmp_path: Path) -> None:
    """No event tells of it: the root itself did not move."""
    parent = tmp_path.resolve() / "parent"
    build(parent / "root", TREE)
    scene = Scene(parent / "root")
    with scene.watch:
        scene.warm()
        parent.rename(tmp_path / "elsewhere")
        build(parent / "root", {b"a": {b"one.txt": b"other"}})

        assert scene.snapshot() == scene.fresh()
        assert "another directory" in str(scene.watch.why_not)


def test_after_a_mount_everything_is_looked_at(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's table of mounts is compared, because no event tells of one."""
    table = tmp_path / "mountinfo"
    table.write_bytes(Path("/proc/self/mountinfo").read_bytes())
    monkeypatch.setattr(directory_watch, "_TABLE", str(table))
    scene.snapshot()
    scene.warm()
    with table.open("a") as file:
        file.write(f"999 1 0:99 / {scene.root}/a\\040b rw - tmpfs tmpfs rw\n")
    scene.snapshot()
    assert "mounted" in str(scene.watch.why_not)

    scene.warm()
    with table.open("a") as file:  # elsewhere: none of our business
        file.write(f"998 1 0:98 / {scene.root}-other rw - tmpfs tmpfs rw\n")
    scene.snapshot()
    assert scene.watch.why_not is None


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "9p"])
def test_where_others_may_write_without_notice_it_never_vouches(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 / / rw - ext4 dev rw\n2 1 0:2 / {scene.root} rw shared:1 - {kind} host rw\n")
    monkeypatch.setattr(directory_watch, "_TABLE", str(table))
    for _ in range(4):
        assert scene.begin().changed is None
        scene.watch.fail(scene.begin())
        assert scene.snapshot() == scene.fresh()
    assert "without notice" in str(scene.watch.why_not)


def test_when_the_system_has_no_watches_left_it_never_vouches(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Inotify, directory: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "no watches left")

    monkeypatch.setattr(Inotify, "add", refuse)
    for _ in range(4):
        assert scene.snapshot() == scene.fresh()
        assert scene.watch.why_not is not None


def test_a_forked_child_does_not_vouch_and_takes_no_event_from_its_parent(scene: Scene) -> None:
    scene.warm()
    (scene.root / "a/one.txt").write_text("changed")
    child = os.fork()
    if child == 0:
        is_right = not scene.watch.is_running and scene.begin().changed is None
        scene.watch.after_fork()
        os._exit(0 if is_right and scene.begin().changed is None else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert scene.begin().changed == frozenset({b"a"})


def test_from_time_to_time_everything_is_looked_at(scene: Scene) -> None:
    """For what no event tells of: writes through a memory map."""
    scene.warm()
    scene.now += watch.TRUSTED + 1

    assert scene.begin().changed is None


def test_of_two_scans_at_once_the_second_one_looks_at_everything(scene: Scene) -> None:
    scene.warm()
    first, second = scene.begin(), scene.begin()

    assert first.changed == frozenset()
    assert second.changed is None
    assert second.cache is not first.cache


def test_other_rules_have_not_seen_anything_yet(scene: Scene) -> None:
    scene.warm()

    assert scene.begin(b"others").changed is None


def test_a_stopped_watch_does_not_vouch(scene: Scene) -> None:
    scene.warm()
    before = len(os.listdir("/proc/self/fd"))
    scene.watch.stop()
    scene.watch.stop()

    assert len(os.listdir("/proc/self/fd")) == before - 2
    assert not scene.watch.is_running
    assert scene.begin().changed is None


def test_stopping_saves_what_was_seen(scene: Scene, tmp_path: Path) -> None:
    def open_cache() -> StatCache:
        return StatCache.open(tmp_path / "cache", str(scene.root), b"key")

    for content in ("1", "2", "3", "4"):
        (scene.root / "a/one.txt").write_text(content)
        lens = scene.watch.begin(b"rules", open_cache)
        tree = scene.scan(lens)
        scene.watch.end(lens)
    assert open_cache().tree != tree
    scene.watch.stop()
    assert open_cache().tree == tree
