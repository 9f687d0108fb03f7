"""What a restore does to each path: a plan made of three trees.

    target   the snapshot to go back to
    last     the newest snapshot that was taken of this directory: what is known, and was seen to be safe
    now      the present state, saved just before

A path is made what `target` says. What `target` does not name is deleted if `last` knew it; the rest, if
`clears` says that `target` is meant to be all there is. A path that is not as `last` has it was changed
since: a conflict, which `overwrite` decides.

Trees are compared directory by directory, and equal ones are not entered: the plan costs what differs.
Nothing here recurses, so that no tree is too deep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from clew.files.objects.format import (
    EMPTY,
    EMPTY_TREE,
    EXECUTABLE,
    FOLDER,
    Directory,
    GetDirectories,
    TreeBudget,
    TreeEntry,
)
from clew.model.files import FileKind, FileVerb

NEVER: Final = b".git"
"""A user's repository is none of ours, whatever a tree says."""


class Step(msgspec.Struct, frozen=True):
    """One thing to do to one path. Where a folder comes or goes, what is in it has steps of its own."""

    path: bytes
    verb: FileVerb
    new: TreeEntry | None
    old: TreeEntry | None
    conflict: bool = False

    @property
    def kind(self) -> FileKind:
        entry = self.new or self.old
        assert entry is not None
        return "file" if entry.is_file else "directory" if entry.kind == FOLDER else "link"


