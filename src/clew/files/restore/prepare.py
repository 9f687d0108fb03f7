"""Before a restore changes anything: look at the directory, plan, and see that all is there.

Ignored files are in no snapshot, and some cannot be kept at all. A file that a restore would have to
replace is saved first, ignored or not; what cannot be saved is not touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from clew.errors import CorruptError, DiskFullError, InvalidError, RootRefusedError
from clew.files.objects.format import (
    CHUNKED,
    EMPTY_TREE,
    EXECUTABLE,
    FOLDER,
    GetDirectories,
    TreeEntry,
    check_name,
    decode_chunks,
    find_entry,
)
from clew.files.objects.store import directories_of
from clew.files.restore.plan import Plan, Present, Selection, Step, make_plan
from clew.files.restore.root import PERMISSIONS, Nearby, Root, status

if TYPE_CHECKING:
    from clew.files.journal import Restore
    from clew.files.objects.store import ObjectReader
    from clew.files.restore.job import RestoreJob
    from clew.files.restore.safety import SafetySnapshot
    from clew.model.files import KeptReason


class RestorePlan(msgspec.Struct, frozen=True):
    """The steps of a restore, and what they were planned for: from it `planned` makes the same steps."""

    plan: Plan
    now: bytes
    """The tree of the present state, as the safety snapshot has it."""
    present: Present
    modes: dict[bytes, int]
    """Permissions of what goes, where they are not the usual ones."""
    left_out: dict[bytes, KeptReason]
    """What is there, stays, and is in no snapshot; and why."""


def prepare(job: RestoreJob, safety: SafetySnapshot) -> RestorePlan:
    """Plan for the present state, which `safety` then holds."""
    directories = directories_of(safety.objects)
    if not os.path.isdir(job.root):  # of a dry run
        check_paths(job, EMPTY_TREE, directories)
        nothing = Present()
        return RestorePlan(_plan(job, EMPTY_TREE, directories, nothing), EMPTY_TREE, nothing, {}, {})
    now = safety.look(())
    check_paths(job, now, directories)
    with open_root(job.root) as root:
        plan, spared = _plan_sparing(job, now, directories, safety)
        seen = survey(root, plan)
        if seen.unsaved:
            now = safety.look(seen.unsaved)
            plan, spared = _plan_sparing(job, now, directories, safety)
            seen = survey(root, plan)
        present = Present(seen.folders, seen.unsaved | seen.foreign | spared.keys())
        if present != Present(blocked=frozenset(spared)):
            plan = _plan(job, now, directories, present)
        modes = {} if job.dry_run else unusual_modes(root, plan)
    return RestorePlan(plan, now, present, modes, {**safety.left_out(), **spared})


def _plan(job: RestoreJob, now: bytes, directories: GetDirectories, present: Present) -> Plan:
    return make_plan(
        job.target,
        job.last,
        now,
        directories,
        selection=Selection(job.paths),
        overwrite=job.overwrites,
        clears=job.clears,
        present=present,
    )


def _plan_sparing(
    job: RestoreJob, now: bytes, directories: GetDirectories, safety: SafetySnapshot
) -> tuple[Plan, dict[bytes, KeptReason]]:
    """The plan without those deletions that are not sure to be right; and these, with the reasons."""
    plan = _plan(job, now, directories, Present())
    spared = safety.spared([step for step in plan.steps if step.new is None])
    if spared:
        plan = _plan(job, now, directories, Present(blocked=frozenset(spared)))
    return plan, spared


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


# -- the paths that were asked for


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


def check_paths(job: RestoreJob, now: bytes, directories: GetDirectories) -> None:
    trees = [tree for tree in (job.target, job.last, now) if tree is not None]
    unknown = [
        os.fsdecode(path)
        for path in job.paths or ()
        if not any(find_entry(tree, path, directories) for tree in trees)
    ]
    if unknown:
        raise InvalidError(f"no snapshot knows {', '.join(map(repr, unknown))}")


# -- what is on the disk


def open_root(root: str, *, make: bool = False) -> Root:
    try:
        if make:
            os.makedirs(root, exist_ok=True)
        return Root(root)
    except OSError as exc:
        raise RootRefusedError(root, exc.strerror or str(exc)) from exc


class Survey(msgspec.Struct, frozen=True):
    """What is in the way of a plan on the disk, and the trees do not show."""

    unsaved: frozenset[bytes]
    """Files and links where the plan would create something: not in the safety snapshot."""
    folders: frozenset[bytes]
    """Directories that are there already."""
    foreign: frozenset[bytes]
    """Directories that cannot be replaced: other mounts, or ones with files that are not ours."""


def survey(root: Root, plan: Plan) -> Survey:
    unsaved, folders, foreign = set[bytes](), set[bytes](), set[bytes]()
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
            return True  # it cannot be told
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


# -- whether all is there, and room for it


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
