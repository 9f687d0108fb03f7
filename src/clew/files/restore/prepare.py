"""Before a restore changes anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from clew.errors import CorruptError, DiskFullError, InvalidError, RootRefusedError
from clew.files.journal import Restore
from clew.files.objects.format import (
    CHUNKED,
    EXECUTABLE,
    FOLDER,
    Directory,
    TreeEntry,
    check_name,
    decode_chunks,
)
from clew.files.restore.plan import (
    EMPTY,
    EMPTY_TREE,
    GetDirectories,
    Plan,
    Present,
    Selection,
    Step,
    find_entry,
    make_plan,
    parents,
)
from clew.files.restore.root import PERMISSIONS, Nearby, Root, status
from clew.files.snapshot.ignore import NORMAL, RULE_FILES, Ignore, Rules

if TYPE_CHECKING:
    from clew.files.objects.store import ObjectReader
    from clew.model.files import KeptReason, Snapshot

# ── Look at the disk before a restore: what is in its way there that the trees do not show ────────
# Ignored files are in no snapshot, and some can not be kept at all. A file that a restore would have to
# replace is saved first, ignored or not; what can not be saved is not touched.


class Survey(msgspec.Struct, frozen=True):
    unsaved: frozenset[bytes]
    """Files and links where the plan would create something: not in the safety snapshot."""
    folders: frozenset[bytes]
    """Directories that are there already."""
    foreign: frozenset[bytes]
    """Directories that can not be replaced: other mounts, or ones with files that are not ours."""


def survey(root: Root | None, plan: Plan) -> Survey:
    """`root` None: there is no such directory yet."""
    unsaved, folders, foreign = set[bytes](), set[bytes](), set[bytes]()
    if root is not None:
        absent: set[bytes] = set()
        with Nearby(root) as nearby:
            for step in plan.steps:
                if step.verb == "create":
                    _look_at_place(root, nearby, step, absent, unsaved, folders, foreign)
        for step in plan.steps:
            if _is_folder_replaced(step) and _holds_others(root, step.path, plan.steps):
                foreign.add(step.path)
    return Survey(frozenset(unsaved), frozenset(folders), frozenset(foreign))


def unusual_modes(root: Root, plan: Plan) -> dict[bytes, int]:
    """Permissions of what will go that a snapshot does not keep, so that they can come back."""
    modes: dict[bytes, int] = {}
    with Nearby(root) as nearby:
        for step in plan.steps:
            found = None if step.old is None else _status(nearby, step.path)
            if step.old is None or found is None or stat.S_ISLNK(found.st_mode):
                continue
            mode = found.st_mode & PERMISSIONS
            is_plain = step.old.is_file and not step.old.kind & EXECUTABLE
            if mode != (0o644 if is_plain else 0o755):
                modes[step.path] = mode
    return modes


def _look_at_place(
    root: Root,
    nearby: Nearby,
    step: Step,
    absent: set[bytes],
    unsaved: set[bytes],
    folders: set[bytes],
    foreign: set[bytes],
) -> None:
    if step.path.rpartition(b"/")[0] in absent:
        absent.add(step.path)
        return
    found = _status(nearby, step.path)
    if found is None:
        absent.add(step.path)
    elif not stat.S_ISDIR(found.st_mode):
        unsaved.add(step.path)
    elif step.new is not None and step.new.kind == FOLDER and found.st_dev == root.device:
        folders.add(step.path)
    else:
        foreign.add(step.path)


def _status(nearby: Nearby, path: bytes) -> os.stat_result | None:
    try:
        return status(*nearby.parent(path))
    except OSError:
        return None  # it is not there, or not to be reached: then the restore will not reach it either


def _is_folder_replaced(step: Step) -> bool:
    old, new = step.old, step.new
    return old is not None and new is not None and old.kind == FOLDER and new.kind != FOLDER


def _holds_others(root: Root, path: bytes, steps: Sequence[Step]) -> bool:
    """Whether a directory holds anything that the plan does not delete."""
    deleted = {step.path for step in steps if step.verb == "delete" and step.path.startswith(path + b"/")}
    left = [path]
    while left:
        folder = left.pop()
        try:
            inside = _names(root, folder)
        except OSError:
            return True  # it can not be told
        for name, is_folder in inside:
            below = folder + b"/" + name
            if below not in deleted:
                return True
            if is_folder:
                left.append(below)
    return False


def _names(root: Root, path: bytes) -> list[tuple[bytes, bool]]:
    """What a directory holds, and whether each is a directory."""
    with root.folder(path) as fd, os.scandir(fd) as entries:
        return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]


# ── Presence ──────────────────────────────────────────────────────────────────────────────────────
# Before a restore changes anything: is all in the store that it needs, and all that an undo would need? And
# is there room for what it writes?

ASKED_AT_ONCE: Final = 500


def check_all_is_there(reader: ObjectReader, steps: Iterable[Step]) -> None:
    """P13: before the first change, all that will be written, and all that will go, is in the store, or
    will be in the transaction that begins the restore."""
    leaves = [entry for step in steps for entry in (step.new, step.old) if entry and entry.kind != FOLDER]
    names = dict.fromkeys(entry.digest for entry in leaves)
    for entry in leaves:
        if entry.kind & CHUNKED:
            names.update(dict.fromkeys(_chunks(reader, entry)))
    asked = list(names)
    for first in range(0, len(asked), ASKED_AT_ONCE):
        reader.check_there(asked[first : first + ASKED_AT_ONCE])


def check_room(root: str, steps: Iterable[Step]) -> None:
    """DiskFullError: what the directories of the snapshot say that files will take is more than is free, even
    when all that goes is gone. So it is said before the first change, and a made-up size costs nothing."""
    needed = sum(_size(step.new) - _size(step.old) for step in steps)
    stat = os.statvfs(root)
    free = stat.f_bavail * stat.f_frsize
    if needed > free:
        raise DiskFullError(
            f"{free:,} bytes are free in {root}; the restore needs {needed:,} more than it frees"
        )


def _size(entry: TreeEntry | None) -> int:
    return entry.size if entry is not None and entry.is_file else 0


def _chunks(reader: ObjectReader, entry: TreeEntry) -> list[bytes]:
    try:
        return [chunk.digest for chunk in decode_chunks(reader.get(entry.digest))]
    except ValueError as exc:
        raise CorruptError(f"the content of {entry.name!r} is damaged: {exc}") from exc


# ── The plan of a restore: made of trees, of what the disk holds beside them, of the paths asked for ───

Spare: TypeAlias = Callable[[Sequence[Step]], frozenset[bytes]]
"""Of the deletions of a plan, the paths that stay, or the directories that stay with all in them."""


class RestorePlan:
    """A plan in the making: the disk may hold what the trees do not show."""

    def __init__(
        self,
        reader: ObjectReader,
        target: bytes,
        last: bytes | None,
        wanted: tuple[bytes, ...] | None,
        *,
        overwrite: bool,
        clears: bool = False,
        spare: Spare | None = None,
    ) -> None:
        """`spare`: which of the paths that would be deleted stay."""
        self._directories = directories_of(reader)
        self._target = target
        self._last = last
        self._wanted = wanted
        self.overwrite = overwrite
        self._clears = clears
        self._spare = spare or (lambda steps: frozenset())
        self.now = EMPTY_TREE
        self.present = Present()
        self.modes: dict[bytes, int] = {}
        self.plan: Plan

    def look_at(
        self,
        root: str,
        look: Callable[[Collection[bytes]], bytes] | None,
        take_safety: Callable[[Collection[bytes]], tuple[str, bytes]],
    ) -> str | None:
        """Plan for the present state; the id of its snapshot."""

        def save(also: Collection[bytes]) -> str | None:
            if look is None:
                id, self.now = take_safety(also)
                return id
            self.now = look(also)
            return None

        if not os.path.isdir(root):  # of a dry run
            self._check_paths()
            self._make()
            return None
        safety = save(())
        self._check_paths()
        with open_root(root) as opened:
            self._make_sparing()
            seen = survey(opened, self.plan)
            if seen.unsaved:
                safety = save(seen.unsaved)
                self._make_sparing()
                seen = survey(opened, self.plan)
            spared = self.present.blocked
            self.present = Present(seen.folders, seen.unsaved | seen.foreign | spared)
            if self.present != Present(blocked=spared):
                self._make()
            if look is None:
                self.modes = unusual_modes(opened, self.plan)
        return safety

    def essence(self) -> dict[str, Any]:
        """The fields of a journal from which `planned` makes the same plan."""
        return {
            "target": self._target,
            "last": self._last,
            "now": self.now,
            "paths": self._wanted,
            "overwrite": self.overwrite,
            "clears": self._clears,
            "folders": tuple(sorted(self.present.folders)),
            "blocked": tuple(sorted(self.present.blocked)),
            "modes": self.modes,
        }

    def _make_sparing(self) -> None:
        self.present = Present()
        self._make()
        spared = self._spare([step for step in self.plan.steps if step.new is None])
        if spared:
            self.present = Present(blocked=spared)
            self._make()

    def _make(self) -> None:
        self.plan = make_plan(
            self._target,
            self._last,
            self.now,
            self._directories,
            selection=Selection(self._wanted),
            overwrite=self.overwrite,
            clears=self._clears,
            present=self.present,
        )

    def _check_paths(self) -> None:
        trees = [tree for tree in (self._target, self._last, self.now) if tree is not None]
        unknown = [
            os.fsdecode(path)
            for path in self._wanted or ()
            if not any(find_entry(tree, path, self._directories) for tree in trees)
        ]
        if unknown:
            raise InvalidError(f"no snapshot knows {', '.join(map(repr, unknown))}")


def directories_of(reader: ObjectReader) -> GetDirectories:
    """How plans read trees: a directory that was read is not read again."""
    read: dict[bytes, Directory] = {}

    def get(names: Collection[bytes]) -> dict[bytes, Directory]:
        missing = [name for name in names if name not in read]
        for name, content in reader.get_many(missing) if missing else ():
            try:
                read[name] = Directory(content)
            except ValueError as exc:
                raise CorruptError(f"the object {name.hex()} is no directory of a snapshot: {exc}") from exc
        return read

    return get


def open_root(root: str, *, make: bool = False) -> Root:
    try:
        if make:
            os.makedirs(root, exist_ok=True)
        return Root(root)
    except OSError as exc:
        raise RootRefusedError(root, exc.strerror or str(exc)) from exc


def planned(reader: ObjectReader, record: Restore) -> Plan:
    """The plan that a restore had: from the same trees, the same steps."""
    return make_plan(
        record.target,
        record.last,
        record.now,
        directories_of(reader),
        selection=Selection(record.paths),
        overwrite=record.overwrite,
        clears=record.clears,
        present=Present(frozenset(record.folders), frozenset(record.blocked)),
    )


def clean_paths(paths: Sequence[str]) -> tuple[bytes, ...]:
    if isinstance(paths, str):
        raise InvalidError(f"paths must be a sequence of paths, not the text {paths!r}")
    return tuple(dict.fromkeys(map(_clean_path, paths)))


def _clean_path(path: str) -> bytes:
    """A path below the root, as trees have it; empty for the root."""
    if not isinstance(path, str):
        raise InvalidError(f"paths must be text, not {type(path).__name__}: {path!r}")
    names = [name for name in os.fsencode(path).split(b"/") if name not in (b"", b".")]
    try:
        if path.startswith("/"):
            raise ValueError("it must be relative to the root")
        for name in names:
            check_name(name)
    except ValueError as exc:
        raise InvalidError(f"{path!r} is no path below the root: {exc}") from exc
    return b"/".join(names)


# ── Sparing ───────────────────────────────────────────────────────────────────────────────────────
# What a restore leaves although its snapshot does not hold it: nobody can tell that it was not there then.
#
# A snapshot leaves out what was ignored, and lists what it had to skip. A file of that kind may be older than
# the snapshot: a `.env` that the `.gitignore` of then ignored, and that of now does not. So the rules of the
# snapshot are asked, not only those of the present. A repository that came since stays whole, because its
# `.git` can not be kept.


class SnapshotOmissions:
    """The question for one snapshot. `reasons` has an answer for each path that was spared."""

    def __init__(
        self,
        snapshot: Snapshot,
        objects: ObjectReader,
        left_out: Callable[[], Mapping[bytes, KeptReason]],
    ) -> None:
        """`left_out`: what the safety snapshot does not hold, as soon as it is taken."""
        self.reasons: dict[bytes, KeptReason] = {}
        self._tree = bytes.fromhex(snapshot.tree)
        self._objects = objects
        self._directories = directories_of(objects)
        self._left_out = left_out
        self._ignore = Ignore(snapshot.include, snapshot.exclude)
        self._skipped = {os.fsencode(one.path): one.reason for one in snapshot.skipped}
        self._seen: dict[bytes, tuple[Rules, int] | None] = {}
        """By directory: the rules in it, and how it was looked at; None: not at all."""

    def __call__(self, steps: Iterable[Step]) -> frozenset[bytes]:
        """Of deletions: the paths that stay, or directories that stay with all that is in them."""
        self.reasons.clear()
        free = {b""}
        for step in steps:
            is_folder = step.old is not None and step.old.kind == FOLDER
            way = [path for path in parents(step.path) if path not in free]
            for path in (*reversed(way), step.path):
                reason = self._reason(path, is_folder=is_folder or path != step.path)
                if reason is not None:
                    self.reasons[path] = reason
                    break
                free.add(path)
        return frozenset(self.reasons)

    def _reason(self, path: bytes, *, is_folder: bool) -> KeptReason | None:
        if path in self._skipped:
            return self._skipped[path]
        if is_folder:
            is_repository = path + b"/.git" in self._left_out()
            if is_repository and find_entry(self._tree, path, self._directories) is None:
                return "nested repository"
            return "ignored" if self._inside(path) is None else None
        above, _, name = path.rpartition(b"/")
        place = self._inside(above)
        if place is None:
            return "ignored"
        takes = self._ignore.takes_file(*place, os.fsdecode(path), os.fsdecode(name))
        return None if takes else "ignored"

    def _inside(self, path: bytes) -> tuple[Rules, int] | None:
        """How the snapshot was taken in a directory, had it been there."""
        if path not in self._seen:
            self._seen[path] = self._look(path)
        return self._seen[path]

    def _look(self, path: bytes) -> tuple[Rules, int] | None:
        rules, mode = self._ignore.root, NORMAL
        if path:
            above, _, name = path.rpartition(b"/")
            place = self._inside(above)
            if place is None:
                return None
            rules = place[0]
            below = self._ignore.mode_below(*place, f"{os.fsdecode(path)}/", os.fsdecode(name))
            if below is None:
                return None
            mode = below
        prefix = f"{os.fsdecode(path)}/" if path else ""
        return rules.below(prefix, [*self._rule_files(path)]), mode

    def _rule_files(self, path: bytes) -> Iterator[tuple[str, bytes]]:
        found = find_entry(self._tree, path, self._directories)
        if found is None or found.kind != FOLDER:
            return
        folder = self._folder(found.digest)
        for name in RULE_FILES:
            entry = folder.get(name.encode())
            if entry is not None and entry.is_file and not entry.kind & CHUNKED:
                yield name, self._objects.get(entry.digest)

    def _folder(self, digest: bytes) -> Directory:
        return EMPTY if digest == EMPTY_TREE else self._directories([digest])[digest]