class Plan(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    """Folders before what is in them."""
    conflicts: tuple[bytes, ...]
    kept: tuple[bytes, ...]
    """Conflicts that stay as they are."""
    unknown: tuple[bytes, ...] = ()
    """What neither `target` nor `last` names, and stays."""


class Present(msgspec.Struct, frozen=True):
    """What is in the way on disk although `now` does not show it: ignored, or not to be saved."""

    folders: frozenset[bytes] = frozenset()
    """Directories that are there, with nothing of ours in them."""
    blocked: frozenset[bytes] = frozenset()
    """Paths that are not touched: they cannot be saved, or may have been there without a snapshot of it."""


class Selection:
    """The paths that were asked for: all, or these and whatever is below them."""

    def __init__(self, paths: Collection[bytes] | None) -> None:
        self.is_everything = paths is None or b"" in paths
        self.paths = frozenset(paths or ())
        self.above = frozenset(above for path in self.paths for above in parents(path))


class _Node(msgspec.Struct):
    """A path where something differs."""

    path: bytes
    target: TreeEntry | None
    last: TreeEntry | None
    now: TreeEntry | None
    parent: int
    is_whole: bool
    """It was asked for, not only something below it."""
    is_conflict: bool = False
    stays: bool = False
    """Nothing is done to it, nor to anything below it, by this plan."""
    vanishes: bool = True
    """Nothing of what is there now will be left."""
    is_needed: bool = False
    """Something below it is to be made."""

    @property
    def is_unknown(self) -> bool:
        """It is there, and no snapshot says so."""
        return self.now is not None and self.target is None and self.last is None

    @property
    def may_hold_ours(self) -> bool:
        """Else whatever is in it now is not ours."""
        return _is_folder(self.target) or _is_folder(self.last)

    def folders(self) -> Iterator[bytes]:
        for entry in (self.target, self.last, self.now):
            if entry is not None and entry.kind == FOLDER and entry.digest != EMPTY_TREE:
                yield entry.digest


def make_plan(
    target: bytes,
    last: bytes | None,
    now: bytes,
    directories: GetDirectories,
    *,
    selection: Selection | None = None,
    overwrite: bool = False,
    clears: bool = False,
    present: Present | None = None,
) -> Plan:
    """`overwrite`: conflicts too become what the target says. `clears`: what neither the target nor the
    last snapshot names is a conflict; else it is not ours. CorruptError: there are more paths than any
    snapshot has."""
    planner = _Planner(
        directories, selection or Selection(None), present or Present(), overwrite=overwrite, clears=clears
    )
    return planner.plan(target, last, now)


def reverse(steps: Collection[Step]) -> tuple[Step, ...]:
    """The steps that take these back."""
    verbs: Mapping[FileVerb, FileVerb] = {"create": "delete", "delete": "create"}
    return tuple(Step(step.path, verbs.get(step.verb, step.verb), step.old, step.new) for step in steps)


def parents(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the nearest first, the root (empty) last."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


class _Planner:
    def __init__(
        self,
        directories: GetDirectories,
        selection: Selection,
        present: Present,
        *,
        overwrite: bool,
        clears: bool,
    ) -> None:
        self._directories = directories
        self._selection = selection
        self._present = present
        self._overwrite = overwrite
        self._clears = clears
        self._removes_unknown = overwrite and clears
        self._nodes: list[_Node] = []
        self._budget = TreeBudget()

    def plan(self, target: bytes, last: bytes | None, now: bytes) -> Plan:
        before = _folder(last) if last else None
        root = _Node(b"", _folder(target), before, _folder(now), -1, self._selection.is_everything)
        self._nodes = [root]
        if target != now:
            self._find_differences()
        for node in self._nodes[1:]:
            self._judge_alone(node)
        for node in reversed(self._nodes[1:]):
            self._judge_with_content(node)
        return self._write_down()

    # -- what differs

    def _find_differences(self) -> None:
        """Grow the list of nodes, level by level: parents come first."""
        first = 0
        while first < len(self._nodes):
            after = len(self._nodes)
            level = [at for at in range(first, after) if self._is_entered(self._nodes[at])]
            folders = [entry for at in level for entry in self._nodes[at].folders()]
            read = self._directories(list(dict.fromkeys(folders))) if folders else {}
            for at in level:
                self._look_into(at, read)
            first = after

    def _is_entered(self, node: _Node) -> bool:
        return (self._removes_unknown or node.may_hold_ours) and not self._must_not_touch(node)

    def _look_into(self, at: int, read: Mapping[bytes, Directory]) -> None:
        node = self._nodes[at]
        target, last, now = (_directory(entry, read) for entry in (node.target, node.last, node.now))
        for name in target.names_of_differences(now):
            path = node.path + b"/" + name if node.path else name
            found = now.get(name)
            if found is None and path in self._present.folders:
                found = TreeEntry(name, FOLDER, EMPTY_TREE, 0)
            self._add(at, path, target.get(name), last.get(name), found)

    def _add(
        self,
        parent: int,
        path: bytes,
        target: TreeEntry | None,
        last: TreeEntry | None,
        now: TreeEntry | None,
    ) -> None:
        if _is_same(target, now):
            return
        is_whole = self._nodes[parent].is_whole or path in self._selection.paths
        if is_whole or path in self._selection.above:
            self._budget.spend(path)
            self._nodes.append(_Node(path, target, last, now, parent, is_whole))

    # -- what to do

    def _judge_alone(self, node: _Node) -> None:
        """All that can be said of a path without what is below it."""
        target, now = node.target, node.now
        if self._must_not_touch(node):
            node.is_conflict = target is not None
            node.stays = True
        elif node.is_unknown and node.is_whole:
            node.is_conflict = self._clears
            node.stays = not self._removes_unknown
        elif now is None or now.kind == FOLDER:
            node.stays = node.is_unknown and not self._removes_unknown
        elif not node.is_whole:  # a file where a folder would have to be, for something in it
            node.is_conflict = node.stays = _is_folder(target)
        else:
            node.is_conflict = not _is_same(node.last, now)
            node.stays = node.is_conflict and not self._overwrite
        if now is not None and now.kind != FOLDER:
            node.vanishes = not node.stays and node.is_whole

    def _must_not_touch(self, node: _Node) -> bool:
        name = node.path.rpartition(b"/")[2]
        return name.lower() == NEVER or node.path in self._present.blocked

    def _judge_with_content(self, node: _Node) -> None:
        """Children come before their parents here."""
        is_folder = _is_folder(node.now)
        if is_folder and not _is_folder(node.target):
            is_ours = self._removes_unknown or _is_folder(node.last)
            node.vanishes = node.vanishes and node.is_whole and not node.stays and is_ours
            if node.target is not None and node.is_whole and not node.vanishes and not node.stays:
                node.is_conflict = node.stays = True
        elif is_folder:
            node.vanishes = False
        parent = self._nodes[node.parent]
        parent.vanishes = parent.vanishes and node.vanishes
        if node.target is not None and not node.stays and (node.is_whole or node.is_needed):
            parent.is_needed = True

    # -- the plan

    def _write_down(self) -> Plan:
        steps: list[Step] = []
        stays = [False] * len(self._nodes)
        for at, node in enumerate(self._nodes[1:], start=1):
            stays[at] = node.stays or stays[node.parent]
            if not stays[at]:
                steps += self._steps(node)
        steps.sort(key=lambda step: step.path.split(b"/"))
        conflicts = sorted(node.path for node in self._nodes if node.is_conflict)
        kept = sorted(node.path for at, node in enumerate(self._nodes) if node.is_conflict and stays[at])
        unknown = sorted(node.path for node in self._nodes[1:] if self._is_left(node))
        return Plan(tuple(steps), tuple(conflicts), tuple(kept), tuple(unknown))

    def _is_left(self, node: _Node) -> bool:
        is_touchable = not self._must_not_touch(node)
        return node.is_unknown and node.is_whole and not node.is_conflict and is_touchable

    def _steps(self, node: _Node) -> Iterator[Step]:
        target, now = node.target, node.now
        if _is_folder(target) and _is_folder(now):
            return
        if not node.is_whole:
            if _is_folder(target) and now is None and node.is_needed:
                yield Step(node.path, "create", target, None)
        elif target is None:
            if node.vanishes:
                yield Step(node.path, "delete", None, now, node.is_conflict)
        elif now is None:
            yield Step(node.path, "create", target, None)
        else:
            yield Step(node.path, _verb(target, now), target, now, node.is_conflict)


def _verb(target: TreeEntry, now: TreeEntry) -> FileVerb:
    is_mode = target.is_file and target.digest == now.digest and target.kind ^ now.kind == EXECUTABLE
    return "mode" if is_mode else "overwrite"


def _folder(tree: bytes) -> TreeEntry:
    return TreeEntry(b"", FOLDER, tree, 0)


def _is_folder(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind == FOLDER


def _is_same(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.kind == other.kind and one.digest == other.digest


def _directory(entry: TreeEntry | None, read: Mapping[bytes, Directory]) -> Directory:
    if entry is None or entry.kind != FOLDER or entry.digest == EMPTY_TREE:
        return EMPTY
    return read[entry.digest]
