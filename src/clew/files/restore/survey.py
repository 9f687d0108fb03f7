"""Look at the disk before a restore: what is in its way there that the trees do not show.

Ignored files are in no snapshot, and some can not be kept at all. A file that a restore would have to
replace is saved first, ignored or not; what can not be saved is not touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import msgspec

from clew.files.objects.format import EXECUTABLE, FOLDER
from clew.files.restore.plan import Plan, Step
from clew.files.restore.rooted import PERMISSIONS, Nearby, Root, status


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
